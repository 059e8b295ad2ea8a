"""The requests that ReMe 0.1's pages and demos show, and the shapes that its last version answers them with.

`reme01_shapes.json` is made by sending them to reme-ai 0.1.10.8, with the scripted model that this service gets too:

    python -m venv reme01    # Python 3.12 or newer
    reme01/bin/pip install reme-ai==0.1.10.8 flowllm==0.1.11.6 "mcp<1.18" "fastmcp<2.13" "fastapi<0.120" "pydantic<2.12"
    python -m tests.server.reme01 reme01/bin/reme
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from tests.flows.attempts import valid
from tests.loopback import Loopback
from tests.server.conftest import by_schema

SHAPES = Path(__file__).parent / "reme01_shapes.json"
Json = dict[str, Any]
Ask = Callable[..., Awaitable[Json]]
"""Sends a request to a flow: `await ask(name, flow, **body)` gives the answer, or nothing where it was refused."""

# What the ops of ReMe 0.1 look for in an answer; each finds its own.
_LINES = "Result: <1> <3>\nResult: <2> <3>\nResult: <3> <3>\nInformation: <1> <> <The user likes coffee> <coffee>"
_LESSON = {
    "when_to_use": "When work is planned", "experience": "Divide the work, and give each part a date.",
    "tags": ["planning"], "confidence": 0.9, "step_type": "decision", "tools_used": ["calendar"],
}  # fmt: skip
_SIMPLE = {"when_to_use": "When work is planned", "memory": "Divide the work, and give each part a date."}
_JUDGEMENT = {
    "is_valid": True, "score": 1.0, "feedback": "fine", "recommendations": "", "ranked_indices": [0],
    "rewritten_context": "Divide the work.", "summary": "It answered.", "evaluation": "The parameters were right.",
}  # fmt: skip


def scripted(body: Json) -> Any:
    """What the model answers both: forms are filled in, lessons are valid."""
    if "response_format" in body:
        return valid(body) if "verdicts" in json.dumps(body["response_format"]) else by_schema(body)
    asked = body["messages"][-1]["content"]
    form = [_LESSON] if '"experience":' in asked else [_SIMPLE] if '"memory":' in asked else _JUDGEMENT
    return f"{_LINES}\n```json\n{json.dumps(form)}\n```"


def shape(value: Any) -> Any:
    """The names and types of a JSON value; of a list, those of its first member."""
    if isinstance(value, dict):
        return {name: shape(member) for name, member in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def _attempt(*said: str, **more: Any) -> Json:
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[n % 2], "content": text} for n, text in enumerate(said)], **more}


def _call(success: bool = True, tool: str = "web_search", **given: Any) -> Json:
    output = "Found 10 relevant results..." if success else "Error: Invalid language parameter"
    return {
        "create_time": "2025-10-21 10:30:00", "tool_name": tool, "input": given, "output": output,
        "token_cost": 150, "success": success, "time_cost": 2.3,
    }  # fmt: skip


async def ask_all(ask: Ask) -> None:
    """Send the requests, in the order in which the pages show them."""
    await _tasks(ask, "the first page", "Help me create a project plan", "How to efficiently manage project progress?")
    await _tasks(ask, "the first page, in Chinese", "帮我制定项目计划", "如何高效管理项目进度？")
    await _task_demo(ask)
    await _people(ask)
    await _tools(ask)


async def _tasks(ask: Ask, page: str, task: str, query: str) -> None:
    where = {"workspace_id": page}
    await ask(f"summary, {page}", "summary_task_memory", **where, trajectories=[_attempt(task, score=1.0)])
    await ask(f"retrieval, {page}", "retrieve_task_memory", **where, query=query, top_k=1)


async def _task_demo(ask: Ask) -> None:
    where = {"workspace_id": "test_workspace"}
    first, second = "Analyze Xiaomi Corporation", "Analyze the company Tesla."
    await ask("clearing what is not there", "vector_store", **where, action="delete")
    said = (await ask("react", "react", query=second)).get("messages", [])
    learnt = [{"messages": said, "score": 1.0}]
    await ask("summary of react", "summary_task_memory", **where, trajectories=learnt)
    both = [_attempt(second, "Its margins fell.", score=score, task_id="tesla") for score in (1.0, 0.0)]
    await ask("summary of both", "summary_task_memory", workspace_id="both", trajectories=both)
    await ask("summary of a failure", "summary_task_memory", workspace_id="failure", trajectories=both[1:])
    await ask("simple summary", "summary_task_memory_simple", workspace_id="simple", trajectories=both)
    await ask("simple retrieval", "retrieve_task_memory_simple", **where, query=first)
    found = await ask("retrieval without top_k", "retrieve_task_memory", **where, query=first)
    await ask("react with memory", "react", query=f"{found.get('answer')}\n\nUser Question:\n{first}")
    used = found.get("metadata", {}).get("memory_list", [])
    for helped in (True, False):
        await ask(f"used, {helped}", "record_task_memory", **where, memory_dicts=used, update_utility=helped)
    await ask("deleting the useless", "delete_task_memory", **where, freq_threshold=5, utility_threshold=0.5)
    await ask("a dump", "vector_store", **where, action="dump", path="./")
    await ask("a load", "vector_store", **where, action="load", path="./")
    await ask("a copy", "vector_store", workspace_id="copied", action="copy", src_workspace_id="test_workspace")
    ids = [memory["memory_id"] for memory in used]
    await ask("deleting ids", "vector_store", workspace_id="copied", action="delete_ids", memory_ids=ids)
    await ask("a list", "vector_store", **where, action="list")
    await ask("clearing", "vector_store", **where, action="delete")
    await ask("simple retrieval of nothing", "retrieve_task_memory_simple", workspace_id="empty", query=first)
    await ask("retrieval of nothing", "retrieve_task_memory", workspace_id="empty", query=first)


async def _people(ask: Ask) -> None:
    coffee = "I like to drink coffee while working in the morning", "I understand, you prefer to start with coffee"
    john = (
        "My name is John Smith, I'm 28 years old", "Nice to meet you, John!",
        "I'm a software engineer working with Python", "I see, you're a Python engineer.",
        "I met my manager yesterday about the new office", "How did it go?",
    )  # fmt: skip
    where = {"workspace_id": "task_workspace"}
    await ask("summary of a remark", "summary_personal_memory", **where, trajectories=[_attempt(*coffee)])
    await ask("habits", "retrieve_personal_memory", **where, query="What are the user's work habits?", top_k=5)
    where = {"workspace_id": "personal_memory_demo"}
    await ask("summary of a chat", "summary_personal_memory", **where, trajectories=[_attempt(*john, score=1.0)])
    for query in ("What's my name and age?", "What did I do yesterday?"):
        await ask(query, "retrieve_personal_memory", **where, query=query)
    await ask("nobody", "retrieve_personal_memory", workspace_id="empty", query="What do I do for work?")


async def _tools(ask: Ask) -> None:
    where = {"workspace_id": "tool_workspace"}
    one = _call(query="Python asyncio tutorial", max_results=10, language="en")
    failed = _call(success=False, query="test", max_results=100, language="unknown")
    others = [_call(tool=tool, query="q") for tool in ("database_query", "file_processor")]
    await ask("calls", "add_tool_call_result", **where, tool_call_results=[one, failed])
    await ask("a call again", "add_tool_call_result", **where, tool_call_results=[one])
    await ask("calls of several tools", "add_tool_call_result", **where, tool_call_results=[*others, one])
    for tools in ("web_search", "web_search,database_query,file_processor"):
        await ask(f"summary of {tools}", "summary_tool_memory", **where, tool_names=tools)
        await ask(f"guidance for {tools}", "retrieve_tool_memory", **where, tool_names=tools)
    await ask("guidance for an unknown tool", "retrieve_tool_memory", **where, tool_names="web_search,unheard_of")
    await ask("tools dumped", "vector_store", **where, action="dump", path="./memory_backup/")
    await ask("tools loaded", "vector_store", **where, action="load", path="./memory_backup/")
    await ask("tools loaded and asked", "retrieve_tool_memory", **where, tool_names="web_search")


async def record(reme: str) -> None:
    """Write down the shapes of the answers of ReMe 0.1, which this program starts.

    Its local store, which its first page names, can neither dump nor list; these shapes are those of its other store.
    """
    shapes: Json = {}
    with Loopback() as model:
        model.chat(scripted)
        for store in ("memory", "local"):
            shapes |= await _shapes(reme, store, model)
    SHAPES.write_text(json.dumps(shapes, ensure_ascii=False, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{len(shapes)} shapes are in {SHAPES}")


async def _shapes(reme: str, store: str, model: Loopback) -> Json:
    shapes: Json = {}
    command = [
        str(Path(reme).absolute()), "backend=http", "http.port=18002", "llm.default.model_name=scripted",
        "embedding_model.default.model_name=scripted", f"vector_store.default.backend={store}",
    ]  # fmt: skip
    environ = {f"FLOW_{kind}_BASE_URL": model.url for kind in ("LLM", "EMBEDDING")}
    environ |= {f"FLOW_{kind}_API_KEY": "none" for kind in ("LLM", "EMBEDDING")}
    client = httpx.AsyncClient(base_url="http://127.0.0.1:18002", timeout=120, headers={"connection": "close"})
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        service = subprocess.Popen(command, cwd=folder, env={**environ, "PATH": ""}, stdout=log, stderr=log)

        async def ask(name: str, flow: str, **body: Any) -> Json:
            response = await client.post(f"/{flow}", json=body)
            if response.status_code != 200:
                print(f"{name}: {response.status_code} {response.text[:80]} ({store})")
                return {}
            shapes[name] = shape(response.json())
            return dict(response.json())

        try:
            await _wait(client, service)
            await ask_all(ask)
        finally:
            service.terminate()
            service.wait()
    return shapes


async def _wait(client: httpx.AsyncClient, service: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 300
    while service.poll() is None and time.monotonic() < until:
        try:
            await client.get("/health")
            return
        except httpx.TransportError:
            await asyncio.sleep(0.2)
    raise SystemExit("the service of ReMe 0.1 does not start")


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1]))
