"""`ReMeApp`, as programs and AgentScope 1 call it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reme_core.compat.reme_app import ReMeApp
from reme_core.engine import Engine
from reme_core.errors import ConfigurationError, FlowError, ReMeError
from tests.flows.attempts import BOOKED
from tests.loopback import Loopback
from tests.second_environment import CHECKOUT, python_with_version_1  # noqa: F401 - a fixture
from tests.server.conftest import by_schema


async def test_flows_run_in_process_and_answer_with_plain_dicts(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REME_DATABASE_URL", database_url)
    async with ReMeApp("vector_store.default.backend=local", "--llm.default.model_name=qwen3") as app:
        made = await app.async_execute(name="summary_task_memory", workspace_id="w", trajectories=[BOOKED])
        found = await app.async_execute(name="retrieve_task_memory", workspace_id="w", query="book a flight", top_k=2)
        nobody = await app.async_execute(name="retrieve_task_memory", workspace_id=None, query="book a flight")
    assert list(found) == ["answer", "messages", "success", "metadata"]
    made_ids = {memory["memory_id"] for memory in made["metadata"]["memory_list"]}
    assert {memory["memory_id"] for memory in found["metadata"]["memory_list"]} <= made_ids
    assert len(found["metadata"]["memory_list"]) == 2
    assert nobody["metadata"]["memory_list"] == []


async def test_it_is_opened_once_and_closed_though_it_is_started_twice_or_stopped_while_it_opens(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REME_DATABASE_URL", database_url)
    opened: list[Engine] = []
    opening = Engine.open

    async def note_and_open(engine: Engine) -> Engine:
        opened.append(engine)
        return await opening(engine)

    monkeypatch.setattr(Engine, "open", note_and_open)
    app = ReMeApp()
    await asyncio.gather(app.async_start(), app.async_start())
    await app.async_stop()
    assert len(opened) == 1
    starting = asyncio.create_task(app.async_start())
    await asyncio.sleep(0)
    await app.async_stop()  # while it opens
    assert starting.done()
    with pytest.raises(ReMeError, match="this ReMeApp is not open"):
        await app.async_execute("retrieve_task_memory", query="x")


async def test_keys_and_addresses_reach_the_models(
    database_url: str, monkeypatch: pytest.MonkeyPatch, loopback: Loopback
) -> None:
    monkeypatch.setenv("REME_DATABASE_URL", database_url)
    loopback.api_key = "secret"
    loopback.chat(by_schema)
    app = ReMeApp(
        "llm.default.model_name=loop-chat",
        "embedding_model.default.model_name=loop-embedding",
        'embedding_model.default.params={"dimensions": 32}',
        llm_api_key="secret",
        llm_api_base=loopback.url,
        embedding_api_key="secret",
        embedding_api_base=loopback.url,
    )
    async with app:
        made = await app.async_execute(name="summary_task_memory", workspace_id="w", trajectories=[BOOKED])
    assert made["metadata"]["memory_list"][0]["author"] == "loop-chat"
    assert {body["dimensions"] for body in loopback.bodies("/embeddings")} == {32}


async def test_mistakes_are_told(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REME_DATABASE_URL", database_url)
    with pytest.raises(ConfigurationError, match=r"did you mean 'llm\.default\.model_name'"):
        ReMeApp("llm.default.modelname=x")
    app = ReMeApp()
    with pytest.raises(ReMeError, match="not open"):
        await app.async_execute(name="retrieve_task_memory", query="x")
    async with app:
        with pytest.raises(FlowError, match="did you mean 'retrieve_task_memory'"):
            await app.async_execute(name="retrieve_task_memry", query="x")


@pytest.mark.parametrize(
    "line", ["import reme_core.compat.as_reme_ai", "from reme_core.compat import install; install()"]
)
def test_one_line_makes_reme_ai_ours(line: str) -> None:
    code = f"{line}\nfrom reme_ai import ReMeApp\nprint(ReMeApp.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "reme_core.compat.reme_app"


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_agentscope_1s_own_reme_classes_run(
    python_with_version_1: str,  # noqa: F811 - the fixture
    database_url: str,
    loopback: Loopback,
) -> None:
    loopback.chat(by_schema)
    script = Path(__file__).with_name("agentscope1_reme.py")
    done = subprocess.run(
        # These classes turn every error into a warning; here a warning is an error again.
        [python_with_version_1, "-W", "error::UserWarning", str(script), loopback.url],
        env={**os.environ, **CHECKOUT, "REME_DATABASE_URL": database_url},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["personal", "works", "task", "works", "tool", "works"]
