"""Every block of code on every page does what the page says: it runs as it stands, with nothing added to it."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from reme_core import Episode, ReMe, Settings
from reme_core.demo import run_demo
from reme_core.engine import Engine
from tests.loopback import Loopback, tool_call
from tests.pages.blocks import LANGUAGES, PAGES, Block, blocks, unfenced
from tests.pages.runner import Runner, typed
from tests.second_environment import python_with_llamaindex_openai, python_with_version_1  # noqa: F401 - fixtures
from tests.server.conftest import by_schema

DOG, WHERE = "My dog Rex lives in Lisbon.", "Where does my dog Rex live?"
TYPED = {"README.md": (DOG, WHERE, "")}
PROMISED: dict[str, list[str]] = {
    "README.md": ["1 She drinks her tea green.", "I ran my first marathon yesterday!", "update me he said so",
                  "Her brother lives in Porto.", "carol"],
    "docs/backup.md": ["wrote memory.backup: 2 workspaces, 24 memories", "restored: 2 workspaces, 24 memories"],
    "docs/episodes.md": ["[WORKS] Read the logs before acting", "imported 1 episode;", "search",
                         "Only the better one used list_invoices."],
    "docs/service.md": ['"success":true', "the shop's agents", '"content":"Ann wears size 44."'],
    "docs/concepts.md": ["observation: I live in Ghent, and I bake bread for a living. (said at"],
    "docs/personal.md": ['["I\'m vegetarian."]'],
    "docs/flows.md": ["Refunds need a reason."],
    "docs/coming-from-memoryscope.md": ["allergic to peanuts"],
    "docs/working-memory.md": ["step 4321 took 53 ms", '"success":true'],
    "docs/sql-from-python.md": ["She drinks green tea."],
    "docs/sql.md": ["drinks green tea", "hurt her left calf", "Two hours and four minutes", "严重过敏", "half marathon",
                    "superseded_by", "invoice", "neighbour", "embed_passage"],
    **{page: ["clock 1 1.0 []"] for page in PAGES if "integrations" in page},
}  # fmt: skip
"""What blocks of a page print, at the least."""
SECRET = "Nobody may see this."


@pytest.fixture
def served(
    request: pytest.FixtureRequest,
    database_url: str,
    empty_database_url: str,
    loopback: Loopback,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """The variables that pages name: a database, an empty one, and a model."""
    if request.node.name.endswith(("[docs/sql.md]", "[docs/backup.md]")):
        asyncio.run(tell(database_url))
    loopback.chat(reply)
    environ = {"DATABASE_URL": database_url, "OPENAI_API_KEY": "key", "OPENAI_BASE_URL": loopback.url}
    for name, value in {**environ, "OPENAI_API_BASE": loopback.url, "TARGET": empty_database_url}.items():
        monkeypatch.setenv(name, value)
    return database_url


async def tell(url: str) -> None:
    """What two pages start from: the demonstration, and a task that was tried twice."""
    async with Engine(Settings(database_url=SecretStr(url))) as reme:
        await run_demo(reme)
        await reme.memories.add("neighbour", SECRET)
        await reme.episodes.record_many("demo", [Episode(task_id="invoice", score=score) for score in (0.2, 1.0)])


def reply(body: dict[str, Any]) -> Any:
    tools = {tool["function"]["name"] for tool in body.get("tools") or []}
    if "clock" in tools and body["messages"][-1]["role"] != "tool":
        return {"tool_calls": [tool_call("clock", city="Lisbon")]}
    return by_schema(body)


@pytest.mark.timeout(400)
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # models, which their frameworks leave open
@pytest.mark.filterwarnings("ignore:Resolved model mismatch")  # AutoGen knows the name that only OpenAI answers with
@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_shows(
    page: str,
    served: str,
    loopback: Loopback,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def python_for(block: Block) -> str | None:
        if block.language == "python" and block.mark == "v1":
            return str(request.getfixturevalue("python_with_version_1"))
        if block.language == "python" and "llamaindex" in page:
            return str(request.getfixturevalue("python_with_llamaindex_openai"))
        return None

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", typed(*TYPED.get(page, ())))
    Runner(tmp_path, served, python_for)([block for block in blocks(page) if not block.reason])
    out = capfd.readouterr().out
    assert not [promise for promise in PROMISED.get(page, []) if promise not in " ".join(out.split())], out
    assert SECRET not in out
    if "integrations" in page:
        asked = [str(body["messages"]) for body in loopback.bodies("/chat/completions")]
        assert any(DOG in prompt and "Where does my dog live?" in prompt for prompt in asked)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_what_it_is(page: str) -> None:
    assert {block.language for block in blocks(page)} <= LANGUAGES
    assert not unfenced(page)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # the loop's own client, which ends with its program
def test_the_quickstart_may_be_run_twice_and_the_loop_remembers(
    served: str, loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    loop, *others = [block for block in blocks("README.md") if block.language == "python"]

    def outcome() -> tuple[list[str], dict[str, list[str]]]:
        Runner(tmp_path, served, lambda _: None)(others)
        with ReMe() as reme:
            known = {name: sorted(m.content for m in reme.memories.list(name)) for name in ("alice", "dora", "shop")}
        return [re.sub(r"^2.*?\+00:00", "", line) for line in capfd.readouterr().out.splitlines()], known

    first = outcome()
    assert first == outcome() and all(len(known) == len(set(known)) for known in first[1].values())
    for said in ((DOG, "He is old.", ""), (WHERE, "")):
        monkeypatch.setattr(sys, "stdin", typed(*said))
        Runner(tmp_path, served, lambda _: None)([loop])
    told, went_on, asked = [body["messages"] for body in loopback.bodies("/chat/completions")]
    assert [message["role"] for message in told] == ["user"]
    assert [message["role"] for message in went_on] == ["user", "assistant", "user"]
    assert went_on[1]["content"] == "ok" and went_on[2]["content"].endswith("He is old.")
    note, _, question = asked[0]["content"].rpartition("\n\n")
    assert question == WHERE and DOG in note
