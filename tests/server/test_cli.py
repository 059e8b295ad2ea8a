"""The command line as people and scripts use it: answers on stdout, complaints on stderr, codes that mean something."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

import reme_core
from reme_core import ReMe
from reme_core.cli.main import _ASSIGNMENT, main
from reme_core.settings import Settings
from reme_core.types import Memory, Message, Source
from tests.server.command import Reme

_UNREACHABLE = ("backend=openai", "base_url=http://127.0.0.1:1/v1", "model_name=small", "api_key=k", "max_retries=0")
UNREACHABLE_MODEL = [part for setting in _UNREACHABLE for part in ("--set", f"embedding_model.default.{setting}")]


@pytest.fixture
def reme(capsys: pytest.CaptureFixture[str], configured: str) -> Reme:
    return Reme(capsys)


def test_what_is_added_is_recalled_shown_and_deleted(reme: Reme) -> None:
    (added,) = reme.json("add", "She drinks her tea green.", "-w", "alice", "--subject", "Ann", "--kind", "observation")
    assert added["workspace_id"] == "alice" and added["subject"] == "Ann"
    found = reme.json("recall", "What does she drink?", "-w", "alice")
    assert found["hits"][0]["memory"]["memory_id"] == added["memory_id"]
    assert {"vector", "lexical", "final"} <= found["hits"][0]["parts"].keys()
    shown = reme.json("show", added["memory_id"], "-w", "alice")
    assert shown["content"] == "She drinks her tea green." and shown["evidence"] == []
    assert [(entry["operation"], entry["changed_by"]) for entry in shown["history"]] == [("insert", "command line")]
    assert reme.json("delete", added["memory_id"], "-w", "alice") == {"deleted": 1}
    assert reme.json("recall", "What does she drink?", "-w", "alice")["hits"] == []
    assert reme.json("recall", "What does she drink?", "-w", "alice", "--closed")["hits"]


def test_what_may_take_long_says_in_a_terminal_what_it_does(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    (added,) = reme.json("add", "She drinks her tea green.", "-w", "alice")
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal
    for doing, command in {
        "Upgrading": "db upgrade",
        "Making memories": "summarise -w alice",
        "Working": "jobs run",
        "Deleting": f"delete {added['memory_id']} -w alice --erase",
        "Removing": "clear alice --yes",
    }.items():
        reme(*command.split())
        assert doing in reme.err
        assert "Traceback" not in reme.err


def test_what_has_an_end_is_shown_with_it(reme: Reme) -> None:
    with ReMe() as memory:
        ends = datetime(2024, 5, 11, tzinfo=UTC)
        memory.memories.add("alice", [Memory(content="Answer in French.", valid_until=ends)])
    assert "until 2024-05-10" in reme("recall", "Which language?", "-w", "alice")


def test_people_get_tables_with_reasons(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL")  # the embedded server serves
    reme("add", "She drinks her tea green.", "[bold]not markup[/bold]", "-w", "alice")
    out = reme("recall", "What does she drink?", "-w", "alice", "--explain")
    assert "She drinks her tea green." in out and "meaning" in out and "█████ 1.00" in out
    assert "[bold]not markup[/bold]" in out and "\x1b" not in out
    assert "fits" in out
    held_back = reme("recall", "thanks!", "-w", "alice", "--min-relevance", "0.15")
    assert "Nothing in workspace 'alice' answers that." in held_back
    assert "Nothing in workspace 'bob' answers that." in reme("recall", "tea", "-w", "bob")


def test_remembered_words_cannot_command_the_terminal(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = "Her tea\x1b[2J is\x1b]0;title\x07 green\x9b31m.\r"
    (added,) = reme.json("add", hidden, "-w", "alice", "--subject", "An\x1bn")
    assert added["content"] == hidden
    shown = "Her tea[2J is]0;title green31m."
    for asked in (["list"], ["recall", "tea"], ["show", added["memory_id"]], ["history", added["memory_id"]]):
        out = reme(*asked, "-w", "alice")
        assert not set(out) & set("\x1b\x07\x9b\r"), asked
        assert shown in out or asked[0] == "history"
    told = reme("list", "-w", "alice", "--json")
    assert json.loads(told)[0]["content"] == hidden and not set(told) & set("\x1b\x07\x9b\r")
    reme("show", "no\x1b[2Jne", "-w", "alice", code=3)
    assert "no[2Jne" in reme.err
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal: the styles are escape sequences, too
    out = reme("list", "-w", "alice")
    assert "\x1b[" in out and "\x1b[2J" not in out and shown in out


def test_whoever_finds_no_memory_where_messages_are_is_told_how_to_see_them(reme: Reme) -> None:
    reme("record", "My dog's name is Biscuit.", "He is three.", "-w", "the flat")
    told = reme("recall", "What is my dog called?", "-w", "the flat")
    command = told.split("2 messages are recorded there, and this shows them: ")[1]
    assert shlex.split(command) == [
        "reme", "recall", "What is my dog called?", "--workspace", "the flat", "--kind", "conversation",
    ]  # fmt: skip
    assert "Biscuit" in reme(*shlex.split(command)[1:])
    told = reme("list", "-w", "the flat")
    assert "Nothing is remembered in workspace 'the flat'." in told
    assert "Biscuit" in reme(*shlex.split(told.split("this shows them: ")[1])[1:])
    assert reme.json("list", "-w", "the flat") == [] == reme.json("recall", "My dog?", "-w", "the flat")["hits"]
    assert "this shows" not in reme("recall", "My dog?", "-w", "the flat", "-k", "conversation", "--session", "other")
    reme("record", "Hello!", "-w", "bob")
    assert "1 message is recorded there, and this shows it: " in reme("list", "-w", "bob")


def test_evidence_and_history_are_shown_in_words(settings: Settings, reme: Reme) -> None:
    with ReMe(settings) as opened:
        opened.record("alice", [Message(message_id="m1", author="Ann", content="I love green tea!")], wait=True)
        memory = Memory(memory_id="tea", content="Ann loves green tea.", sources=[Source(kind="message", id="m1")])
        opened.memories.add("alice", memory)
        opened.memories.update("alice", "tea", content="Ann loves tea.", actor="bob", reason="all sorts")
    (evidence,) = reme.json("show", "tea", "-w", "alice")["evidence"]
    assert (evidence["text"], evidence["by"], evidence["kind"]) == ("I love green tea!", "Ann", "message")
    out = reme("show", "tea", "-w", "alice")
    assert "I love green tea!" in out and "content: Ann loves green tea. → Ann loves tea." in out and "all sorts" in out


def test_recall_narrows_by_time_and_session(settings: Settings, reme: Reme) -> None:
    with ReMe(settings) as opened:
        turns = [("m1", "s1", "2024-05-02", "A walk by the sea."), ("m2", "s2", "2024-06-02", "A walk in the woods.")]
        opened.record(
            "alice",
            [Message(message_id=i, session_id=s, sent_at=at, content=text) for i, s, at, text in turns],  # type: ignore[arg-type]
            wait=True,
        )

    def ids(*options: str) -> list[str]:
        found = reme.json("recall", "walk", "-w", "alice", "-k", "conversation", *options)
        return sorted(hit["memory"]["memory_id"] for hit in found["hits"])

    assert ids() == ["m1", "m2"]
    assert ids("--during", "May 2024") == ["m1"] and ids("--during", "2024年6月") == ["m2"]
    explained = "Where did I walk on May 2nd, 2024?", "-w", "alice", "-k", "conversation"
    assert [hit["parts"]["time"] > 0.3 for hit in reme.json("recall", *explained)["hits"]] == [True, False]
    assert [hit["parts"]["time"] for hit in reme.json("recall", *explained, "--no-time")["hits"]] == [0, 0]
    assert ids("--session", "s2") == ["m2"] and ids("--as-of", "2024-07-01") == []
    reme("recall", "walk", "-w", "alice", "--during", "the blue one", code=2)
    assert "does not name one stretch of time" in reme.err
    reme("recall", "walk", "-w", "alice", "--as-of", "soon", code=2)


def test_memories_are_piped_in_listed_changed_and_their_history_is_shown(
    reme: Reme, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("She\u2028likes tea.\n\nShe lives in Porto.\n"))
    assert len(reme.json("add", "-", "He has a dog.", "-w", "alice")) == 3
    listed = {m["content"]: m["memory_id"] for m in reme.json("list", "-w", "alice")}
    assert listed.keys() == {"She\u2028likes tea.", "She lives in Porto.", "He has a dog."}
    assert reme.json("list", "-w", "alice", "-k", "task") == []
    porto = listed["She lives in Porto."]
    reme("update", porto, "She lives in Faro.", "-w", "alice", "--reason", "she moved")
    assert "She lives in Faro." in reme("list", "-w", "alice")
    entries = reme.json("history", porto, "-w", "alice")
    assert [(e["operation"], e["reason"]) for e in entries] == [("insert", ""), ("update", "she moved")]
    reme("update", porto, "She lives in Lagos.", "-w", "alice", "--reason", "She moved again, " + "on and " * 40 + "on")
    shown = " ".join(reme("history", porto, "-w", "alice").split())
    assert "content: She lives in Faro. → She lives in Lagos." in shown
    reme("update", "none", "Nothing.", "-w", "alice", code=3)


def test_what_was_said_is_recorded_and_summarised(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    reme("record", "I moved to Porto with my son Tim in May.", "-w", "alice", "--session", "monday")
    said = [{"role": "user", "content": "My sister lives in Faro."}, {"role": "assistant", "content": "Nice."}]
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(said)))
    assert [m["role"] for m in reme.json("record", "-", "-w", "alice")] == ["user", "assistant"]
    told = reme.json("summarise", "-w", "alice")
    assert {job["session_id"] for job in told["done"]} == {"", "monday"} and not told["failed"] + told["waiting"]
    assert any("Porto" in m["content"] for m in reme.json("list", "-w", "alice"))
    for wrong in ("no JSON", "{}", "[7]"):
        monkeypatch.setattr("sys.stdin", io.StringIO(wrong))
        reme("record", "-", "-w", "alice", code=2)
        assert '"role": "user"' in reme.err


@pytest.mark.parametrize(
    ("told", "command"),
    [
        ("does not fit (bigint out of range)", ["jobs", "show", "9" * 20]),
        ("does not fit (bigint out of range)", ["jobs", "retry", "9" * 20]),
        ("limit must be a positive whole number", ["chat", "/memory limit=" + "9" * 20, "-w", "alice"]),
        ("limit must be a positive whole number", ["chat", "/memory limit=²", "-w", "alice"]),
        ("--concurrency", ["worker", "--concurrency", "0"]),
        ("no people in /nowhere", ["eval", "personal", "--people", "/nowhere"]),
        ("there is no status 'fail'; did you mean 'failed'?", ["jobs", "list", "--status", "fail"]),
    ],
)
def test_a_value_that_cannot_be_is_wrong_input(reme: Reme, told: str, command: list[str]) -> None:
    reme(*command, code=2)
    assert told in reme.err


def test_json_goes_into_a_text_that_has_no_encoding() -> None:
    with redirect_stdout(io.StringIO()) as printed, pytest.raises(SystemExit):
        main(["version", "--json"])
    assert json.loads(printed.getvalue()) == {"version": reme_core.__version__}


def test_the_settings_are_shown_without_what_is_secret(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://ann:hidden1@db/reme")
    monkeypatch.setenv("OPENAI_API_KEY", "hidden2")
    headers = 'llm.other.params={"extra_headers": {"Authorization": "Bearer hidden4"}, "max_tokens": 9}'
    given = ("--set", "llm.default.model_name=gpt", "--set", "llm.other.base_url=http://u:hidden3@127.0.0.1/v1")
    given = (*given, "--set", headers)
    values = reme.json("config", "show", *given)
    assert (values["llm.default.model_name"], values["pool_size"]) == ("gpt", 8)
    assert values["llm.other.base_url"] == "http://***@127.0.0.1/v1" and values["llm.default.api_key"]
    assert values["llm.other.params.max_tokens"] == 9
    assert "hidden" not in str(values) + reme("config", "show", *given)


def test_a_key_works_until_the_moment_that_is_said_and_not_from_the_past_on(reme: Reme) -> None:
    assert reme("keys", "create", "phone", "--expires", "2001-01-01", code=2) == ""
    assert "is over" in reme.err and reme.json("keys", "list") == []
    reme("keys", "create", "phone", "--expires", "2099-01-01T00:00:00+02:00")
    assert reme.json("keys", "list")[0]["expires_at"].startswith("2098-12-31T22:00:00")
    assert "active until 2098-12-31 22:00" in reme("keys", "list")


def test_a_workspace_that_does_not_exist_is_told_apart_from_one_without_an_answer(reme: Reme) -> None:
    reme("add", "She drinks her tea green.", "-w", "carol")
    for command in (["recall", "tea"], ["list"], ["summarise"], ["jobs", "list", "--status", "failed"]):
        assert "There is no workspace 'carl'; did you mean 'carol'?" in reme(*command, "-w", "carl")
        assert "There is no workspace" not in reme(*command, "-w", "carol")
    assert reme.json("list", "-w", "carl") == []
    for command in (["jobs", "schedule", "-w", "carl", "--reflect-every", "5"], ["clear", "carl", "--yes"]):
        reme(*command, code=3)
        assert "there is no workspace 'carl'; did you mean 'carol'?" in reme.err
    assert [one["workspace_id"] for one in reme.json("workspaces")] == ["carol"], "a mistyped name made no workspace"


def test_of_many_workspaces_only_the_first_are_drawn_in_a_terminal(
    reme: Reme, configured: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reme("add", "She drinks her tea green.", "-w", "a")
    with psycopg.connect(configured) as connection:
        connection.execute("set reme.workspace = '*'")
        connection.execute(
            "insert into reme.workspace (workspace_id) select format('t%s', n) from generate_series(100, 300) n"
        )
    assert "t300" in reme("workspaces")  # a pipe gets all
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a terminal
    shown = reme("workspaces")
    assert "t198" in shown and "t199" not in shown and "the first 100 of 202" in shown
    assert len(reme.json("workspaces")) == 202


def test_an_empty_text_is_not_recorded(reme: Reme) -> None:
    for texts in ([""], ["I live in Oslo.", " "]):
        assert reme("record", *texts, "-w", "alice", code=2) == "" and "empty" in reme.err
    assert reme.json("workspaces") == []


def test_all_keys_are_deleted_only_on_an_answer(reme: Reme) -> None:
    reme("keys", "create", "phone", "-w", "alice")
    assert reme.json("keys", "list")[0]["workspaces"] == ["alice"]
    assert reme("keys", "clear", code=2) == "" and "say --yes" in reme.err
    assert reme.json("keys", "clear", "--yes") == {"deleted_count": 1}


def test_a_workspace_is_loaded_dumped_copied_moved_and_cleared(reme: Reme, tmp_path: Path) -> None:
    library = tmp_path / "tips.jsonl"
    line = {"memory_id": "m1", "memory_type": "task", "when_to_use": "A search finds nothing", "content": "Broaden it."}
    library.write_text(json.dumps(line) + "\n")
    assert reme.json("load", str(library), "-w", "tips") == {"workspace": "tips", "loaded": 1}
    reme("add", "Told outright.", "-w", "tips")
    reme("load", str(library), "-w", "tips")
    assert reme.json("copy", "tips", "twin")["copied"] == 2
    assert [(w["workspace_id"], w["memories"]) for w in reme.json("workspaces")] == [("tips", 2), ("twin", 2)]
    assert "twin" in reme("workspaces") and reme("copy", "tips", "twin", code=1) == ""
    assert reme.json("dump", str(tmp_path / "out.jsonl"), "-w", "twin")["dumped"] == 2
    assert f"2 memories of 'twin' to {tmp_path / 'twin.jsonl'}" in reme("dump", str(tmp_path), "-w", "twin")
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2
    for more in ([], ["--json"]):  # which are the same lines
        assert reme("dump", "-", "-w", "twin", *more) == (tmp_path / "out.jsonl").read_text()
    assert not Path("-").exists()
    reme("dump", "-", "-w", "nowhere", code=3)
    reme("load", str(library), "-w", "twin", "--replace", code=2)
    assert "say --yes" in reme.err and reme.json("workspaces")[1]["memories"] == 2
    reme("load", str(library), "-w", "twin", "--replace", "--yes")
    assert reme.json("workspaces")[1]["memories"] == 1
    assert reme.json("reembed", "-w", "tips") == {"workspace": "tips", "embedded": 0, "dropped": 0}
    assert reme("clear", "twin", code=2) == "" and "say --yes" in reme.err
    assert reme.json("clear", "twin", "--yes")["removed"] == 1
    reme("clear", "twin", "--yes", code=3)
    assert "`reme workspaces` lists those there are" in reme.err


def test_a_library_with_a_bad_line_is_left_out_and_the_line_is_named(reme: Reme, tmp_path: Path) -> None:
    library = tmp_path / "tips.jsonl"
    library.write_text('{"content": "good", "memory_type": "task"}\n{"content": \n')
    reme("add", "Told outright.", "-w", "tips")
    assert reme("load", str(library), "-w", "tips", code=2) == ""
    assert "2" in reme.err and reme.json("workspaces")[0]["memories"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["show", "m1", "-w", "alice"], 3, "workspace 'alice' has no memory 'm1'"),
        (["delete", "m1", "", "-w", "alice"], 3, "no memory 'm1' or ''"),
        (["recall", " ", "-w", "alice"], 2, "the query is empty"),
        (["recall", "tea", "-w", "alice", "--kind", "fruit"], 2, "there is no kind"),
        (["add", "tea", "-w", "alice", "--kind", "fruit"], 2, "kind: Input should be"),
        (["add", "tea", "-w", "alice", "--metadata", "{"], 2, "--metadata is not JSON"),
        (["recall", "tea", "-w", "alice", "--metadata", ""], 2, "--metadata is not JSON"),
        (["recall", "tea", "-w", "alice", "--metadata", "[" * 60_000], 2, "--metadata is not JSON"),
        (["recall", "tea", "-w", "alice", "--during", ""], 2, "does not name one stretch of time"),
        (["recall", "tea", "-w", "alice", "--set", "http.prot=1"], 2, "did you mean 'http.port'?"),
        (["recall", "tea", "-w", "alice", "--set", "nonsense"], 2, "not of the form key=value"),
        (["workspaces", "--config", "missing.yaml"], 2, "cannot read the configuration file"),
        (["workspaces", "--config", ""], 2, "cannot read the configuration file"),
        (["load", "x" * 300, "-w", "alice"], 2, "File name too long"),
        (["spool", "list", "--file", "x" * 300], 3, "there is no file"),
        (["load", "/proc/self/mem", "-w", "alice"], 2, "cannot read /proc/self/mem"),  # it opens, and cannot be read
        (["workspaces", "--set", "http.port=" + "[" * 60_000], 2, "http.port"),
        (["recall", "tea"], 2, "--workspace"),
        (["workspaces", "--set", "database_url=postgresql://nobody@127.0.0.1:1/none"], 4, "no server at"),
        (["add", "tea", "-w", "alice", *UNREACHABLE_MODEL], 5, "127.0.0.1:1"),
    ],
)
def test_errors_end_with_their_code_and_without_a_traceback(
    reme: Reme, arguments: list[str], code: int, says: str
) -> None:
    assert reme(*arguments, code=code) == ""
    assert says in reme.err.replace("\n", " ") and "Traceback" not in reme.err


def test_an_error_is_json_too_and_debug_shows_where_it_came_from(reme: Reme) -> None:
    assert reme("--json", "show", "m1", "-w", "alice", code=3) == ""
    assert json.loads(reme.err)["error"]["code"] == "not_found"
    reme("show", "m1", "-w", "alice", "--debug", code=3)
    assert "Traceback" in reme.err and "NotFoundError" in reme.err


def test_settings_come_from_file_and_from_either_side_of_the_name(configured: str, reme: Reme, tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("recall:\n  log: false\n")
    reme("add", "tea", "-w", "alice")
    reme("recall", "tea", "-w", "alice", "--config", str(file))
    reme("--set", "recall.log=false", "recall", "tea", "-w", "alice")
    with ReMe(database_url=configured) as opened:
        assert opened.connection.wait(lambda e: e.database.fetch("alice", "select query from reme.retrieval")) == []


@pytest.mark.parametrize("first", ["backend=http", "http.port=8002", "--backend=http", "-llm.default.model_name=x"])
def test_command_lines_of_reme_0_1_are_told_apart(first: str) -> None:
    assert _ASSIGNMENT.match(first)


@pytest.mark.parametrize("first", ["recall", "--json", "--set=http.port=1", "--config=a.yaml", "="])
def test_our_own_command_lines_stay_ours(first: str) -> None:
    assert not _ASSIGNMENT.match(first)


def test_the_version_is_the_package_s(reme: Reme) -> None:
    assert reme("version") == reme("--version") == reme_core.__version__ + "\n"
    assert reme.json("version") == {"version": reme_core.__version__}


def test_flows_are_listed_and_drawn_and_a_wrong_name_gets_the_nearest(reme: Reme) -> None:
    listed = reme.json("flows")
    names = {flow["name"] for flow in listed["flows"]}
    assert "min_score_threshold" in {op["name"]: op for op in listed["ops"]}["rerank"]["parameters"]
    told = reme("flows")
    assert "top_k: integer = 3" in told, "what a flow takes"
    assert "min_score_threshold: float = 0.3" in told, "what an op takes"
    assert {"retrieve_task_memory", "summary_personal_memory"} <= names
    assert "success_extraction" in reme("flows", "--ops")
    drawn = reme("flows", "draw", "summary_task_memory")
    assert drawn.index("trajectory_preprocess") < drawn.index("side by side") < drawn.index("store")
    assert reme("flows", "draw", "summary_task_memory", "--mermaid").startswith("flowchart")
    reme("flows", "draw", "retrieve_task_memry", code=2)
    assert "did you mean 'retrieve_task_memory'" in reme.err


def test_flows_of_the_settings_are_listed_wherever_the_settings_are_named(reme: Reme, tmp_path: Path) -> None:
    own = "flow.mine.flow_content=build_query >> recall >> merge"
    config = tmp_path / "f.yaml"
    config.write_text("flow: {mine: {flow_content: build_query >> recall >> merge}}")
    for options in (["--set", own], ["--config", str(config)]):
        for arguments in ([*options, "flows"], ["flows", *options]):
            assert "mine" in {flow["name"] for flow in reme.json(*arguments)["flows"]}
        assert "recall" in reme("flows", *options, "draw", "mine")
    reme("flows", "--set", "flow.mine.flow_contents=x", "--debug", code=2)
    assert "Traceback" in reme.err


def test_ops_of_ones_own_are_listed(reme: Reme, tmp_path: Path) -> None:
    source = tmp_path / "shouting.py"
    source.write_text(
        "from reme_core.flows.deps import Deps\n"
        "from reme_core.flows.registry import op\n"
        "from reme_core.flows.state import RetrievalState\n"
        '@op(reads={"query"}, writes={"answer"})\n'
        "async def shout(state: RetrievalState, deps: Deps) -> None:\n"
        "    state.answer = state.query.upper()\n"
    )
    listed = reme.json("--set", f'ops=["{source}"]', "flows", "--ops")
    assert "shout" in {op["name"] for op in listed["ops"]}


def test_brackets_are_text_wherever_they_are_shown(reme: Reme) -> None:
    text = "tags [bold]stay[/bold], [/unopened] too"
    (added,) = reme.json("add", text, "--subject", "[/x]", "-w", "alice")
    assert text in reme("recall", "tags", "-w", "alice", "--explain")
    shown = reme("show", added["memory_id"], "-w", "alice")
    assert text in shown
    assert "[/x]" in shown
    reme("delete", "[/gone]", "-w", "alice", code=3)
    assert "[/gone]" in reme.err


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [("serve", "fastapi", "server,mcp"), ("mcp", "mcp", "mcp"), ("chat", "prompt_toolkit", "chat")],
)
@pytest.mark.usefixtures("configured")
def test_a_missing_extra_is_named(command: str, package: str, extra: str) -> None:
    code = f"import sys; sys.modules['{package}'] = None; from reme_core.cli import main; main(['{command}'])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert f'pip install "reme-core[{extra}]"' in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_single_question_is_answered_as_json_and_a_failure_ends_with_its_code(reme: Reme) -> None:
    reme("add", "I live in Porto", "-w", "alice")
    answered = reme.json("chat", "Where do I live?", "-w", "alice")
    assert "No chat model is set" in answered["answer"]
    assert [memory["content"] for memory in answered["memories"]] == ["I live in Porto"]
    reme("chat", "--json", "-w", "alice", code=2)
    assert "give the question" in reme.err
    reme("chat", "/nonsense", "-w", "alice", code=2)
    unreachable = [
        f"--set=llm.default.{s}" for s in ("model_name=m", "base_url=http://127.0.0.1:1/v1", "max_retries=0")
    ]
    reme("chat", "Where do I live?", "-w", "alice", *unreachable, code=5)


def test_a_command_line_of_reme_01_may_begin_with_its_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--config=/not/there.yaml", "--backend=http"])
    told = capsys.readouterr().err
    assert "/not/there.yaml" in told and "No such option" not in told


def test_jobs_that_were_given_up_are_tried_again_or_thrown_away(reme: Reme, configured: str) -> None:
    for session in ("a", "b", "c"):
        reme("record", "I moved to Rome in May.", "-w", "alice", "--session", session)
    with psycopg.connect(configured, autocommit=True, options="-csearch_path=reme") as connection:
        connection.execute("update procrastinate_jobs set status = 'failed'")
    first, *others = sorted(job["id"] for job in reme.json("jobs", "list", "--status", "failed"))
    for command in (["list"], ["show", str(first)]):
        assert "`reme jobs retry ID`" in reme("jobs", *command)
    assert "Dropped" in reme("jobs", "drop", str(first))
    reme("jobs", "drop", str(others[0]), str(first), code=3)
    reme("jobs", "retry", code=2)
    assert "or --all" in reme.err
    assert reme.json("jobs", "retry", "--all", "-w", "bob") == {"retried": []}
    reme("jobs", "retry", *map(str, others), "-w", "bob", code=3)
    assert f"workspace 'bob' has no job {others[0]}" in reme.err
    reme("jobs", "retry", str(others[0]), str(first), code=3)
    assert f"there is no job {first}" in reme.err  # and the other one stays as it was, which the next line finds
    assert sorted(reme.json("jobs", "retry", "--all")["retried"]) == others
    assert reme.json("jobs", "list", "--status", "failed") == []
    assert "retry" not in reme("jobs", "list")


def test_all_jobs_that_are_left_are_told(reme: Reme, configured: str) -> None:
    reme("record", "I moved to Rome in May.", "-w", "alice")
    more = "insert into procrastinate_jobs (queue_name, task_name, args, status) select 'reme.chat', task_name, args,"
    with psycopg.connect(configured, autocommit=True, options="-csearch_path=reme") as connection:
        connection.execute(f"{more} 'failed' from procrastinate_jobs, generate_series(1, 120)")
    assert "120 jobs left" in reme("jobs", "run")


@pytest.mark.parametrize("command", [["jobs", "run"], ["summarise", "-w", "alice"]])
def test_jobs_that_all_fail_are_an_error_with_the_reason(
    reme: Reme, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = {"MODEL_NAME": "m", "BASE_URL": "http://127.0.0.1:1/v1", "API_KEY": "k", "MAX_RETRIES": "0"}
    for name, value in model.items():
        monkeypatch.setenv(f"REME_LLM__DEFAULT__{name}", value)
    reme("record", "I moved to Rome in May.", "-w", "alice")
    reme(*command, code=5)
    assert "could not be reached" in reme.err and "reme jobs list" in reme.err


def test_an_address_for_mcp_over_stdio_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["mcp", "--transport", "stdio", "--port", "9000"])
    assert "--host and --port are for --transport sse and http" in " ".join(capsys.readouterr().err.split())
