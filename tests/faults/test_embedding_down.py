"""Embedding endpoints that fail: words answer meanwhile, vectors are made up for, and rubbish is never stored."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from reme_core.engine import Engine
from reme_core.errors import ModelAnswerError, ReMeError
from reme_core.jobs import worker
from reme_core.models import cache
from reme_core.server.http import create_app
from reme_core.settings import EmbeddingSettings, Settings
from reme_core.store.index import rounds
from reme_core.types import Message
from tests.faults.models import answer_in_prose, fail, hang
from tests.loopback import Answer, Body, Loopback
from tests.server.conftest import connected

SAID = [Message(content=f"Ann drank tea number {n}.", message_id=str(n), session_id="s") for n in range(10)]


@pytest.fixture
def at_loopback(settings: Settings, loopback: Loopback) -> Settings:
    model = EmbeddingSettings(model_name="loop-embed", base_url=loopback.url, max_retries=0)
    settings.worker.embedded = False
    return settings.model_copy(update={"embedding_model": {"default": model}})


@pytest.fixture
async def reme(at_loopback: Settings) -> AsyncIterator[Engine]:
    async with Engine(at_loopback) as opened:
        yield opened


async def vectors(reme: Engine, workspace: str = "w") -> int:
    rows = await reme.database.fetch(workspace, "select count(*) from reme.embedding", {})
    return int(rows[0][0])


async def waiting(reme: Engine, workspace: str = "w") -> int:
    rows = await reme.database.fetch(workspace, "select count(*) from reme.message where embedded_at is null", {})
    return int(rows[0][0])


async def until_embedded(reme: Engine, count: int, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while await vectors(reme) < count:
            await asyncio.sleep(0.1)


class Refusing(Loopback):
    """Answers 400 to each request with a text in which a word stands."""

    word = "poison"

    def _embeddings(self, body: Body) -> Answer:
        if any(self.word in text for text in body["input"]):
            return Answer(400, {"error": {"message": "the input is refused", "type": "invalid"}})
        return super()._embeddings(body)


async def test_a_text_that_is_refused_costs_no_other_its_vector(settings: Settings) -> None:
    with Refusing() as server:
        model = EmbeddingSettings(model_name="loop-embed", base_url=server.url, max_retries=0)
        async with Engine(settings.model_copy(update={"embedding_model": {"default": model}})) as reme:
            bad = Message(content="Bob keeps poison in the shed.", message_id="bad", session_id="s")
            await reme.record("w", [*SAID[:5], bad, *SAID[5:]], wait=True)
            assert (await vectors(reme), await waiting(reme)) == (10, 0)
            [marked] = [m for m in await reme.messages("w", "s") if "not_embedded" in m.metadata]
            assert marked.message_id == "bad"
            assert "the input is refused" in marked.metadata["not_embedded"]
            found = await reme.recall("w", "What does Bob keep in the shed?", kind="conversation")
            assert "bad" in [hit.memory.memory_id for hit in found.hits]
            server.word = "nothing"  # edited, it is embedded as any other, and no longer marked
            await reme.record("w", [bad.model_copy(update={"content": "Bob keeps apples."})], wait=True)
            assert await vectors(reme) == 11
            assert all("not_embedded" not in m.metadata for m in await reme.messages("w", "s"))


async def test_words_that_come_while_the_former_ones_are_refused_get_their_vector(settings: Settings) -> None:
    with Refusing() as server:
        model = EmbeddingSettings(model_name="loop-embed", base_url=server.url, max_retries=0)
        async with Engine(settings.model_copy(update={"embedding_model": {"default": model}})) as reme:
            server.slow(0.2, times=3)
            bad = Message(content="Bob keeps poison in the shed.", message_id="bad", session_id="s")
            await reme.record("w", [bad])
            while not server.requests:
                await asyncio.sleep(0.01)
            await reme.record("w", [bad.model_copy(update={"content": "Bob keeps apples."})], wait=True)
            assert (await vectors(reme), await waiting(reme)) == (1, 0)
            [said] = await reme.messages("w", "s")
            assert "not_embedded" not in said.metadata


async def test_an_endpoint_that_refuses_everything_marks_nothing(reme: Engine, loopback: Loopback) -> None:
    loopback.api_key = "another"
    await reme.record("w", SAID, wait=True)
    assert (await vectors(reme), await waiting(reme)) == (0, 10)


async def test_an_outage_of_a_moment_costs_no_message_its_vector(reme: Engine, loopback: Loopback) -> None:
    loopback.fail(503)
    await reme.record("w", SAID[:1], wait=True)
    assert (await vectors(reme), await waiting(reme)) == (1, 0)
    assert (await reme.messages("w", "s"))[0].metadata == {}


async def test_who_waits_no_longer_takes_no_vector_away(reme: Engine, loopback: Loopback) -> None:
    loopback.latency = 0.5
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reme.record("w", SAID, wait=True), 0.3)
    await until_embedded(reme, 10, 5)


async def test_what_waits_is_embedded_when_the_endpoint_is_back(
    reme: Engine, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "_AGAIN_SECONDS", 1.0)
    loopback.fail(503, times=2)
    assert len(await reme.record("w", SAID, wait=True)) == 10  # who records them again has them twice
    assert await vectors(reme) == 0
    await until_embedded(reme, 10, 25)


async def test_a_worker_embeds_what_others_left(
    reme: Engine, at_loopback: Settings, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_UPKEEP_SECONDS", 1.0)
    loopback.fail(503, times=2)
    await reme.record("w", SAID, wait=True)
    await reme.aclose()
    async with Engine(at_loopback) as other:
        other.background.start()
        await until_embedded(other, 10, 40)


def refuse(loopback: Loopback) -> None:
    loopback.fail(400, times=100)


def refuse_the_key(loopback: Loopback) -> None:
    loopback.api_key = "another"


def lack_the_model(loopback: Loopback) -> None:
    loopback.fail(404, times=100)


@pytest.mark.parametrize(
    "fault",
    [hang, fail, refuse, refuse_the_key, lack_the_model, answer_in_prose],
    ids=lambda fault: fault.__name__,
)
async def test_a_recall_answers_by_words_and_says_so(
    reme: Engine, loopback: Loopback, fault: Callable[[Loopback], None]
) -> None:
    await reme.record("w", SAID, wait=True)
    await reme.memories.add("w", ["Ann likes green tea.", "Bob has a red car."], kind="task")
    fault(loopback)
    begun = time.monotonic()
    for kind, expected in (("conversation", "Ann drank tea number 7."), ("task", "Bob has a red car.")):
        found = await reme.recall("w", expected, kind=kind, limit=3)
        assert found.hits[0].content == expected
        assert "loop-embed" in found.degraded
        assert found.hits[0].parts.similarity is None or found.hits[0].parts.vector == 0
    assert time.monotonic() - begun < 12
    response = await reme.execute("retrieve_task_memory", workspace_id="w", query="Whose car is red?")
    assert [memory["content"] for memory in response.metadata["memory_list"]] == ["Bob has a red car."]
    assert response.metadata["degraded"][0].startswith("recall: ")


async def test_a_key_that_is_refused_is_warned_of_once(
    reme: Engine, loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    await reme.memories.add("w", "Bob has a red car.")
    loopback.api_key = "another"
    for query in ("Whose car is red?", "Who has a red car?", "Which car is red?"):
        assert "check api_key" in (await reme.recall("w", query)).degraded
    warnings = [record.getMessage() for record in caplog.records if record.name == "reme_core.store.recall"]
    assert len(warnings) == 1 and "recall goes by words alone" in warnings[0] and "check api_key" in warnings[0]


async def test_who_asks_a_service_is_told_what_failed_and_not_where(
    reme: Engine, loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    loopback.fail(500, times=100, message="the key sk-ab***yz is over its limit")
    async with connected(create_app(reme)) as client:
        flow = (await client.post("/retrieve_task_memory", json={"query": "tea?"})).json()["metadata"]["degraded"]
        found = (await client.post("/v1/workspaces/w/recall", json={"query": "tea?"})).json()["degraded"]
    assert flow == [found] == ["recall: a model failed or took too long; the service's log tells more"]
    assert "sk-ab***yz" in caplog.text


@pytest.mark.parametrize("fault", [hang, fail], ids=lambda fault: fault.__name__)
async def test_one_recall_in_a_while_waits_for_an_endpoint_that_does_not_answer(
    reme: Engine, loopback: Loopback, monkeypatch: pytest.MonkeyPatch, fault: Callable[[Loopback], None]
) -> None:
    monkeypatch.setattr(cache, "_PAUSE_SECONDS", 5.0)
    await reme.memories.add("w", ["Ann likes green tea.", "Bob has a red car."], kind="task")
    fault(loopback)
    assert "loop-embed" in (await reme.recall("w", "Whose car is red?")).degraded
    asked = len(loopback.requests)
    for query in ("Whose car is red?", "Who has a red car?", "Which car is red?"):
        found = await reme.recall("w", query)
        assert found.hits[0].content == "Bob has a red car."
        assert "loop-embed did not answer a moment ago" in found.degraded
    assert len(loopback.requests) == asked
    loopback.latency = 0.0
    loopback._faults.clear()
    await asyncio.sleep(5.0)
    assert (await reme.recall("w", "What colour has his car?")).degraded == ""
    assert (await reme.recall("w", "What colour has the car of Bob?")).degraded == ""


async def test_one_query_that_hangs_while_others_are_answered_changes_nothing(
    reme: Engine, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_HANGS_AFTER_SECONDS", 0.5)
    await reme.memories.add("w", "Bob has a red car.", kind="task")
    loopback.slow(1.5)
    slow = asyncio.create_task(reme.recall("w", "Whose car is red?"))
    await asyncio.sleep(0.3)
    assert (await reme.recall("w", "Who has a red car?")).degraded == ""
    await asyncio.sleep(0.5)
    assert (await reme.recall("w", "Which car is red?")).degraded == ""
    assert (await slow).degraded == ""


async def test_a_recall_that_lacks_nothing_says_nothing(reme: Engine) -> None:
    await reme.record("w", SAID, wait=True)
    assert (await reme.recall("w", "tea", kind="conversation")).degraded == ""


def change_rows(change: Callable[[list[Any]], list[Any]]) -> Callable[[Body], Body]:
    return lambda body: {**body, "data": change(body["data"])} if "data" in body else body


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: [{**row, "embedding": [float("nan")] * 64} for row in rows],
        lambda rows: [{**row, "embedding": [0.0] * 64} for row in rows],
        lambda rows: [{**row, "embedding": [1.0] * (63 + row["index"])} for row in rows],
        lambda rows: [{**row, "embedding": "rubbish"} for row in rows],
        lambda rows: [{**row, "embedding": [[1.0], "x"]} for row in rows],
        lambda rows: rows[1:],
        lambda rows: [*rows, rows[0]],
        lambda rows: [{**row, "index": 0} for row in rows],
        lambda rows: [{**row, "index": row["index"] + 1} for row in rows],
        lambda rows: [{**row, "index": "first"} for row in rows],
        lambda rows: "rubbish",
        lambda rows: [7 for _ in rows],
    ],
)
async def test_vectors_that_are_rubbish_are_refused_and_never_stored(
    reme: Engine, loopback: Loopback, change: Callable[[list[Any]], Any]
) -> None:
    for _ in range(50):
        loopback.replace(change_rows(change))
    with pytest.raises(ModelAnswerError):
        await reme.memories.add("w", ["one", "two", "three"])
    assert await vectors(reme) == 0
    assert await reme.memories.list("w") == []


async def test_vectors_of_another_width_than_the_stored_ones_are_refused(
    reme: Engine, at_loopback: Settings, loopback: Loopback
) -> None:
    await reme.memories.add("w", ["Ann likes green tea.", "Bob has a red car."])
    await reme.aclose()
    loopback.width = 32  # the server serves another model under the same name
    async with Engine(at_loopback) as later:
        with pytest.raises(ReMeError, match="64"):
            await later.memories.add("w", "Carol has a boat.")
        assert await vectors(later) == 2
        found = await later.recall("w", "Whose car is red?")
        assert found.hits[0].content == "Bob has a red car."
        assert "64" in found.degraded


async def test_what_fails_while_the_memory_closes_is_not_tried_again_in_it(
    at_loopback: Settings, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "_AGAIN_SECONDS", 0.1)
    async with Engine(at_loopback) as reme:
        loopback.fail(503, times=100)
        loopback.latency = 0.5
        await reme.record("w", SAID)  # the request for its vectors is under way when it closes
    asked = len(loopback.bodies("/embeddings"))
    await asyncio.sleep(0.5)
    assert asked >= 1
    assert not reme._indexing._embedding._timers
    assert not reme._indexing._embedding._tasks
