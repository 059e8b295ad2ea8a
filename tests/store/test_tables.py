"""The metadata of `reme_core.tables`, held against the migrated schema, and the engine that stands in a workspace."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import func, inspect, select, update
from sqlalchemy.exc import DBAPIError

from docs.make_tables import FILE, relations
from reme_core import AsyncReMe, ReMe, Settings, tables
from reme_core.errors import InputError


def test_the_metadata_is_that_of_the_migrated_schema(database_url: str) -> None:
    assert json.loads(FILE.read_text(encoding="utf-8")) == relations(database_url), "run `python docs/make_tables.py`"
    assert tables.memory.c.content.comment == "The statement itself."
    assert [column.name for column in tables.memory.primary_key] == ["workspace_id", "memory_id"]
    assert "memory_current" in dir(tables)
    with pytest.raises(AttributeError, match="there is no table or view"):
        _ = tables.memories


def test_every_table_can_be_read_with_its_types(settings: Settings) -> None:
    with ReMe(settings) as reme:
        reme.memories.add("alice", "She drinks tea.")
        engine = reme.engine("alice")
        with engine.connect() as connection:
            found = inspect(connection)
            assert {t.name for t in tables.metadata.tables.values()} <= {
                *found.get_table_names("reme"),
                *found.get_view_names("reme"),
            }
            for table in tables.metadata.tables.values():
                connection.execute(select(table).limit(1)).fetchall()
            (row,) = connection.execute(select(tables.memory)).all()
            assert (row.content, row.workspace_id, row.metadata) == ("She drinks tea.", "alice", {})
            assert len(connection.execute(select(tables.embedding.c.embedding)).scalar_one()) == 384


def test_an_engine_sees_its_workspace_alone_and_writes_only_when_asked_to(settings: Settings) -> None:
    with ReMe(settings) as reme:
        reme.memories.add("alice", "hers")
        reme.memories.add("bob", ["his", "his too"])
        count = select(func.count()).select_from(tables.memory)
        reading, writing = reme.engine("bob"), reme.engine("bob", write=True)
        change = update(tables.memory).values(subject="Bob")
        with reading.begin() as connection:
            assert connection.execute(count).scalar_one() == 2
        with pytest.raises(DBAPIError, match="read-only"), reading.begin() as connection:
            connection.execute(change)
        with writing.begin() as connection:
            assert connection.execute(change).rowcount == 2
        with pytest.raises(DBAPIError, match=r"row-level security|partition value"), writing.begin() as connection:
            connection.execute(change.values(workspace_id="alice"))
        with pytest.raises(InputError):
            reme.engine("*")


async def test_the_asynchronous_door_gives_one_too(settings: Settings) -> None:
    async with AsyncReMe(settings) as reme:
        await reme.memories.add("alice", "hers")
        engine = await reme.engine("alice")
        with engine.connect() as connection:
            assert connection.execute(select(tables.memory.c.content)).scalars().all() == ["hers"]
