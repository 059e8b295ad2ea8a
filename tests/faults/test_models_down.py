"""Endpoints of models that are down, hang, fail or answer rubbish: retrieval answers with what recall found."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from reme_core.engine import Engine
from reme_core.errors import ModelAnswerError, ModelUnavailableError
from reme_core.flows.catalog import Catalog
from reme_core.models.endpoint import Endpoint
from reme_core.models.openai_chat import OpenAIChat
from reme_core.settings import ChatSettings, RerankSettings, Settings
from reme_core.store.change import Change
from reme_core.types import Kind, Memory
from tests.faults.models import answer_in_prose, fail, hang
from tests.loopback import Loopback

FLOWS = sorted(name for name in Catalog(Settings()).names() if name.startswith("retrieve_"))
ASK_NO_MODEL = {"retrieve_task_memory_simple", "retrieve_tool_memory"}
ODD_ANSWERS: list[Any] = [
    {"choices": "rubbish", "usage": "much"},
    {"choices": [{}]},
    {"choices": [{"message": {"role": "assistant", "content": {"no": "text"}}}]},
    {"choices": [{"message": {"role": "assistant", "content": ""}}]},
    {"results": [{"index": 99, "relevance_score": None}]},
    ["no", "object"],
]


PROMPTLY = 15.0
"""Seconds on a machine that has other things to do; a model that hangs answers after 30."""


def break_off(loopback: Loopback) -> None:
    loopback.drop(times=100)


def answer_oddly(loopback: Loopback) -> None:
    odd = itertools.cycle(ODD_ANSWERS)
    for _ in range(100):
        loopback.replace(lambda _: next(odd))


FAULTS: list[Callable[[Loopback], None]] = [hang, fail, answer_in_prose, break_off, answer_oddly]


@pytest.fixture
async def reme(settings: Settings, loopback: Loopback) -> AsyncIterator[Engine]:
    """An engine whose chat and rerank models are at the loopback server, with something to find for each flow."""
    async with Engine(with_models(settings, loopback.url)) as opened:
        await fill(opened)
        yield opened


def with_models(settings: Settings, url: str) -> Settings:
    chat = ChatSettings(model_name="loop-chat", base_url=url)
    rank = RerankSettings(model_name="loop-rank", base_url=url, backend="cohere")
    return settings.model_copy(update={"llm": {"default": chat}, "rerank_model": {"default": rank}})


async def fill(engine: Engine) -> None:
    kinds = (Kind.TASK, Kind.OBSERVATION, Kind.TOOL)
    memories = [
        Memory(kind=kind, content=f"Ann drank tea number {n} as a {kind}.", when_to_use="serving tea to Ann")
        for kind in kinds
        for n in range(25)
    ]
    await engine.memories.apply("w", Change(add=memories))


async def retrieve(engine: Engine, flow: str, patience: float = 2.0, **request: Any) -> tuple[Any, float]:
    begun = time.monotonic()
    response = await engine.execute(flow, workspace_id="w", patience=patience, **request)
    return response, time.monotonic() - begun


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
async def test_every_retrieval_outlives_its_models(
    reme: Engine, loopback: Loopback, flow: str, fault: Callable[[Loopback], None]
) -> None:
    fault(loopback)
    response, seconds = await retrieve(reme, flow, query="Which tea did Ann drink a while ago?")
    assert len(response.metadata["memory_list"]) >= 3
    assert "tea number" in response.answer
    assert seconds < PROMPTLY
    assert bool(response.metadata.get("degraded")) == (flow not in ASK_NO_MODEL)


@pytest.mark.parametrize("flow", FLOWS)
async def test_every_retrieval_outlives_an_endpoint_that_refuses(settings: Settings, flow: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        async with Engine(with_models(settings, f"http://127.0.0.1:{taken.getsockname()[1]}/v1")) as engine:
            await fill(engine)
            response, seconds = await retrieve(engine, flow, query="Which tea did Ann drink a while ago?")
    assert "tea number" in response.answer
    assert seconds < PROMPTLY
    assert bool(response.metadata.get("degraded")) == (flow not in ASK_NO_MODEL)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
async def test_a_streamed_retrieval_outlives_its_models(
    reme: Engine, loopback: Loopback, fault: Callable[[Loopback], None]
) -> None:
    fault(loopback)
    told: list[str] = []
    request = {"workspace_id": "w", "query": "Which tea did Ann drink?", "patience": 2.0}
    response = await reme.flows.execute("retrieve_task_memory", request, tell=told.append)
    assert "tea number" in response.answer
    assert [text.split(":")[0] for text in response.metadata["degraded"]] == ["rerank", "rewrite"]


async def test_a_conversation_is_searched_by_its_last_messages_where_no_model_makes_a_query(
    reme: Engine, loopback: Loopback
) -> None:
    fail(loopback)
    said = [{"role": "user", "content": "Ann wants tea."}]
    response, _ = await retrieve(reme, "retrieve_task_memory", query="", messages=said)
    assert [text.split(":")[0] for text in response.metadata["degraded"]] == ["build_query", "rerank", "rewrite"]
    assert "tea number" in response.answer


async def test_nothing_is_called_degraded_that_is_not(reme: Engine, loopback: Loopback) -> None:
    loopback.chat("Serve it hot.")
    query = "Which tea did Ann drink a while ago?"
    response, _ = await retrieve(reme, "retrieve_task_memory", patience=60, query=query)  # a busy machine answers late
    assert "degraded" not in response.metadata
    assert "Serve it hot." in response.answer


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_answer_without_end_is_read_up_to_a_limit(loopback: Loopback, is_streamed: bool) -> None:
    chat = OpenAIChat("loop-chat", Endpoint(loopback.url, max_retries=0))
    loopback.stream_pieces = lambda text: [text[at : at + 100_000] for at in range(0, len(text), 100_000)]
    question = [{"role": "user", "content": "Say something."}]
    loopback.chat("word " * 2_000_000, "short")
    with pytest.raises(ModelAnswerError, match="longer than 8,388,608 bytes"):
        if is_streamed:
            _ = [piece async for piece in chat.stream(question)]
        else:
            await chat.complete(question)
    assert (await chat.complete(question)).text == "short"
    await chat.aclose()


async def test_an_endpoint_that_sends_signs_of_life_and_no_answer_is_left_in_the_end(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = OpenAIChat("loop-chat", Endpoint(loopback.url))
    question = [{"role": "user", "content": "Say something."}]
    loopback.send_blanks(5)
    assert (await chat.complete(question)).text == "ok"
    monkeypatch.setattr("reme_core.models.endpoint._LONGEST_SECONDS", 0.2)
    loopback.send_blanks(50)
    with pytest.raises(ModelUnavailableError, match=r"chat/completions did not end within 0.2 s"):
        await chat.complete(question)
    assert len(loopback.requests) == 2
    await chat.aclose()


async def test_a_retrieval_outlives_an_answer_without_end(reme: Engine, loopback: Loopback) -> None:
    loopback.chat("word " * 2_000_000)
    response = await reme.execute("retrieve_task_memory", workspace_id="w", query="Which tea did Ann drink?")
    assert "tea number" in response.answer
    assert "longer than" in response.metadata["degraded"][0]
