"""`reme demo`: the same story each time, and nothing left in a database that was given."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from reme_core.postgres.embedded.server import stop_embedded
from tests.server.command import Reme


@pytest.fixture
def reme(capsys: pytest.CaptureFixture[str]) -> Reme:
    return Reme(capsys)


def test_the_demo_tells_the_same_each_time(own_data_dir: Path, monkeypatch: pytest.MonkeyPatch, reme: Reme) -> None:
    monkeypatch.setenv("REME_HOME", str(own_data_dir))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)  # so that a shell finds `reme`
    first = reme.json("demo")
    answers = [[hit["memory_id"] for hit in answer["hits"]] for answer in first["answers"]]
    assert [hits[0] for hits in answers] == ["demo-pages", "demo-peanuts", "demo-race"]
    assert set(answers[2]) == {"demo-race", "demo-calf", "demo-pottery"}
    assert first["answers"][2]["time"]["start"].startswith("2024-05-01")
    assert reme.json("demo") == first
    out = reme("demo")
    assert "superseded: " in out and 'psql "$(reme db url)"' in out
    (held,) = reme.json("workspaces")
    assert (held["workspace_id"], held["messages"], held["memories"], held["closed_memories"]) == ("demo", 20, 22, 1)


def test_what_the_demo_says_to_run_is_found_and_reaches_its_database(
    own_data_dir: Path, monkeypatch: pytest.MonkeyPatch, reme: Reme
) -> None:
    monkeypatch.setenv("PATH", os.defpath)  # as after `make demo`, whose environment the shell does not know
    command = reme.json("demo", "--set", f"data_dir={own_data_dir}")["psql"]
    stop_embedded(own_data_dir)  # as by itself, a little after its last user
    ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert ran.stdout.strip().endswith("(9 rows)")


def rows_that_name(workspace: str, url: str) -> list[str]:
    """The tables of our schema that have the name of a workspace anywhere."""
    with psycopg.connect(url) as connection:
        tables = connection.execute("select tablename from pg_tables where schemaname = 'reme'").fetchall()
        return [
            table
            for (table,) in tables
            if connection.execute(
                sql.SQL("select 1 from reme.{} t where position(%s in to_jsonb(t)::text) > 0 limit 1").format(
                    sql.Identifier(table)
                ),
                [workspace],
            ).fetchone()
        ]


def test_the_demo_leaves_a_given_database_as_it_was(configured: str, reme: Reme) -> None:
    reme("add", "She drinks her tea green.", "-w", "demo")
    before = reme.json("workspaces")
    told = reme.json("demo")
    assert [answer["hits"][0]["memory_id"] for answer in told["answers"]] == ["demo-pages", "demo-peanuts", "demo-race"]
    assert told["workspace"].startswith("demo-") and told["psql"] is None
    assert reme.json("workspaces") == before
    assert rows_that_name(told["workspace"], configured) == []
    out = reme("demo", "--set", f"database_url={configured}")
    name = re.search(r"workspace (demo-[\w-]+) of \S+/reme_test_\w+, and erased", " ".join(out.split()))
    assert name and name[1] != told["workspace"] and "Look for yourself" not in out
    assert reme.json("workspaces") == before


def refuse(what: str, url: str) -> None:
    """Let the database refuse something for want of room."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "create function reme.refuse() returns trigger language plpgsql as"
            " $$ begin raise 'no room' using errcode = 'disk_full'; end $$"
        )
        connection.execute(f"create trigger refuse before {what} execute function reme.refuse()".encode())


def test_a_demo_that_fails_erases_what_it_had_stored(configured: str, reme: Reme) -> None:
    refuse("insert on reme.memory", configured)
    reme("demo", code=4)
    assert "no room" in reme.err and reme.json("workspaces") == []
    assert rows_that_name("demo-", configured) == []


def test_a_demo_that_cannot_erase_says_what_is_left(configured: str, reme: Reme) -> None:
    refuse("delete on reme.workspace", configured)
    reme("demo", code=4)
    told = reme.err
    (held,) = reme.json("workspaces")
    assert f"`reme clear {held['workspace_id']}`" in told and "no room" in told


def test_an_ephemeral_demo_leaves_nothing(reme: Reme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    told = reme.json("demo", "--ephemeral")
    assert len(told["answers"]) == 3 and told["psql"] is None
    assert list(tmp_path.iterdir()) == []
