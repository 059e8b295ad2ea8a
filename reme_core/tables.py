"""The tables and views of memory as SQLAlchemy Core metadata, with their types and comments: `reme_core.tables.memory`.

```python
from sqlalchemy import select

from reme_core import ReMe, tables

with ReMe() as reme, reme.engine("alice").connect() as connection:
    for row in connection.execute(select(tables.memory_current.c.content).limit(3)):
        print(row.content)
```

They are read from `tables.json`, which `python docs/make_tables.py` writes off a migrated database.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, Final

from pgvector.sqlalchemy import HALFVEC, VECTOR
from sqlalchemy import BigInteger, Boolean, Column, Date, Double, Integer, LargeBinary, MetaData, Numeric, Table, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, REAL, TIMESTAMP, TSTZRANGE
from sqlalchemy.types import TypeEngine

_TYPES: Final[dict[str, TypeEngine[Any]]] = {
    "text": Text(),
    "bigint": BigInteger(),
    "integer": Integer(),
    "smallint": Integer(),
    "numeric": Numeric(),
    "double precision": Double(),
    "real": REAL(),
    "boolean": Boolean(),
    "date": Date(),
    "bytea": LargeBinary(),
    "jsonb": JSONB(),
    "halfvec": HALFVEC(),
    "vector": VECTOR(),
    "tstzrange": TSTZRANGE(),
    "timestamp with time zone": TIMESTAMP(timezone=True),
}

metadata = MetaData(schema="reme")
"""All of them; `metadata.tables["reme.memory"]` is `memory`."""


def type_of(name: str) -> TypeEngine[Any]:
    """The type of a column by the name that Postgres gives it, such as `text[]`."""
    item = name.removesuffix("[]").partition("(")[0]  # `halfvec(384)` has its size in parentheses
    return ARRAY(_TYPES[item]) if name.endswith("[]") else _TYPES[item]


def _read() -> None:
    described = json.loads(files("reme_core").joinpath("tables.json").read_text(encoding="utf-8"))
    for name, relation in described.items():
        columns = [
            Column(
                column["name"],
                type_of(column["type"]),
                primary_key=column["key"],
                nullable=column["nullable"],
                comment=column["comment"],
            )
            for column in relation["columns"]
        ]
        Table(name, metadata, *columns, comment=relation["comment"], info={"is_view": relation["view"]})


# At import, so that `metadata` is whole for whoever iterates over it.
_read()


def __getattr__(name: str) -> Table:
    if (found := metadata.tables.get(f"reme.{name}")) is None:
        raise AttributeError(f"there is no table or view reme.{name}; there are {', '.join(__dir__())}")
    return found


def __dir__() -> list[str]:
    return sorted(table.name for table in metadata.tables.values())
