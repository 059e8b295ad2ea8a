"""The pool: one workspace a statement, nothing carried over, errors that say what to do."""

from __future__ import annotations

import asyncio
import socket
from contextlib import nullcontext
from typing import Any

import anyio
import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from reme_core.engine import Engine
from reme_core.errors import ConfigurationError, DatabaseError, DatabaseUnavailableError, InputError, SchemaError
from reme_core.postgres.database import Database
from reme_core.postgres.session import ROLE
from reme_core.settings import ChatSettings, Settings
from reme_core.store.messages import record
from reme_core.types import Message


def settings_for(url: str, **more: int) -> Settings:
    return Settings(database_url=SecretStr(url), **more)


async def add_workspace(database: Database, name: str) -> None:
    await database.execute(name, "insert into workspace (workspace_id) values (%s)", [name])


async def test_a_statement_sees_its_own_workspace_only(database: Database) -> None:
    await add_workspace(database, "a")
    await add_workspace(database, "b")

    assert await database.fetch("a", "select workspace_id from workspace") == [("a",)]
    async with database.transaction("b") as connection:
        assert await (await connection.execute("select workspace_id from workspace")).fetchall() == [("b",)]
    async with database.maintenance() as connection:
        assert len(await (await connection.execute("select from workspace")).fetchall()) == 2


@pytest.mark.parametrize("value", ["seven", "9" * 30, "a\0b"])
async def test_a_value_that_does_not_fit_is_wrong_input_through_every_door(database: Database, value: str) -> None:
    with pytest.raises(InputError, match=r"a value does not fit.*correct it"):
        await database.fetch("a", "select (%s::text)::integer", [value])
    assert await database.fetch("a", "select 1") == [(1,)]


async def test_writing_into_another_workspace_is_refused(database: Database) -> None:
    with pytest.raises(DatabaseError, match="row-level security"):
        await database.execute("a", "insert into workspace (workspace_id) values ('b')")


async def test_writes_go_on_when_a_database_that_took_none_takes_them_again(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with await AsyncConnection.connect(database_url, autocommit=True) as owner:
        name = owner.info.dbname
        await owner.execute(f'alter database "{name}" set default_transaction_read_only = on'.encode())
        async with await Database.open(settings_for(database_url, pool_size=1)) as database:
            with pytest.raises(DatabaseUnavailableError, match="takes no writes"):
                await add_workspace(database, "a")
            assert await database.fetch("a", "select 1") == [(1,)]  # on another connection, of the same kind
            await owner.execute(f'alter database "{name}" reset default_transaction_read_only'.encode())
            with pytest.raises(DatabaseUnavailableError, match="takes no writes"):
                async with database.transaction("a") as connection:
                    await connection.execute("insert into workspace (workspace_id) values ('a')")
            await add_workspace(database, "a")
    assert caplog.text == ""  # the callers have had the errors


async def test_a_transaction_in_which_a_process_stood_still_is_told_in_our_words(database: Database) -> None:
    with pytest.raises(DatabaseUnavailableError, match="ended a transaction in which this process stood still"):
        async with database.transaction("a") as connection:
            await connection.execute("select set_config('idle_in_transaction_session_timeout', '50ms', true)")
            await asyncio.sleep(0.3)
            await connection.execute("select 1")
    assert await database.fetch("a", "select 1") == [(1,)]


async def test_one_caller_after_the_other_needs_one_connection(settings: Settings) -> None:
    async with await Database.open(settings) as database:
        for _ in range(3):
            await database.fetch("w", "select 1")
        assert database.pool.get_stats()["connections_num"] == 1


async def test_the_workspace_does_not_outlive_its_statement(settings: Settings) -> None:
    async with await Database.open(settings.model_copy(update={"pool_size": 1})) as database:
        await add_workspace(database, "a")
        async with database._connection() as connection:
            left = await (await connection.execute("select current_setting('reme.workspace', true)")).fetchone()
            async with connection.transaction():  # behind a pooler, nothing but a transaction acts as the role
                await connection.execute(f"set local role {ROLE}")
                seen = await (await connection.execute("select count(*) from reme.workspace")).fetchone()
    assert left in [("",), (None,)]
    assert seen == (0,)


async def test_a_superuser_is_held_by_row_level_security_too(database: Database) -> None:
    assert await database.fetch("a", "select current_user::text, row_security_active('reme.memory')") == [
        ("reme_service", True)
    ]
    async with database.owner_connection() as connection:
        assert await (await connection.execute("select current_user = session_user")).fetchone() == (True,)


async def test_the_history_knows_actor_and_reason(database: Database) -> None:
    asked = "select current_setting('reme.actor'), current_setting('reme.reason')"
    assert await database.execute("w", asked, actor="me", reason="it's so") == [("me", "it's so")]
    async with database.transaction("w", actor="me", reason="it's so") as connection:
        assert await (await connection.execute(asked)).fetchone() == ("me", "it's so")


async def test_settings_of_a_statement_are_its_own(settings: Settings) -> None:
    async with await Database.open(settings.model_copy(update={"pool_size": 1})) as database:
        asked = "select current_setting('work_mem')"
        before = await database.fetch("w", asked)
        assert await database.fetch("w", asked, settings={"work_mem": "1MB"}) == [("1MB",)]
        assert await database.fetch("w", asked) == before != [("1MB",)]


async def test_a_failed_transaction_leaves_nothing(database: Database) -> None:
    with pytest.raises(LookupError):
        async with database.transaction("a") as connection:
            await connection.execute("insert into workspace (workspace_id) values ('a')")
            raise LookupError
    assert await database.fetch("a", "select from workspace") == []


async def test_a_violated_constraint_is_left_to_the_caller(database: Database) -> None:
    await add_workspace(database, "a")
    with pytest.raises(psycopg.errors.UniqueViolation):
        await add_workspace(database, "a")


async def test_vectors_times_and_json_come_back_as_python_values(database: Database) -> None:
    [row] = await database.fetch(
        "w", "select '[1,2]'::halfvec, timestamptz '2024-05-01 12:00+02', '{\"a\": [1]}'::jsonb, '喜欢咖啡'"
    )
    assert row[0].to_list() == [1, 2]
    assert row[1].isoformat() == "2024-05-01T10:00:00+00:00"
    assert row[2:] == ({"a": [1]}, "喜欢咖啡")


@pytest.mark.parametrize("name", ["", "*", "a\0b", "x" * 201])
async def test_what_cannot_name_a_workspace_is_refused(database: Database, name: str) -> None:
    with pytest.raises(InputError, match="cannot name a workspace"):
        await database.fetch(name, "select 1")
    with pytest.raises(InputError, match="cannot name a workspace"):
        async with database.transaction(name):
            pass


async def test_quotes_in_a_workspace_id_stay_text(database: Database) -> None:
    name = "o'neil'); drop table reme.memory; --"
    asked = "select current_setting('reme.workspace')"
    assert await database.fetch(name, asked) == [(name,)]
    async with database.transaction(name) as connection:
        assert await (await connection.execute(asked)).fetchone() == (name,)


async def test_many_tasks_share_a_small_pool_without_mixing_workspaces(settings: Settings) -> None:
    async with await Database.open(settings.model_copy(update={"pool_size": 3})) as database:
        names = [f"w{number}" for number in range(60)]
        asked = "select current_setting('reme.workspace') from pg_sleep(0.002)"
        answers = await asyncio.gather(*(database.fetch(name, asked) for name in names))
    assert answers == [[(name,)] for name in names]


async def test_cancelled_calls_give_their_connection_back(settings: Settings) -> None:
    async with await Database.open(settings.model_copy(update={"pool_size": 1})) as database:
        for _ in range(3):
            with anyio.move_on_after(0.05) as scope:
                await database.fetch("w", "select pg_sleep(30)")
            assert scope.cancelled_caught
            with anyio.move_on_after(0.05) as scope:
                async with database.transaction("w") as connection:
                    await connection.execute("select pg_sleep(30)")
            assert scope.cancelled_caught
        assert await database.fetch("w", "select 1") == [(1,)]


async def test_who_is_cancelled_during_a_rollback_gives_the_connection_back(settings: Settings) -> None:
    async with await Database.open(settings.model_copy(update={"pool_size": 1})) as database:
        failed = asyncio.Event()

        async def fail() -> None:
            async with database.transaction("w") as connection:
                await connection.execute("select 1")
                failed.set()
                raise ValueError

        failing = asyncio.create_task(fail())
        await failed.wait()
        failing.cancel()
        await asyncio.wait([failing])
        assert failing.cancelled()
        async with asyncio.timeout(5):
            assert await database.fetch("w", "select 1") == [(1,)]


async def test_a_connection_that_was_left_within_a_pipeline_reaches_nobody_else(settings: Settings) -> None:
    async with await Database.open(settings.model_copy(update={"pool_size": 1})) as database:
        with pytest.raises(asyncio.CancelledError):
            async with database.transaction("w") as connection:
                # Of some thousand calls that are cancelled within a pipeline, one does not get out of it.
                await connection.pipeline().__aenter__()
                raise asyncio.CancelledError
        for _ in range(2):
            async with database.transaction("w") as connection:
                await connection.execute("select 1")


async def test_a_pool_that_stays_busy_says_so(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reme_core.postgres.database.POOL_SECONDS", 0.2)
    async with await Database.open(settings.model_copy(update={"pool_size": 1})) as database:
        async with database.transaction("w"):
            with pytest.raises(DatabaseUnavailableError, match="stayed busy; raise pool_size"):
                await database.fetch("w", "select 1")
        assert await database.fetch("w", "select 1") == [(1,)]


async def test_a_server_that_went_away_is_named(
    settings: Settings, database_url: str, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reme_core.postgres.database.POOL_SECONDS", 0.3)
    name = make_conninfo(database_url).partition("dbname=")[2].split()[0]
    async with await Database.open(settings) as database:
        await database.fetch("w", "select 1")
        with psycopg.connect(server_url, autocommit=True) as admin:
            admin.execute(f"alter database {name} allow_connections false")  # nobody comes back before it has gone
            admin.execute("select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s", [name])
            admin.execute(f"alter database {name} rename to {name}_gone")
            try:
                with pytest.raises(DatabaseUnavailableError, match=f"{name} does not exist"):
                    await database.fetch("w", "select 1")
            finally:
                admin.execute(f"alter database {name}_gone rename to {name}")
                admin.execute(f"alter database {name} allow_connections true")


CUT_ALL = (
    "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
    " where datname = current_database() and pid <> pg_backend_pid()"
)


async def test_a_connection_that_the_server_cut_is_replaced(database: Database, database_url: str) -> None:
    await database.fetch("w", "select 1")
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute(CUT_ALL)
        assert await database.fetch("w", "select 1") == [(1,)]
        other.execute(CUT_ALL)
        async with database.transaction("w") as connection:
            assert await (await connection.execute("select 2")).fetchone() == (2,)


async def test_a_write_on_a_cut_connection_is_not_run_twice(database: Database, database_url: str) -> None:
    await database.fetch("w", "select 1")
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute(CUT_ALL)
    # A pooler replaces its connection before anybody notices; without one, the caller has to decide.
    with nullcontext() if database.has_pooler else pytest.raises(DatabaseUnavailableError):
        await add_workspace(database, "a")
    assert len(await database.fetch("a", "select from workspace")) == database.has_pooler
    if not database.has_pooler:
        await add_workspace(database, "a")


async def test_a_closed_database_says_so(settings: Settings) -> None:
    database = await Database.open(settings)
    await database.close()
    with pytest.raises(DatabaseError, match="closed"):
        await database.fetch("w", "select 1")


async def test_the_password_is_not_shown(database_url: str) -> None:
    async with await Database.open(settings_for(make_conninfo(database_url, password="s3cret"))) as database:
        assert "s3cret" not in repr(database)
        assert str(psycopg.conninfo.conninfo_to_dict(database_url)["dbname"]) in repr(database)


@pytest.mark.parametrize(
    "url",
    [
        "me:s3cret@db.example:5432/agents",
        "host=db.example password=s3cret port",
        "mysql://me:s3cret@db.example/agents",
        "s3cret",
        "postgresql://me:p@s3cret@db.example/agents",  # of which libpq takes s3cret@db.example for the host
        "postgresql://me:p?@s3cret@db.example/agents",
        "postgresql://me:p/s3cret@db.example/agents",
        "postgresql://me:%s3cret@db.example/agents",
    ],
)
async def test_what_is_no_url_is_not_shown(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is not one for Postgres; write postgresql://user:password@") as told:
        await Database.open(settings_for(url))
    assert "s3cret" not in str(told.value) and "db.example" not in str(told.value)
    assert "%40 for @" in str(told.value)


@pytest.mark.parametrize("foreign", ["pgbouncer=true", "sslmode=require&schema=public"])
async def test_a_url_with_a_parameter_of_other_drivers_says_what_to_leave_out(foreign: str) -> None:
    with pytest.raises(ConfigurationError, match="behind a \\? leave out what only other drivers know") as told:
        await Database.open(settings_for(f"postgresql://me:s3cret@db.example/agents?{foreign}"))
    assert "s3cret" not in str(told.value)


async def test_a_statement_that_is_broken_off_leaves_no_warning(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask() -> None:
        async with database.transaction("w") as connection:
            await connection.execute("select 1")

    for half_milliseconds in range(100):
        asked = [asyncio.create_task(ask()) for _ in range(4)]
        await asyncio.sleep(half_milliseconds / 2000)
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
    await ask()
    assert "returned connection" not in caplog.text


async def test_no_server_there(unused_tcp_port: int) -> None:
    with pytest.raises(DatabaseUnavailableError, match=rf"no server at me@127.0.0.1:{unused_tcp_port}/db; start"):
        await Database.open(settings_for(f"postgresql://me:s3cret@127.0.0.1:{unused_tcp_port}/db"))


async def test_a_server_that_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/db?connect_timeout=2"
        with pytest.raises(DatabaseUnavailableError, match=r"no answer|timeout"):
            await Database.open(settings_for(url))


async def test_no_such_database(server_url: str) -> None:
    with pytest.raises(DatabaseUnavailableError, match=r"does not exist; create it, or correct DATABASE_URL"):
        await Database.open(settings_for(make_conninfo(server_url, dbname="nowhere")))


async def test_an_engine_that_cannot_open_leaves_no_connection_behind(settings: Settings) -> None:
    settings.llm["default"] = ChatSettings(base_url="http://127.0.0.1:9/v1")
    before = asyncio.all_tasks()
    with pytest.raises(ConfigurationError, match="model_name must be set"):
        await Engine(settings).open()
    assert asyncio.all_tasks() == before  # those of the pool would keep `reme serve` from ending


async def test_urls_of_other_drivers_are_understood(database_url: str) -> None:
    parts = psycopg.conninfo.conninfo_to_dict(database_url)
    host, port, user, name = parts["host"], parts.get("port", ""), parts["user"], parts["dbname"]
    url = f"postgresql+asyncpg://{user}@/{name}?host={host}&port={port}"
    async with await Database.open(settings_for(url)) as database:
        assert await database.fetch("w", "select current_database()::text") == [(name,)]


async def test_an_external_database_is_not_migrated_behind_its_owners_back(empty_database_url: str) -> None:
    with pytest.raises(SchemaError, match="reme db upgrade"):
        await Database.open(settings_for(empty_database_url))


async def test_many_messages_at_once_have_time_to_be_prepared(words: Engine) -> None:
    allowed: list[str] = []

    async def note_the_limit(conn: AsyncConnection[Any], _: list[Message]) -> None:
        found = await (await conn.execute("show idle_in_transaction_session_timeout")).fetchone()
        allowed.append(found[0] if found else "")

    for count in (1, 3_000):
        await record(words.database, "w", [Message(content="x") for _ in range(count)], within=note_the_limit)
    assert allowed == ["10s", "30s"]
