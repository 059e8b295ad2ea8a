"""Migrations: forward and back, once, and with clear words when the server is not fit for them."""

from __future__ import annotations

import threading

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb
from pydantic import SecretStr

from reme_core.errors import SchemaError
from reme_core.postgres import migrate
from reme_core.postgres.database import Database
from reme_core.settings import Settings

RELATIONS = """
select c.relkind, c.relname, pg_get_viewdef(c.oid) from pg_class c
where relnamespace = 'reme'::regnamespace and relkind in ('r', 'v', 'i', 'S') order by 1, 2
"""


def relations(url: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(RELATIONS).fetchall()


def test_forward_back_and_forward_again_gives_the_same(empty_database_url: str) -> None:
    newest = migrate.versions()[-1]
    assert migrate.status(empty_database_url) == (None, newest)
    migrate.upgrade(empty_database_url)
    assert migrate.status(empty_database_url) == (newest, newest)
    made = relations(empty_database_url)

    migrate.downgrade(empty_database_url, "base")
    assert migrate.status(empty_database_url) == (None, newest)
    assert {name for _, name, _ in relations(empty_database_url)} == {"alembic_version", "alembic_version_pkc"}

    migrate.upgrade(empty_database_url)
    assert relations(empty_database_url) == made


def test_what_is_kept_of_an_episode_leaves_its_metadata_and_comes_back(database_url: str) -> None:
    migrate.downgrade(database_url, "0033")
    before = {"mistake_cards": [{"mistake_type": "early"}], "agent_memory": {"task_id": "t", "score": 1}, "own": 1}
    with psycopg.connect(database_url) as connection:
        connection.execute("insert into reme.workspace (workspace_id) values ('w')")
        columns = "workspace_id, episode_id, number, task_id, metadata"
        for number, metadata in enumerate((before, {"agent_memory": "own"}, {"mistake_cards": []})):
            values = [str(number), number, Jsonb(metadata)]
            connection.execute(f"insert into reme.episode ({columns}) values ('w', %s, %s, 't', %s)", values)
    migrate.upgrade(database_url)
    with psycopg.connect(database_url) as connection:
        read = "select metadata, mistake_cards, file_entry from reme.episode order by number"
        assert connection.execute(read).fetchall() == [
            ({"own": 1}, before["mistake_cards"], before["agent_memory"]),
            ({"agent_memory": "own"}, [], None),
            ({"mistake_cards": []}, [], None),
        ]
    migrate.downgrade(database_url, "0033")
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select metadata from reme.episode where number = 0").fetchall() == [(before,)]


def test_each_version_has_its_way_back() -> None:
    for version in migrate.versions():
        assert len(list((migrate.migrations_dir() / "sql").glob(f"{version}_*.up.sql"))) == 1
        assert len(list((migrate.migrations_dir() / "sql").glob(f"{version}_*.down.sql"))) == 1


def test_concurrent_upgrades_apply_once(empty_database_url: str) -> None:
    failures: list[BaseException] = []

    def upgrade() -> None:
        try:
            migrate.upgrade(empty_database_url)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=upgrade) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert migrate.status(empty_database_url)[0] == migrate.versions()[-1]


def test_a_failed_migration_leaves_the_database_as_it_was(empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(
            "create schema reme; create table reme.memory_source (mine int)"
        )  # the first migration stumbles over it midway
    with pytest.raises(SchemaError, match=r'"memory_source" already exists.*undone'):
        migrate.upgrade(empty_database_url)
    tables = {name for kind, name, _ in relations(empty_database_url) if kind == "r"}
    assert tables - {"alembic_version"} == {"memory_source"}
    assert migrate.status(empty_database_url)[0] is None


def test_an_unknown_version_is_named_with_the_known_ones(empty_database_url: str) -> None:
    with pytest.raises(SchemaError, match="known are base, 0027"):
        migrate.upgrade(empty_database_url, "0815")


async def test_a_database_from_a_newer_release_is_left_alone(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update reme.alembic_version set version_num = '9999'")
    for attempt in (migrate.upgrade, lambda url: migrate.downgrade(url, "base")):
        with pytest.raises(SchemaError, match=r"version 9999, made by a newer release .*pip install --upgrade"):
            attempt(database_url)
    with pytest.raises(SchemaError, match="newer release"):
        await Database.open(Settings(database_url=SecretStr(database_url)))


@pytest.mark.parametrize("version", ["0001", "0026"])
async def test_a_database_of_a_development_version_is_refused_with_the_way_out(database_url: str, version: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update reme.alembic_version set version_num = %s", [version])
    made = relations(database_url)
    for attempt in (migrate.upgrade, lambda url: migrate.downgrade(url, "base")):
        with pytest.raises(SchemaError, match=rf"{version}, made by a development version .*make the database anew"):
            attempt(database_url)
    with pytest.raises(SchemaError, match=r"cannot be upgraded .*`reme dump` .*`reme load`"):
        await Database.open(Settings(database_url=SecretStr(database_url)))
    assert relations(database_url) == made and migrate.status(database_url)[0] == version


async def test_an_old_pgvector_in_the_database_is_named_with_the_cure(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update pg_extension set extversion = '0.7.4' where extname = 'vector'")
    with pytest.raises(SchemaError, match=r"uses pgvector 0\.7\.4, and 0\.8 or newer .*ALTER EXTENSION vector UPDATE"):
        await Database.open(Settings(database_url=SecretStr(database_url)))
    with pytest.raises(SchemaError, match="ALTER EXTENSION"):
        migrate.upgrade(database_url)


def test_no_right_to_create_the_extension(plain_owner_url: str) -> None:
    with pytest.raises(SchemaError, match=r"may not create the extension .*CREATE EXTENSION vector"):
        migrate.upgrade(plain_owner_url)


def test_no_right_to_change_the_schema(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("create role guest login")
        try:
            with pytest.raises(SchemaError, match=r"may not change the schema .*as the owner"):
                migrate.upgrade(make_conninfo(database_url, user="guest"))
        finally:
            connection.execute("drop role guest")


def test_a_member_of_the_service_has_nothing_to_do_where_the_owner_did_it(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("create role member login in role reme_service")
        as_member = make_conninfo(database_url, user="member")
        try:
            migrate.upgrade(as_member)
            connection.execute("delete from reme.queue_migration where name like '03.%'")
            with pytest.raises(SchemaError, match=r"may not change the schema .*as the owner"):
                migrate.upgrade(as_member)
        finally:
            connection.execute("drop role member")


async def test_an_ordinary_owner_can_run_it_all_and_is_held_to_its_workspace(
    plain_owner_url: str, empty_database_url: str
) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("create extension vector")
    migrate.upgrade(plain_owner_url)
    async with await Database.open(Settings(database_url=SecretStr(plain_owner_url))) as database:
        await database.execute("a", "insert into workspace (workspace_id) values ('a')")
        assert await database.fetch("a", "select workspace_id from workspace") == [("a",)]
        assert await database.fetch("b", "select workspace_id from workspace") == []


async def test_a_login_that_row_level_security_cannot_hold_is_refused(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("create role free_rider login bypassrls; grant usage on schema reme to free_rider")
        connection.execute("grant select on reme.alembic_version to free_rider")
        try:
            with pytest.raises(SchemaError, match="GRANT reme_service TO free_rider"):
                await Database.open(Settings(database_url=SecretStr(make_conninfo(database_url, user="free_rider"))))
        finally:
            connection.execute("drop owned by free_rider; drop role free_rider")


UNEXPLAINED = """
select c.relname, coalesce(a.attname, '') from pg_class c
left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = 'reme'::regnamespace and c.relkind in ('r', 'p', 'v', 'm')
  and (obj_description(c.oid, 'pg_class') is null or col_description(c.oid, a.attnum) is null)
"""


def test_every_table_view_and_column_explains_itself(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        assert connection.execute(UNEXPLAINED).fetchall() == []
