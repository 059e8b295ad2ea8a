"""`reme` on a whole database: its schema, its backup, what is undone in it, and the turns that wait for it."""

from __future__ import annotations

import secrets
import sqlite3
import threading
from contextlib import closing
from itertools import product
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from reme_core.settings import Settings
from reme_core.spool.file import Entry
from reme_core.spool.waiting import Spool, spool_path
from reme_core.types import Message
from tests.server.command import Reme


@pytest.fixture
def reme(capsys: pytest.CaptureFixture[str]) -> Reme:
    return Reme(capsys)


def test_the_schema_is_brought_up_to_date(empty_database_url: str, monkeypatch: pytest.MonkeyPatch, reme: Reme) -> None:
    monkeypatch.setenv("DATABASE_URL", empty_database_url)
    assert reme.json("db", "status", code=4)["version"] is None
    assert reme("workspaces", code=4) == "" and "reme db upgrade" in reme.err
    done = reme.json("db", "upgrade")
    assert done["before"] is None and "already" in reme("db", "upgrade")
    assert reme.json("db", "status") | {"database": ""} == {
        "database": "", "embedded": False, "data_dir": None, "programs": None, "version": done["now"],
        "newest_version": done["now"], "current": True,
    }  # fmt: skip
    assert reme("db", "url") == empty_database_url + "\n"
    assert reme.json("workspaces") == []


def test_status_says_where_the_programs_of_the_embedded_postgres_are(
    migrated_data_dir: Path, monkeypatch: pytest.MonkeyPatch, reme: Reme
) -> None:
    monkeypatch.setenv("REME_HOME", str(migrated_data_dir))
    folder = Path(reme.json("db", "status")["programs"])
    assert {"psql", "pg_dump", "pg_restore"} <= {program.name for program in folder.iterdir()}


def test_a_database_of_a_newer_release_is_not_told_to_upgrade(configured: str, reme: Reme) -> None:
    with psycopg.connect(configured, autocommit=True) as connection:
        connection.execute("update reme.alembic_version set version_num = '9999'")
    assert "made by a newer release of reme-core" in reme("db", "status", code=4)


def test_an_index_that_is_being_built_is_shown(configured: str, reme: Reme) -> None:
    with psycopg.connect(configured) as holder, psycopg.connect(configured, autocommit=True) as builder:
        holder.execute("lock table reme.embedding in row exclusive mode")  # which a concurrent build waits for
        create = "create index concurrently slow on reme.embedding (kind)"
        building = threading.Thread(target=builder.execute, args=[create])
        building.start()
        while not (builds := reme.json("db", "status").get("index_builds")):
            assert building.is_alive()
        assert builds == [{"index": "slow", "phase": "waiting for writers before build", "share_read": None}]
        assert "The index slow is being built: waiting for writers before build." in reme("db", "status")
        holder.rollback()
        building.join()
    assert "index_builds" not in reme.json("db", "status")


@pytest.mark.usefixtures("configured")
def test_a_memory_is_restored_and_a_load_undone(reme: Reme, tmp_path: Path) -> None:
    (added,) = reme.json("add", "She drinks tea.", "-w", "alice")
    name = added["memory_id"]
    reme("update", name, "She drinks coffee.", "-w", "alice")
    first = reme.json("history", name, "-w", "alice")[0]["number"]
    assert "She drinks tea." in reme("restore", name, "-w", "alice")
    reme("update", name, "She drinks wine.", "-w", "alice")
    assert reme.json("restore", name, "--to", str(first), "-w", "alice")["content"] == "She drinks tea."
    (tmp_path / "new.jsonl").write_text('{"content": "It rains."}\n{"content": "It snows."}\n')
    reme("load", str(tmp_path / "new.jsonl"), "-w", "alice", "--replace", "--yes")
    assert "by load (loaded from new.jsonl): 1 are as before, 2 are deleted" in reme("undo", "-w", "alice")
    assert [m["content"] for m in reme.json("list", "-w", "alice")] == ["She drinks tea."]
    reme("add", "It rains.", "-w", "alice")
    ids = [memory["memory_id"] for memory in reme.json("list", "-w", "alice")]
    reme("delete", *ids, "-w", "alice")
    for told in ("2 are as before, 0 are deleted", "0 are as before, 2 are deleted"):
        assert told in reme("undo", "-w", "alice")
    assert reme.json("list", "-w", "alice") == []
    reme("undo", "-w", "bob", code=3)
    assert "nothing to undo" in reme.err


def test_a_database_is_backed_up_and_restored(
    configured: str, empty_database_url: str, reme: Reme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "all.backup")
    reme("db", "backup", file, code=3)
    assert "nothing to back up" in reme.err
    reme("add", "She drinks tea.", "-w", "alice")
    assert reme.json("db", "backup", file)["rows"]["memory"] == 1
    reme("db", "restore", file, code=1)
    assert "holds workspaces already (1)" in reme.err
    monkeypatch.setenv("DATABASE_URL", empty_database_url)
    assert "restored: 1 workspace, 1 memory, 0 messages" in reme("db", "restore", file)
    assert "She drinks tea." in reme("recall", "tea", "-w", "alice")


def test_turns_that_wait_and_that_were_refused_are_listed(reme: Reme, tmp_path: Path) -> None:
    place = ["--set", f"data_dir={tmp_path}"]
    assert "Nothing waits" in reme("spool", "list", *place)
    spool = Spool(spool_path("file", Settings(data_dir=tmp_path)))
    spool.put(Entry("alice", [Message(content="one")]))
    spool.put(refused := Entry("bob", [Message(content="two")]))
    spool.keep()
    spool.set_aside(refused, "it is too long")
    told = reme("spool", "list", *place)
    assert "alice" in told and "it is too long" in told and "two" not in told
    assert [entry["refusal"] for entry in reme.json("spool", "list", *place)["refused"]] == ["it is too long"]
    assert reme.json("spool", "retry", *place) == {"again": 1}
    found = reme.json("spool", "list", *place)
    assert ([entry["workspace"] for entry in found["waiting"]], found["refused"]) == (["alice", "bob"], [])


def test_turns_that_waited_while_the_database_had_another_address_are_told_of_and_delivered(
    configured: str, reme: Reme, tmp_path: Path
) -> None:
    place = ["--set", f"data_dir={tmp_path}"]
    before = Settings(data_dir=tmp_path, database_url=SecretStr("postgresql://ada@old.example/memory"))
    left, too_long = Spool(spool_path("file", before)), secrets.token_hex(4_000)
    left.put(Entry("alice", [Message(content="one"), Message(content="two")]))
    left.put(Entry("alice", [Message(message_id=too_long, content="three")]))
    left.keep()
    told = reme("spool", "list", *place)
    assert "Nothing waits" in told and f"2 turns in {left}" in told.replace("\n", "") and "`reme spool deliver" in told
    found = reme.json("doctor", *place, code=1)
    (spool,) = (one for one in found if one["check"] == "spool")
    assert (spool["state"], spool["found"]) == ("wrong", "left for a database of another address: 2 turns")

    for waited, new in ((2, 2), (0, 0)):  # what is refused is told each time: doctor and list still count it
        told = reme("spool", "deliver", "--file", str(left), *place).replace("\n", "")
        assert f"{waited} turns waited in {left}: {new} new messages and 0 tool calls stored; 1 refused" in told
        assert f"`reme spool list --file {left}` says why" in told
    with psycopg.connect(configured) as connection:
        assert connection.execute("select content from reme.message order by 1").fetchall() == [("one",), ("two",)]
    assert reme.json("spool", "list", "--file", str(left), *place)["waiting"] == []
    assert reme.json("spool", "deliver", *place)["waited"] == 0


def test_a_spool_that_cannot_be_read_is_not_called_empty(configured: str, reme: Reme, tmp_path: Path) -> None:
    place, path = ["--set", f"data_dir={tmp_path}"], spool_path("file", Settings.load(f"data_dir={tmp_path}"))
    assert path is not None
    path.mkdir(parents=True)
    assert reme("spool", "list", *place, code=1) == ""
    assert "cannot be read or written" in reme.err
    (spool,) = (one for one in reme.json("doctor", *place, code=1) if one["check"] == "spool")
    assert (spool["state"], spool["to_do"]) == ("wrong", "make room on its disk, or let this process write there")


def test_a_file_that_is_no_spool_stays_as_it_is(reme: Reme, tmp_path: Path) -> None:
    text, foreign = tmp_path / "notes.txt", tmp_path / "foreign.sqlite3"
    text.write_text("mine")
    with closing(sqlite3.connect(foreign)) as file:
        file.execute("create table mine (words text)")
    before = {path: path.read_bytes() for path in (text, foreign)}
    for command, path in product(("list", "retry", "deliver"), before):
        reme("spool", command, "--file", str(path), code=2)
        assert "is no spool" in reme.err
        reme("spool", command, "--file", str(tmp_path / "mistyped.sqlite3"), code=3)  # and not: nothing waits there
        assert "there is no file" in reme.err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
