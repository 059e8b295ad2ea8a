"""Backup and restore: all workspaces or nothing, equal by checksum, whoever's role does it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from reme_core import ReMe, Settings
from reme_core.errors import ConflictError, LibraryError, NotFoundError
from reme_core.postgres import migrate
from reme_core.postgres.backup import backup, restore
from reme_core.types import Memory, Message, Source


def fill(settings: Settings) -> None:
    with ReMe(settings) as reme:
        for workspace in ("alice", "bob/茶", "carol"):
            reme.record(workspace, [Message(message_id="m1", content=f"I am {workspace}\n\t\\N.")], wait=True)
            memory = Memory(memory_id="a", content=f"It is {workspace}.", sources=[Source(kind="message", id="m1")])
            reme.memories.add(workspace, [memory, *(f"fact {n} of {workspace}" for n in range(50))])
            reme.memories.update(workspace, "a", content=f"It was {workspace}.", reason="time passed")
            reme.memories.delete(workspace, "a")
            reme.recall(workspace, "fact 7")


@pytest.fixture
def whole(settings: Settings, database_url: str, tmp_path: Path) -> Path:
    """The backup of a database that was filled."""
    fill(settings)
    backup(database_url, tmp_path / "all.backup")
    return tmp_path / "all.backup"


@pytest.fixture
def owned_database_url(server_url: str) -> Iterator[str]:
    """The URL of an empty database whose owner is no superuser, so that row-level security holds him."""
    name = f"owner_{uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"create role {name} login")
        connection.execute(f"create database {name} owner {name}")
        with psycopg.connect(make_conninfo(server_url, dbname=name), autocommit=True) as inside:
            inside.execute("create extension vector")
        yield make_conninfo(server_url, dbname=name, user=name)
        connection.execute(f"drop database {name} with (force)")
        connection.execute(f"drop owned by {name}")
        connection.execute(f"drop role {name}")


def test_a_restored_database_holds_and_finds_the_same(
    settings: Settings, database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    fill(settings)
    written = backup(database_url, tmp_path / "all.backup")
    assert (written.workspaces, written.rows["memory"], written.rows["message"]) == (3, 153, 3)
    assert (tmp_path / "all.backup").stat().st_mode & 0o777 == 0o600
    assert restore(empty_database_url, tmp_path / "all.backup") == written
    assert backup(empty_database_url, tmp_path / "again.backup") == written
    first, second = (
        json.loads(zipfile.ZipFile(tmp_path / name).read("manifest.json")) for name in ("all.backup", "again.backup")
    )
    assert first["sums"] == second["sums"] and first["sequences"] == second["sequences"]
    with ReMe(database_url=empty_database_url, data_dir=tmp_path) as reme:
        assert reme.recall("alice", "fact 7").hits[0].content == "fact 7 of alice"
        assert [entry.operation for entry in reme.memories.history("bob/茶", "a")] == ["insert", "update", "update"]
        reme.memories.add("carol", "and it goes on")
        reme.memories.restore("carol", "a")
        reme.memories.update("carol", "a", content="new words", reason="the history goes on")
        assert reme.memories.history("carol", "a")[-1].reason == "the history goes on"
    with psycopg.connect(empty_database_url) as connection:
        open_tables = connection.execute(
            "select relname from pg_class where relnamespace = 'reme'::regnamespace and relkind = 'r'"
            " and relrowsecurity and not relforcerowsecurity"
        ).fetchall()
    assert open_tables == []


def test_an_owner_who_is_held_by_row_level_security_can_do_both(
    settings: Settings, database_url: str, owned_database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    fill(settings)
    written = backup(database_url, tmp_path / "all.backup")
    assert restore(owned_database_url, tmp_path / "all.backup") == written
    assert backup(owned_database_url, tmp_path / "again.backup") == written


def test_nothing_is_backed_up_that_would_be_empty(database_url: str, empty_database_url: str, tmp_path: Path) -> None:
    for url in (database_url, empty_database_url):
        with pytest.raises(NotFoundError, match="nothing to back up"):
            backup(url, tmp_path / "all.backup")
    assert not list(tmp_path.glob("*.backup*"))


def test_nothing_is_restored_that_is_not_as_it_was_backed_up(
    whole: Path, database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    with (
        zipfile.ZipFile(whole) as given,
        zipfile.ZipFile(tmp_path / "emptied.backup", "w") as emptied,
        zipfile.ZipFile(tmp_path / "changed.backup", "w") as changed,
    ):
        for name in given.namelist():
            emptied.writestr(name, given.read(name) if name == "manifest.json" else b"")
            changed.writestr(name, given.read(name).replace(b"fact 7 of", b"fact 8 of"))
    (tmp_path / "cut.backup").write_bytes(whole.read_bytes()[:9000])
    problems = {"emptied": "other rows", "changed": "in memory", "cut": "no backup", "none": "cannot read"}
    for name, told in problems.items():
        with pytest.raises(LibraryError, match=told):
            restore(empty_database_url, tmp_path / f"{name}.backup")
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("select count(*) from reme.workspace").fetchone() == (0,)
    with pytest.raises(ConflictError, match=r"holds workspaces already \(3\)"):
        restore(database_url, whole)


def test_a_backup_of_an_older_version_is_brought_to_this_one(
    settings: Settings, database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    fill(settings)
    older = migrate.versions()[-2]
    migrate.downgrade(database_url, older)
    assert backup(database_url, tmp_path / "old.backup").version == older
    restore(empty_database_url, tmp_path / "old.backup")
    assert migrate.status(empty_database_url) == (migrate.versions()[-1],) * 2
    with ReMe(database_url=empty_database_url, data_dir=tmp_path) as reme:
        assert len(reme.memories.list("alice")) == 50


def test_what_the_queue_was_made_of_before_says_nothing_of_the_restored_one(
    settings: Settings, database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    fill(settings)
    with psycopg.connect(database_url) as connection:  # as a release of procrastinate left it that had fewer migrations
        connection.execute("delete from reme.queue_migration where name like '03.04.%'")
        kept = connection.execute("select count(*) from reme.queue_migration").fetchone()
    backup(database_url, tmp_path / "old.backup")
    restore(empty_database_url, tmp_path / "old.backup")
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("select count(*) from reme.workspace").fetchone() == (3,)
        assert connection.execute("select count(*) from reme.queue_migration").fetchone() != kept


def test_keys_of_the_target_are_not_replaced(whole: Path, empty_database_url: str) -> None:
    migrate.upgrade(empty_database_url)
    key = "insert into reme.api_key (key_id, label, salt, digest) values ('a', 'service', '\\x00', '\\x00')"
    with psycopg.connect(empty_database_url) as connection:
        connection.execute(key.encode())
    with pytest.raises(ConflictError, match=r"holds API keys already \(1\)"):
        restore(empty_database_url, whole)
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("select count(*) from reme.api_key").fetchone() == (1,)


@pytest.mark.parametrize("table", ["manifest.json", "memory.copy"])
@pytest.mark.parametrize(
    ("header", "offset", "value"), [("", 0, 0xFF), ("", 40, 0), ("PK\x01\x02", 8, 1), ("PK\x01\x02", 10, 77)]
)
def test_damage_of_any_kind_is_told(
    whole: Path, empty_database_url: str, table: str, header: str, offset: int, value: int
) -> None:
    """A byte of the compressed rows, or of what the directory of the file says about them."""
    content = bytearray(whole.read_bytes())
    if header:
        start = content.rindex(table.encode()) - 46
        assert content[start : start + 4] == header.encode()
    else:
        entry = zipfile.ZipFile(whole).getinfo(table).header_offset
        more = int.from_bytes(content[entry + 28 : entry + 30], "little")  # bytes between the name and the rows
        start = entry + 30 + len(table) + more
    content[start + offset] = value
    whole.write_bytes(content)
    with pytest.raises(LibraryError):
        restore(empty_database_url, whole)


@pytest.mark.parametrize("rows", [b"garbage\n", b"\xff\n", None])
def test_rows_that_do_not_fit_are_told_as_damage_of_the_file(
    whole: Path, empty_database_url: str, tmp_path: Path, rows: bytes | None
) -> None:
    """With the right checksum; without other rows the first one stands there twice."""
    with zipfile.ZipFile(whole) as given, zipfile.ZipFile(tmp_path / "edited", "w") as edited:
        for name in given.namelist():
            content = given.read(name)
            first = content.split(b"\n")[0] + b"\n" if rows is None else rows
            edited.writestr(name, first + content if name == "memory.copy" else content)
    with pytest.raises(LibraryError, match=r"edited is damaged .*nothing was restored"):
        restore(empty_database_url, tmp_path / "edited")


def test_what_others_store_while_a_restore_begins_is_not_replaced(
    whole: Path, empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade = migrate.upgrade

    def upgrade_and_be_late(url: str, *version: str) -> None:
        upgrade(url, *version)
        with ReMe(database_url=url, data_dir=tmp_path) as reme:
            reme.memories.add("dora", "stored after the restore has looked")

    migrate.upgrade(empty_database_url)
    monkeypatch.setattr(migrate, "upgrade", upgrade_and_be_late)
    with pytest.raises(ConflictError, match=r"holds workspaces already \(1\)"):
        restore(empty_database_url, whole)
    with ReMe(database_url=empty_database_url, data_dir=tmp_path) as reme:
        assert [m.content for m in reme.memories.list("dora")] == ["stored after the restore has looked"]
