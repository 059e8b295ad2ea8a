"""What an adapter adds to a turn whose model answers at once: `python -m benchmarks.adapters`.

Each framework runs turns of an agent, with memory and without it, in a workspace that is filled anew; what memory adds
is the difference of the medians (and of the least times, which other work on the machine does not touch), and should
stay below 15 ms. The model is asked as users ask theirs, by the framework's own client of OpenAI's API, and is a server
beside this process; or (`in_process`) it is an object within the framework, which leaves hardly anything of a turn
without memory. `raw` is the same recall and record without framework and adapter, through `AsyncReMe`. Embedding is
replaced by a constant vector, since it costs the same with any adapter. Writing goes on between the turns, while people
think: the next turn waits until all of it is done.

LlamaIndex's client wants the package openai below 3, so it runs in an environment of its own, which is made once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import subprocess
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count, product
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from pydantic import SecretStr

from benchmarks.common import fresh_reme, percentiles, report
from reme_core import AsyncReMe, Message
from reme_core.engine import Engine
from reme_core.models import registry
from reme_core.settings import WorkerSettings
from reme_core.testing import ScriptedModel
from tests.loopback import Loopback
from tests.second_environment import CHECKOUT, made

WIDTH = 384
KNOWN = 500
"""Memories, and as many messages, that the workspace holds."""

MODEL = "gpt-4.1-mini"
"""What the clients are told to ask for; they know its name."""

Turn = Callable[[str], Awaitable[object]]
Make = Callable[[AsyncReMe | None, str, str], tuple[Turn, Any]]
"""Makes the turns of an agent, with that memory or without any, in that workspace, and with the model at that URL or in
this process."""


class Instant:
    """An embedder that costs nothing; its vectors are the same, so words alone decide."""

    name = "instant"
    dimensions = WIDTH

    async def embed(self, texts: Sequence[str], input_type: str = "passage") -> Any:
        return np.full((len(texts), WIDTH), WIDTH**-0.5, dtype=np.float32)

    async def aclose(self) -> None: ...


def autogen(reme: AsyncReMe | None, workspace: str, model_url: str) -> tuple[Turn, Any]:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_core import CancellationToken
    from autogen_core.models import ChatCompletionClient
    from reme_autogen import ReMeAssistantAgent, ReMeMemory

    def client() -> ChatCompletionClient:
        if not model_url:
            from tests.integrations.autogen_driver import FakeClient

            return FakeClient(ScriptedModel())
        from autogen_ext.models.openai import OpenAIChatCompletionClient

        return OpenAIChatCompletionClient(model=MODEL, base_url=model_url, api_key="none")

    if reme is None:
        agent = AssistantAgent("assistant", client())
        counts = None
    else:
        memory = ReMeMemory(reme, workspace)
        agent = ReMeAssistantAgent("assistant", client(), memory=[memory])
        counts = memory.turn.counts

    async def turn(text: str) -> object:
        await agent.on_reset(CancellationToken())  # a growing transcript would cost more each turn, with memory or not
        return await agent.run(task=text)

    return turn, counts


def agentscope(reme: AsyncReMe | None, workspace: str, model_url: str) -> tuple[Turn, Any]:
    from agentscope.agent import Agent
    from agentscope.message import UserMsg
    from agentscope.model import ChatModelBase
    from reme_agentscope import ReMeMiddleware

    def model() -> ChatModelBase:
        if not model_url:
            from tests.integrations.agentscope_driver import FakeModel

            return FakeModel(ScriptedModel())
        from agentscope.credential import OpenAICredential
        from agentscope.model import OpenAIChatModel

        return OpenAIChatModel(OpenAICredential(api_key=SecretStr("none"), base_url=model_url), MODEL)

    memory = ReMeMiddleware(reme, workspace) if reme is not None else None
    agent = Agent("assistant", "Be helpful.", model(), middlewares=[memory] if memory else [])

    async def turn(text: str) -> object:
        agent.state.context.clear()
        return await agent.reply(UserMsg(name="user", content=text))

    return turn, memory.turn.counts if memory else None


def langchain(reme: AsyncReMe | None, workspace: str, model_url: str) -> tuple[Turn, Any]:
    from langchain.agents import create_agent
    from langchain_core.language_models import BaseChatModel
    from reme_langchain import ReMeMiddleware

    def model() -> BaseChatModel:
        if not model_url:
            from tests.integrations.langchain_driver import ScriptedChat

            return ScriptedChat(ScriptedModel())
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(model=MODEL, base_url=model_url, api_key=SecretStr("none"))

    memory = ReMeMiddleware(reme, workspace) if reme is not None else None
    agent: Any = create_agent(model(), middleware=[memory] if memory else [])
    return (
        lambda text: agent.ainvoke({"messages": [{"role": "user", "content": text}]}),
        memory.counts if memory else None,
    )


def llamaindex(reme: AsyncReMe | None, workspace: str, model_url: str) -> tuple[Turn, Any]:
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.llms.function_calling import FunctionCallingLLM
    from llama_index.core.memory import Memory
    from reme_llamaindex import ReMeMemory

    def model() -> FunctionCallingLLM:
        if not model_url:
            from tests.integrations.llamaindex_driver import ScriptedLLM

            return ScriptedLLM(ScriptedModel())
        from llama_index.llms.openai import OpenAI

        llm: FunctionCallingLLM = OpenAI(model=MODEL, api_base=model_url, api_key="none")
        return llm

    agent = FunctionAgent(llm=model())
    memory = ReMeMemory(reme, workspace) if reme is not None else Memory.from_defaults()

    async def turn(text: str) -> object:
        await memory.areset()
        return await agent.run(user_msg=text, memory=memory)

    return turn, memory.turn.counts if isinstance(memory, ReMeMemory) else None


def raw(reme: AsyncReMe | None, workspace: str, model_url: str) -> tuple[Turn, Any]:
    async def turn(text: str) -> object:
        if reme is None:
            return None
        await asyncio.gather(
            reme.recall(workspace, text, kind="personal", limit=5),
            reme.recall(workspace, text, kind="conversation", limit=6),
        )
        return await reme.record(workspace, [Message(content=text), Message(role="assistant", content="ok")])

    return turn, None


ALONE = "llamaindex"
"""The framework that runs in an environment of its own."""
FRAMEWORKS = {
    "raw": raw,
    "autogen": autogen,
    "agentscope": agentscope,
    "langchain": langchain,
    "llamaindex": llamaindex,
}


async def fill(engine: Engine, workspace: str) -> None:
    """Make a workspace with what it knows."""
    known = [f"Person {n} drinks tea number {n} in street {n}." for n in range(KNOWN)]
    await engine.memories.add(workspace, known)
    said = [Message(content=f"Person {n} said that tea number {n} is sold in street {n}.") for n in range(KNOWN)]
    await engine.record(workspace, said, wait=True)
    async with engine.database.owner_connection() as connection:
        await connection.execute("analyze")  # as autovacuum does a minute later


async def measure(
    make: Make, engine: Engine, reme: AsyncReMe, workspace: str, model_url: str, questions: Iterator[str], turns: int
) -> dict[str, Any]:
    """Time turns with and without memory, alternately, so that a busy machine slows both."""
    without, _ = make(None, workspace, model_url)
    remembering, counts = make(reme, workspace, model_url)
    spent: dict[bool, list[float]] = {True: [], False: []}
    for number in range(-5, turns):
        question = next(questions)
        for with_memory, turn in ((False, without), (True, remembering)):
            begun = time.perf_counter()
            await turn(question)
            if number >= 0:
                spent[with_memory].append(time.perf_counter() - begun)
        while (counts is not None and counts.records < number + 6) or await _writes(engine, workspace):
            await asyncio.sleep(0.005)
    times = {"without": percentiles(spent[False]), "with": percentiles(spent[True])}
    ratio = round(times["with"]["p50"] / times["without"]["p50"], 2)
    added = {name: round(times["with"][name] - times["without"][name], 3) for name in ("min", "p50")}
    result: dict[str, Any] = {"ratio_p50": ratio, "added_min_ms": added["min"], "added_p50_ms": added["p50"], **times}
    if counts is not None:
        result |= {
            "recalls_per_turn": counts.recalls / (turns + 5),
            "records_per_turn": counts.records / (turns + 5),
        }
    return result


async def _writes(engine: Engine, workspace: str) -> bool:
    """Whether messages are still being embedded."""
    waiting = "select from reme.message where workspace_id = %s and embedded_at is null limit 1"
    return bool(await engine.database.fetch(workspace, waiting, [workspace]))


@contextmanager
def model_server() -> Iterator[str]:
    """The address of a model that answers at once, in a process of its own, so that it takes no time of the turns'."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=_serve_model, args=[there], daemon=True)
    server.start()
    there.close()  # else its end would not be noticed
    yield here.recv()
    here.send("enough")
    server.join()


def _serve_model(benchmark: Connection) -> None:
    with Loopback() as server:
        benchmark.send(server.url)
        benchmark.recv()


async def main(turns: int, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Measure each framework and print a line for it."""
    registry.LocalEmbedder = lambda *_, **__: Instant()  # type: ignore[assignment,attr-defined]  # in place of the class
    results: dict[str, dict[str, Any]] = {}
    # None is asked twice: what was asked before is found, and as the model sees the same words, looked for beyond.
    questions = (f"What does person {number % KNOWN} drink in street {number}?" for number in count())
    # Memories are made by a worker elsewhere: in this process it would take the turns' time, on two cores above all.
    async with fresh_reme(worker=WorkerSettings(embedded=False)) as reme:
        statements = []
        for _ in range(turns):
            begun = time.perf_counter()
            await reme.database.fetch("bench", "select 1")
            statements.append(time.perf_counter() - begun)
        print(f"{'select 1':12} {percentiles(statements)}  (what one round trip takes here and now)")
        # As applications have it, memory works in the library's own thread; `reme` is for looking on.
        async with AsyncReMe(reme.settings) as client:
            with model_server() as url:
                for name, where in product(names, ("http", "in_process")):
                    model_url = url if where == "http" else ""
                    workspace = f"{name} {where}"  # what one has recorded would slow the next
                    await fill(reme, workspace)
                    result = await measure(FRAMEWORKS[name], reme, client, workspace, model_url, questions, turns)
                    results.setdefault(name, {})[where] = result
                    print(f"{name:10} {where:10} {result}")
    return {"select_1": percentiles(statements), **results}


def measure_llamaindex(turns: int) -> dict[str, Any]:
    """The results of LlamaIndex, in its own environment; the lines that are printed there are printed here."""
    pins = ["llama-index-core", "llama-index-llms-openai", "pytest", "uvicorn"]
    command = [made("llamaindex-benchmark", pins), "-m", "benchmarks.adapters", "--turns", str(turns), ALONE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | CHECKOUT) as process:
        assert process.stdout is not None
        *lines, last = process.stdout
        print("".join(line for line in lines if line.startswith(ALONE)), end="")
    return {ALONE: json.loads(last)[ALONE]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("frameworks", nargs="*", default=list(FRAMEWORKS))
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    apart = ALONE in given.frameworks and find_spec("llama_index.llms") is None
    here = [name for name in given.frameworks if not (apart and name == ALONE)]
    found = asyncio.run(main(given.turns, here)) if here else {}
    if apart:
        found |= measure_llamaindex(given.turns)
    report(benchmark="adapters", turns=given.turns, **found)
