import asyncio
import threading

import numpy as np
import pytest

from reme_core.errors import ModelRefusedError
from reme_core.models.cache import CachedEmbedder
from reme_core.models.endpoint import Endpoint
from reme_core.models.local import LocalEmbedder, _workers
from reme_core.models.openai import OpenAIEmbedder
from tests.loopback import Loopback


@pytest.fixture
async def cached(loopback: Loopback, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("reme_core.models.cache._MOST_KEPT", 2)
    embedder = CachedEmbedder(OpenAIEmbedder("embed-1", Endpoint(loopback.url, max_retries=0)))
    yield embedder
    await embedder.aclose()


def asked(loopback: Loopback) -> list[list[str]]:
    return [body["input"] for body in loopback.bodies("/embeddings")]


async def test_a_query_is_embedded_once(loopback: Loopback, cached: CachedEmbedder):
    first = await cached.embed(["tea", "coffee", "tea"], "query")
    first[0] = 0  # what a caller does to its array is its own affair
    second = await cached.embed(["coffee", "tea"], "query")
    assert asked(loopback) == [["tea", "coffee"]]
    np.testing.assert_allclose(np.linalg.norm(second, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(first[1], second[0])
    assert (cached.name, cached.dimensions) == ("embed-1", 64)


async def test_passages_pass_through(loopback: Loopback, cached: CachedEmbedder):
    await cached.embed(["tea"])
    await cached.embed(["tea"])
    assert asked(loopback) == [["tea"], ["tea"]]


async def test_the_query_asked_longest_ago_is_forgotten_first(loopback: Loopback, cached: CachedEmbedder):
    for text in ("tea", "coffee", "tea", "milk", "tea", "coffee"):
        await cached.embed([text], "query")
    assert asked(loopback) == [["tea"], ["coffee"], ["milk"], ["coffee"]]


async def test_the_same_query_at_the_same_time_is_one_request(loopback: Loopback, cached: CachedEmbedder):
    loopback.latency = 0.05
    five = [cached.embed(["tea"], "query") for _ in range(5)]
    vectors = await asyncio.gather(*five, cached.embed(["a", "tea"], "query"))
    assert sorted(asked(loopback)) == [["a"], ["tea"]]  # two connections at once: either may arrive first
    np.testing.assert_array_equal(vectors[0][0], vectors[5][1])


async def test_one_who_gives_up_leaves_the_others_their_answer(loopback: Loopback, cached: CachedEmbedder):
    loopback.latency = 0.1
    first = asyncio.create_task(cached.embed(["tea"], "query"))
    second = asyncio.create_task(cached.embed(["tea"], "query"))
    await asyncio.sleep(0.02)
    first.cancel()
    assert (await second).shape == (1, 64)
    assert first.cancelled()
    assert asked(loopback) == [["tea"]]


async def test_a_failure_reaches_all_who_wait_and_is_not_kept(loopback: Loopback, cached: CachedEmbedder):
    loopback.latency = 0.02
    loopback.fail(400)
    results = await asyncio.gather(*(cached.embed(["tea"], "query") for _ in range(2)), return_exceptions=True)
    assert [type(result) for result in results] == [ModelRefusedError, ModelRefusedError]
    assert (await cached.embed(["tea"], "query")).shape == (1, 64)


async def test_a_query_that_nobody_waits_for_leaves_the_queue_of_this_machine():
    cached, may_go_on = CachedEmbedder(LocalEmbedder()), threading.Event()
    busy = _workers["query"].submit(may_go_on.wait)
    given_up, shared, kept = [asyncio.create_task(cached.embed([text], "query")) for text in ("tea", "milk", "milk")]
    await asyncio.sleep(0)  # it has not begun to embed
    given_up.cancel()
    shared.cancel()
    again = asyncio.create_task(cached.embed(["tea"], "query"))  # it does not get what is being given up
    await asyncio.sleep(0.01)
    again.cancel()
    may_go_on.set()
    assert busy.result() and (await kept).shape == (1, 384)
    assert list(cached._vectors) == ["milk"] and not cached._pending
