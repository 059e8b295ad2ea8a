"""The indexes that are being built in a database, and how far each is."""

from __future__ import annotations

from dataclasses import dataclass

from reme_core.postgres.connect import connect
from reme_core.postgres.errors import translating_errors

# While it reads the table, a build counts blocks; while it waits for others, lockers; only blocks take long.
_BUILDS = """
select i.relname, p.phase, p.blocks_done::float8 / nullif(p.blocks_total, 0)
from pg_stat_progress_create_index p
join pg_class i on i.oid = p.index_relid
where p.datname = current_database()
order by i.relname
"""


@dataclass(frozen=True, slots=True)
class IndexBuild:
    """An index that is being built."""

    index: str
    phase: str
    """What Postgres does now, in its own words."""
    share_read: float | None
    """The share of the table that is in it, 0 to 1; None in a phase that reads no table."""


def index_builds(url: str) -> list[IndexBuild]:
    """The indexes that are being built now, in the order of their names."""
    with translating_errors(url), connect(url, autocommit=True) as connection:
        return [IndexBuild(*row) for row in connection.execute(_BUILDS)]
