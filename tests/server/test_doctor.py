"""`reme doctor`: a sound installation, and each fault with what to do about it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from reme_core.cli import main
from reme_core.models import local
from tests.loopback import Loopback

Doctor = Callable[..., dict[str, dict[str, str]]]


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Run it about a database, and give its findings by name; it ends with 1 when one of them is wrong."""

    def run(url: str, *settings: str) -> dict[str, dict[str, str]]:
        monkeypatch.setenv("DATABASE_URL", url)
        options = [part for setting in settings for part in ("--set", setting)]
        with pytest.raises(SystemExit) as ended:
            main(["doctor", "--json", *options])
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        assert (ended.value.code or 0) == int(any(one["state"] == "wrong" for one in found))
        return {one["check"]: one for one in found}

    return run


def states(found: dict[str, dict[str, str]]) -> dict[str, list[str]]:
    by_state: dict[str, list[str]] = {}
    for name, one in found.items():
        by_state.setdefault(one["state"], []).append(name)
    return by_state


def test_a_sound_installation_is_fine_and_its_models_are_asked_once(
    doctor: Doctor, database_url: str, loopback: Loopback
) -> None:
    loopback.chat("OK")
    key = f"base_url={loopback.url}"
    found = doctor(
        database_url, "llm.default.model_name=talker", f"llm.default.{key}",
        "embedding_model.default.model_name=words", f"embedding_model.default.{key}",
        "rerank_model.default.model_name=ranker", f"rerank_model.default.{key}",
    )  # fmt: skip
    assert states(found) == {"fine": list(found)}, found
    assert {"python", "package", "disk", "postgres", "encoding", "pgvector", "schema", "room", "clock"} < set(found)
    assert "with server, mcp, chat" in found["package"]["found"]
    assert found["encoding"]["found"] == "UTF8"
    assert "64 dimensions" in found["embedding_model.default"]["found"]
    assert len(loopback.bodies("/chat/completions")) == len(loopback.bodies("/rerank")) == 1
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from reme.workspace").fetchone() == (0,), "it leaves nothing behind"


def test_a_model_that_fails_is_told_after_one_call(doctor: Doctor, database_url: str, loopback: Loopback) -> None:
    loopback.fail(times=4)  # one that never answers would be waited for four times as well, a minute each
    found = doctor(database_url, "llm.default.model_name=talker", f"llm.default.base_url={loopback.url}")
    assert states(found)["wrong"] == ["llm.default"]
    assert len(loopback.bodies("/chat/completions")) == 1


def test_what_a_server_says_does_not_run_into_what_to_do(doctor: Doctor, database_url: str, loopback: Loopback) -> None:
    loopback.fail(402, message="no credit; top up; thanks")
    found = doctor(database_url, "llm.default.model_name=talker", f"llm.default.base_url={loopback.url}")["llm.default"]
    assert found["found"].endswith("(402: no credit, top up, thanks)")
    assert found["to_do"] == "see your account there"


def test_jobs_that_fail_or_that_nobody_does_are_told(doctor: Doctor, database_url: str) -> None:
    queue = (
        "insert into reme.procrastinate_jobs (queue_name, task_name, lock, args, status, scheduled_at, attempts) values"
        " ('reme', 'reme.summarise', 'x', '{\"workspace\": \"w\"}', %s, now() + make_interval(secs => %s), %s)"
    )
    assert doctor(database_url)["jobs"]["found"] == "nothing waits, and nothing failed"
    with psycopg.connect(database_url, autocommit=True, options="-csearch_path=reme") as connection:
        connection.execute(queue, ("todo", -60, 0))
        assert re.fullmatch(r"1 job is due for [67]\d s, and nothing failed", doctor(database_url)["jobs"]["found"])
        connection.execute(queue, ("todo", -3600, 0))
        found = doctor(database_url)["jobs"]
        assert found["state"] == "wrong"
        assert re.fullmatch(r"2 jobs are due for 3,6\d\d s, and nobody does them", found["found"])
        assert "`reme worker`" in found["to_do"]
        connection.execute("delete from reme.procrastinate_jobs")
        connection.execute(queue, ("todo", 60, 3))
        assert doctor(database_url)["jobs"]["state"] == "fine", "its worker was only stopped"
        connection.execute("set reme.workspace = '*'")
        connection.execute(
            "insert into job_error (workspace_id, job_id, failed_at, error) select 'w', max(id), now(), 'no model'"
            " from procrastinate_jobs"
        )
        connection.execute(queue, ("failed", 0, 9))
        found = doctor(database_url)["jobs"]
        assert (found["state"], found["found"]) == ("wrong", "1 job failed and is tried again, and 1 was given up")
        assert "`reme jobs list`" in found["to_do"]


def test_an_offline_model_that_cannot_judge_is_told(
    doctor: Doctor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "missing_for_manners", lambda: ["onnxruntime"])
    found = doctor(database_url)["package"]
    assert found["found"].startswith("onnxruntime, for the offline model, is not installed")
    assert "force-reinstall" in found["to_do"]


def test_a_database_that_takes_no_writes_is_told_with_what_to_do(doctor: Doctor, database_url: str) -> None:
    found = doctor(make_conninfo(database_url, options="-c default_transaction_read_only=on"))
    assert (found["rights"]["state"], found["rights"]["to_do"]) == (
        "wrong", "connect to the primary server, or set default_transaction_read_only to off there",
    )  # fmt: skip


def test_a_server_without_room_for_a_file_is_told_though_a_small_row_fits(doctor: Doctor, database_url: str) -> None:
    found = doctor(make_conninfo(database_url, options="-c temp_file_limit=1MB"))
    assert (found["rights"]["state"], found["room"]["state"]) == ("fine", "wrong")
    assert "a limit set for" in found["room"]["found"] and found["room"]["to_do"]


def test_a_statement_that_the_server_cancels_is_told_with_what_to_do(doctor: Doctor, database_url: str) -> None:
    found = doctor(make_conninfo(database_url, options="-c statement_timeout=1ms"))
    assert found["room"]["state"] == "wrong"
    for one in found.values():
        assert "QueryCanceled" not in one["found"] and "report it" not in one["to_do"]


def test_each_fault_is_told_with_what_to_do(doctor: Doctor, empty_database_url: str) -> None:
    found = doctor(
        empty_database_url, "llm.default.model_name=x", "llm.default.base_url=http://127.0.0.1:1/v1",
        "llm.default.max_retries=0", "embedding_model.default.model_name=text-embedding-3-small",
        "data_dir=/proc/nowhere",
    )  # fmt: skip
    assert set(states(found)["wrong"]) == {
        "disk", "schema", "rights", "jobs", "embedding_model.default", "llm.default"
    }  # fmt: skip
    assert all(one["to_do"] for one in found.values() if one["state"] == "wrong"), found
    assert found["schema"]["to_do"] == "run `reme db upgrade`"
    assert "embedding_model.default.base_url" in found["embedding_model.default"]["to_do"]


def test_a_model_whose_url_is_none_hides_nothing_of_what_else_is_found(doctor: Doctor, database_url: str) -> None:
    found = doctor(database_url, "llm.default.model_name=x", "llm.default.base_url=http://[::1")
    assert states(found)["wrong"] == ["llm.default"] and "is no address" in found["llm.default"]["found"]


def test_an_extension_that_the_role_may_not_create_is_told_before_an_upgrade(
    doctor: Doctor, plain_owner_url: str
) -> None:
    found = doctor(plain_owner_url)
    assert found["pgvector"]["state"] == "wrong"
    assert "CREATE EXTENSION vector" in found["pgvector"]["to_do"]


def test_a_database_that_is_away_stops_only_what_needs_it(doctor: Doctor) -> None:
    found = doctor("postgresql://nobody@127.0.0.1:1/none")
    assert states(found)["wrong"] == ["postgres"] and "start Postgres there" in found["postgres"]["to_do"]
    assert states(found)["not checked"] == ["encoding", "pgvector", "schema", "rights", "room", "clock", "jobs"]


def test_a_pooler_that_is_away_is_told(doctor: Doctor, database_url: str) -> None:
    found = doctor(database_url, "pooler_url=postgresql://nobody@127.0.0.1:1/none")
    assert states(found)["wrong"] == ["pooler"]
    assert found["pooler"]["found"] == "no server at nobody@127.0.0.1:1/none"
    assert doctor(database_url, f"pooler_url={database_url}")["pooler"]["state"] == "fine"


def test_a_database_that_cannot_hold_every_text_is_refused(
    doctor: Doctor, server_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"ascii_{uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"create database {name} template template0 encoding sql_ascii locale 'C'")
        try:
            found = doctor(make_conninfo(server_url, dbname=name))
            with pytest.raises(SystemExit) as ended:
                main(["db", "upgrade"])
        finally:
            connection.execute(f"drop database {name} with (force)")
    assert "SQL_ASCII" in found["postgres"]["found"] and "ENCODING 'UTF8'" in found["postgres"]["to_do"]
    assert ended.value.code == 4 and "SQL_ASCII" in capsys.readouterr().err


def test_long_advice_leaves_room_for_what_was_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(SystemExit):
        main(["doctor"])
    shown = capsys.readouterr().out
    assert "reme-core" in shown and "there is no database to ask" in shown and "Postgres" in shown
