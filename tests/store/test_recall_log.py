"""The log of recalls: written soon, together, and never lost in silence."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import pytest
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from reme_core import Settings
from reme_core.engine import Engine
from reme_core.postgres.session import Connection


async def test_recalls_are_logged_with_their_ranks(reme: Engine) -> None:
    await reme.memories.add("w", ["one fish", "two fish"])
    recollection = await reme.recall("w", "fish", limit=2, flow="a test")
    await reme.log_writer.flush()
    logged = await reme.database.fetch(
        "w", "select query, flow, rank, memory_id from reme.recall_log where retrieval_id = %s order by rank",
        (recollection.retrieval_id,),
    )  # fmt: skip
    assert logged == [("fish", "a test", h.rank, h.memory.memory_id) for h in recollection.hits]


async def test_recalls_that_are_logged_while_others_are_written_wait_for_the_next_time(
    reme: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fish,) = await reme.memories.add("w", "Fish live in water.")
    log, transactions, maintenance = reme.log_writer, [], reme.database.maintenance

    def maintenance_under_load() -> AbstractAsyncContextManager[Connection]:
        transactions.append(len(log._waiting))
        if len(transactions) < 20:
            log.log_standing("w", "fish", [fish], session_id="")
        return maintenance()

    await log.flush()  # how long the model took
    log.log_standing("w", "fish", [fish], session_id="")
    monkeypatch.setattr(reme.database, "maintenance", maintenance_under_load)
    await log.flush()
    assert transactions == [1] and len(log._waiting) == 1
    await log.flush()
    assert transactions == [1, 1]


async def test_a_log_that_cannot_be_written_is_told_of_and_keeps_what_waits(
    reme: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    await reme.memories.add("w", ["one fish", "two fish"])
    refused = "alter table reme.retrieval add constraint refused check (query <> 'fish')"
    async with reme.database.owner_connection() as connection:
        await connection.execute(refused)
    await reme.recall("w", "fish")
    assert reme.log_writer._writer is not None
    await reme.log_writer._writer
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "log entries cannot be written" in record.getMessage() and record.exc_info is not None
    async with reme.database.owner_connection() as connection:
        await connection.execute("alter table reme.retrieval drop constraint refused")
    await reme.log_writer.flush()
    assert await reme.database.fetch("w", "select query from reme.retrieval") == [("fish",)]


async def test_a_database_that_takes_no_writes_is_told_of_once(
    settings: Settings, database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("reme_core.store.logs._PAUSE_SECONDS", 0.0)
    settings.database_url = SecretStr(make_conninfo(database_url, options="-c default_transaction_read_only=on"))
    settings.pooler_url = None  # one that the tests go through knows of no such options
    async with Engine(settings) as standby:
        for _ in range(3):
            standby.log_writer.log_standing("w", "fish", [], session_id="")
            assert standby.log_writer._writer is not None
            await standby.log_writer._writer
        assert caplog.text.count("log entries wait for the database") == 1
        assert len(standby.log_writer._waiting) == 3
