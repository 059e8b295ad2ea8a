"""Write reme_core/tables.json, from which `reme_core.tables` is made, off a freshly migrated database.

python docs/make_tables.py
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import psycopg

from reme_core.postgres import migrate
from reme_core.postgres.embedded.server import EmbeddedServer, stop_embedded

FILE = Path(__file__).parents[1] / "reme_core" / "tables.json"
_RELATIONS = """
select c.relname, c.relkind = 'v', coalesce(obj_description(c.oid, 'pg_class'), ''),
       (select json_agg(json_build_array(a.attname, format_type(a.atttypid, a.atttypmod), not a.attnotnull,
                                         coalesce(col_description(c.oid, a.attnum), ''),
                                         coalesce(a.attnum = any(k.conkey), false)) order by a.attnum)
        from pg_attribute a
        left join pg_constraint k on k.conrelid = c.oid and k.contype = 'p'
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)
from pg_class c
where c.relnamespace = 'reme'::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
  and c.relname !~ '^(procrastinate|queue_migration|alembic)'
order by c.relname
"""


def relations(url: str) -> dict[str, Any]:
    """The tables and views of a migrated database as `tables.json` has them."""
    with psycopg.connect(url) as connection:
        return {
            name: {
                "view": is_view,
                "comment": comment,
                "columns": [
                    dict(zip(("name", "type", "nullable", "comment", "key"), column, strict=True)) for column in columns
                ],
            }
            for name, is_view, comment, columns in connection.execute(_RELATIONS)
        }


if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp(prefix="reme-", dir="/tmp"))
    server = EmbeddedServer.acquire(folder, linger_seconds=0)
    migrate.upgrade(server.url)
    FILE.write_text(json.dumps(relations(server.url), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    stop_embedded(folder)
    server.release()
    shutil.rmtree(folder)
