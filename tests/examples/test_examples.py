"""The examples with a model do what they say, as a user runs them; the model is a loopback server."""

from __future__ import annotations

import copy
import io
import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import nbformat
import pytest
from nbclient import NotebookClient

from tests.loopback import Loopback, tool_call

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),  # models, which their frameworks leave open
    pytest.mark.filterwarnings(
        "ignore:Resolved model mismatch"
    ),  # AutoGen knows the name that only OpenAI answers with
]
EXAMPLES = Path(__file__).parents[2] / "examples"
DOG, WHERE = "My dog Rex lives in Lisbon.", "Where does my dog Rex live?"


@pytest.fixture(autouse=True)
def surroundings(database_url: str, loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("OPENAI_BASE_URL", loopback.url)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs an example as its command line does; gives what it prints."""

    def run(name: str, *arguments: str, typed: str = "") -> str:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def prompts(loopback: Loopback) -> list[list[Any]]:
    """The messages of each request for a chat."""
    return [body["messages"] for body in loopback.bodies("/chat/completions")]


def test_the_chat_remembers_until_its_memory_is_erased(loopback: Loopback, run: Callable[..., str]) -> None:
    run("chat.py", "--workspace", "alice", typed=f"/erase\n{DOG}\n\n")  # nothing is there yet
    shown = run("chat.py", "--workspace", "alice", typed=f"{WHERE}\n/note\n/erase\n\n")
    assert DOG in shown and DOG in str(prompts(loopback)[-1])
    run("chat.py", "--workspace", "alice", typed=f"{WHERE}\n\n")
    assert prompts(loopback)[-1] == [{"role": "user", "content": WHERE}]


async def test_the_service_keeps_tenants_and_people_apart(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_KEYS", json.dumps({"one": "acme", "two": "globex"}))
    app = runpy.run_path(str(EXAMPLES / "tenants.py"))["app"]

    async def say(key: str, user: str, conversation: str, text: str) -> list[Any]:
        body = {"user": user, "conversation": conversation, "text": text}
        answer = await client.post("/chat", json=body, headers={"authorization": f"Bearer {key}"})
        assert (answer.status_code, answer.json()) == (200, {"text": "ok"})
        return prompts(loopback)[-1]

    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client,
    ):
        await say("one", "ann", "monday", DOG)
        went_on = await say("one", "ann", "monday", "He is old.")
        assert [message["role"] for message in went_on] == ["user", "assistant", "user"]
        assert DOG in str(await say("one", "ann", "friday", WHERE))
        assert DOG not in str(await say("one", "bob", "friday", WHERE))
        assert DOG not in str(await say("two", "ann", "monday", WHERE))
        refused = await client.post("/chat", json={}, headers={"authorization": "Bearer three"})
        assert refused.status_code == 401


@pytest.mark.parametrize(("decision", "outcome"), [("y", "30.00 euros were given back"), ("n", "refused")])
def test_the_bot_asks_before_it_refunds_and_knows_the_customer_again(
    loopback: Loopback, run: Callable[..., str], decision: str, outcome: str
) -> None:
    loopback.chat("Noted.", {"tool_calls": [tool_call("refund", order="A17", euros=30)]}, "Done.")
    assert "bot: Noted." in run("support_bot.py", "ann", typed="I only wear shoes in size 44.\n\n")
    shown = run("support_bot.py", "ann", typed=f"The shoes are size 42! Refund order A17.\n{decision}\n\n")
    assert "colleague, refund {'order': 'A17', 'euros': 30}?" in shown and "bot: Done." in shown
    _, asked, resumed = prompts(loopback)
    assert "size 44" in str(asked) and "size 44" in str(resumed)
    assert outcome in resumed[-1]["content"]


def test_both_members_of_the_team_know_what_an_earlier_task_told(loopback: Loopback, run: Callable[..., str]) -> None:
    loopback.chat(lambda body: "APPROVED" if "You judge" in str(body["messages"][0]) else "Shoes for all.")
    run("team.py", "Write two lines about our shop. We never say 'cheap'.")
    shown = run("team.py", "Write two lines about our shop's spring sale.")
    assert "APPROVED" in shown
    writer, editor = prompts(loopback)[-2:]
    assert "You write" in str(writer[0]) and "never say" in str(writer)
    assert "You judge" in str(editor[0]) and "never say" in str(editor)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the kernel's client
def test_the_notebook_shows_what_it_was_saved_with(tmp_path: Path) -> None:
    saved = nbformat.read(EXAMPLES / "sql_with_pandas.ipynb", as_version=4)
    fresh = copy.deepcopy(saved)
    NotebookClient(fresh, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()

    def shown(notebook: Any) -> list[str]:
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        return [output["data"]["text/plain"] for output in outputs]

    assert shown(fresh) == shown(saved)
    assert "Nora lives in Porto." in str(shown(saved)) and len(shown(saved)) == 4
