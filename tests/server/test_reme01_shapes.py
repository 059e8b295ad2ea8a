"""Answers have the shapes of ReMe 0.1: its documented requests, with the shapes that reme-ai 0.1.10.8 answered with.

Both services were asked the same, with a scripted model behind them. reme01_shapes.json has the names and types of its
answers, without what its ops left in the metadata of memories, which is not documented. Its `list` and
`delete_task_memory` failed, so they are not in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reme_core.engine import Engine
from reme_core.server.http import create_app
from reme_core.settings import ChatSettings, Settings
from tests.flows.attempts import valid
from tests.loopback import Loopback
from tests.server.conftest import by_schema, connected

THEIRS = json.loads((Path(__file__).parent / "reme01_shapes.json").read_text(encoding="utf-8"))
ATTEMPTS = [
    {
        "task_id": "t",
        "messages": [
            {"role": "user", "content": "Book a flight to Rome"},
            {"role": "assistant", "content": "I call book with 2025-03-01. Booked."},
        ],
        "score": score,
    }
    for score in (1.0, 0.0)
]
CALL = {
    "create_time": "2025-10-21 10:30:00", "tool_name": "web_search", "input": {"query": "q"}, "token_cost": 150,
    "output": "Found 10 results", "success": True, "time_cost": 2.3,
}  # fmt: skip
DRINKS = "I like to drink strong coffee in the morning while working"


def shape(value: Any) -> Any:
    """The names and types of a JSON value; of a list, those of its first member."""
    if isinstance(value, dict):
        return {name: shape(member) for name, member in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def missing(theirs: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Where ours lacks something of theirs, or has it in another type."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name, member in theirs.items():
            yield from missing(member, ours.get(name, "nothing"), f"{path}.{name}")
    elif isinstance(theirs, list) and isinstance(ours, list):
        if theirs and ours:
            yield from missing(theirs[0], ours[0], f"{path}[]")
    elif theirs != ours:
        yield f"{path}: {theirs} there, {ours} here"


def scripted(body: dict[str, Any]) -> Any:
    """What the model answers: every lesson is valid, and forms are filled in."""
    return valid(body) if "verdicts" in json.dumps(body.get("response_format")) else by_schema(body)


async def test_documented_requests_are_answered_in_the_shapes_of_reme_01(
    settings: Settings, loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    loopback.chat(scripted)
    settings.llm["default"] = ChatSettings(model_name="loop-chat", base_url=loopback.url, max_retries=0)
    told: dict[str, Any] = {}
    async with Engine(settings) as reme, connected(create_app(reme)) as client:

        async def ask(flow: str, workspace: str = "w", **body: Any) -> dict[str, Any]:
            response = await client.post(f"/{flow}", json={"workspace_id": workspace, **body})
            assert response.status_code == 200, response.text
            told.setdefault("load" if body.get("action") == "load" else flow, shape(response.json()))
            return dict(response.json()["metadata"])

        assert (await ask("vector_store", action="delete"))["action_result"] == {"size": 0}
        for flow in ("summary_task_memory", "summary_task_memory_simple"):
            await ask(flow, trajectories=ATTEMPTS)
        for flow in ("retrieve_task_memory_simple", "retrieve_task_memory"):
            found = await ask(flow, query="Book a flight to Nice", top_k=1)
        await ask("record_task_memory", memory_dicts=found["memory_list"], update_utility=True)
        for action in ("dump", "load"):
            await ask("vector_store", action=action, path="./")
        await ask("summary_personal_memory", "p", trajectories=[{"messages": [{"role": "user", "content": DRINKS}]}])
        await ask("retrieve_personal_memory", "p", query="What does the user drink?", top_k=5)
        await ask("add_tool_call_result", "tools", tool_call_results=[CALL])
        again = {"workspace_id": "tools", "tool_call_results": [CALL]}
        told["add_again"] = shape((await client.post("/add_tool_call_result", json=again)).json())
        for flow in ("summary_tool_memory", "retrieve_tool_memory"):
            await ask(flow, "tools", tool_names="web_search")
        await ask("react", query="Book a flight")
    assert THEIRS.keys() <= told.keys()
    assert [f"{name}{line}" for name in THEIRS for line in missing(THEIRS[name], told[name])] == []
    filled = [name for name, answer in told.items() if answer["metadata"].get("memory_list")]
    assert len(filled) >= 8, filled
