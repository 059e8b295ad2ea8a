import asyncio

import numpy as np
import pytest

from reme_core.errors import ModelAnswerError, ModelError, ModelUnavailableError
from reme_core.models import ModelCall
from reme_core.models.dashscope import DashScopeEmbedder
from reme_core.models.endpoint import Endpoint
from reme_core.models.openai import MAX_CHARACTERS, OpenAIEmbedder
from tests.loopback import Loopback, hashed_vector

KEY = "sk-loopback-secret"


def embedder_at(loopback: Loopback, **options):
    return OpenAIEmbedder("embed-1", Endpoint(loopback.url, KEY, max_retries=2, timeout_seconds=5), **options)


@pytest.fixture
async def embedder(loopback: Loopback):
    opened = embedder_at(loopback)
    yield opened
    await opened.aclose()


async def test_vectors_are_float32_of_length_one_in_the_order_of_the_texts(
    loopback: Loopback, embedder: OpenAIEmbedder
):
    loopback.replace(lambda body: {**body, "data": body["data"][::-1]})
    vectors = await embedder.embed(["green tea", "black coffee"])
    assert vectors.dtype == np.float32
    assert vectors.shape == (2, 64)
    np.testing.assert_allclose(vectors[0], hashed_vector("green tea", 64), atol=1e-6)
    np.testing.assert_allclose(vectors[1], hashed_vector("black coffee", 64), atol=1e-6)


async def test_base64_is_asked_for_and_plain_floats_are_taken_from_a_server_that_ignores_it(
    loopback: Loopback, embedder: OpenAIEmbedder
):
    packed = await embedder.embed(["tea"])
    loopback.ignores = {"encoding_format"}
    plain = await embedder.embed(["tea"])
    assert loopback.requests[0].body["encoding_format"] == "base64"
    np.testing.assert_allclose(packed, plain, atol=1e-6)


async def test_a_server_that_refuses_base64_is_asked_for_floats_from_then_on(
    loopback: Loopback, embedder: OpenAIEmbedder
):
    loopback.fail(400, message="encoding_format base64 is not supported")
    await embedder.embed(["tea"])
    await embedder.embed(["coffee"])
    assert [body["encoding_format"] for body in loopback.bodies()] == ["base64", "float", "float"]


async def test_dimensions_are_sent_only_when_set_and_belong_to_the_name(loopback: Loopback):
    plain, narrow = embedder_at(loopback), embedder_at(loopback, dimensions=16)
    assert (plain.name, plain.dimensions) == ("embed-1", None)
    assert (narrow.name, narrow.dimensions) == ("embed-1@16", 16)
    await plain.embed(["tea"])
    vectors = await narrow.embed(["tea"])
    await plain.aclose()
    await narrow.aclose()
    assert "dimensions" not in loopback.requests[0].body
    assert loopback.requests[1].body["dimensions"] == 16
    assert vectors.shape == (1, 16)
    assert plain.dimensions == 64


async def test_a_server_that_ignores_or_refuses_dimensions_gives_an_error_that_names_them(loopback: Loopback):
    embedder = embedder_at(loopback, dimensions=16)
    loopback.ignores = {"dimensions"}
    with pytest.raises(ModelAnswerError, match=r"64.*16 was expected.*dimensions"):
        await embedder.embed(["tea"])
    loopback.refuses = {"dimensions"}
    with pytest.raises(ModelError, match="dimensions"):
        await embedder.embed(["tea"])
    await embedder.aclose()


async def test_a_lost_vector_is_an_error_and_not_a_shifted_list(loopback: Loopback, embedder: OpenAIEmbedder):
    loopback.replace(lambda body: {**body, "data": body["data"][:-1]})
    with pytest.raises(ModelAnswerError, match="1 vectors for 2 texts"):
        await embedder.embed(["tea", "coffee"])


async def test_a_width_that_changes_between_answers_is_an_error(loopback: Loopback, embedder: OpenAIEmbedder):
    await embedder.embed(["tea"])
    loopback.width = 32
    with pytest.raises(ModelAnswerError, match=r"\[32\] wide where 64"):
        await embedder.embed(["tea"])


@pytest.mark.parametrize("vector", [[0.0] * 64, [float("nan")] * 64, "no base64!", ["a", "b"], None, 0.5])
async def test_a_vector_without_direction_or_sense_is_an_error(loopback: Loopback, embedder: OpenAIEmbedder, vector):
    loopback.replace(lambda body: {**body, "data": [{**body["data"][0], "embedding": vector}]})
    with pytest.raises(ModelAnswerError, match="vector"):
        await embedder.embed(["tea"])
    assert (await embedder.embed(["tea"])).shape == (1, 64)


async def test_many_texts_go_in_batches_within_the_limit_of_concurrency(loopback: Loopback):
    loopback.latency = 0.02
    embedder = OpenAIEmbedder("embed-1", Endpoint(loopback.url, max_concurrency=3), batch_size=4)
    texts = [f"text {n}" for n in range(42)]
    vectors = await embedder.embed(texts)
    await embedder.aclose()
    assert sorted(len(body["input"]) for body in loopback.bodies()) == [2] + [4] * 10
    assert 1 < max(request.beside for request in loopback.requests) <= 3
    np.testing.assert_allclose(vectors[41], hashed_vector("text 41", 64), atol=1e-6)


async def test_one_failing_batch_raises_its_own_error_not_a_group(loopback: Loopback):
    embedder = embedder_at(loopback, batch_size=1)
    loopback.fail(400, message="told to fail")
    with pytest.raises(ModelError, match="told to fail"):
        await embedder.embed(["a", "b", "c"])
    await embedder.aclose()


async def test_dashscope_sends_ten_texts_at_most(loopback: Loopback):
    embedder = DashScopeEmbedder("text-embedding-v4", Endpoint(loopback.url, KEY), batch_size=100)
    await embedder.embed([f"text {n}" for n in range(23)])
    await embedder.aclose()
    assert sorted(len(body["input"]) for body in loopback.bodies()) == [3, 10, 10]


async def test_empty_long_and_malformed_texts_are_embedded(loopback: Loopback, embedder: OpenAIEmbedder):
    vectors = await embedder.embed(["", "  ", "x" * 50_000, "half a \ud83d pair"])
    assert vectors.shape == (4, 64)
    assert len(loopback.requests[0].body["input"][2]) == MAX_CHARACTERS
    assert (await embedder.embed([])).shape == (0, 64)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_passing_failures_are_retried(loopback: Loopback, embedder: OpenAIEmbedder, status: int):
    loopback.fail(status, times=2)
    assert (await embedder.embed(["tea"])).shape == (1, 64)
    assert len(loopback.requests) == 3


async def test_a_broken_connection_is_retried(loopback: Loopback, embedder: OpenAIEmbedder):
    loopback.drop()
    assert (await embedder.embed(["tea"])).shape == (1, 64)
    assert len(loopback.requests) == 2


async def test_lasting_failure_is_unavailable_and_reported(loopback: Loopback):
    calls: list[ModelCall] = []
    embedder = embedder_at(loopback, on_call=calls.append)
    loopback.fail(503, times=3)
    with pytest.raises(ModelUnavailableError, match="try again later"):
        await embedder.embed(["tea"], "query")
    await embedder.embed(["green tea"], "query")
    await embedder.aclose()
    assert [(call.ok, call.purpose, call.provider, call.model) for call in calls] == [
        (False, "embed_query", "openai", "embed-1"),
        (True, "embed_query", "openai", "embed-1"),
    ]
    assert "503" in calls[0].error
    assert calls[1].prompt_tokens == 2
    assert calls[1].milliseconds > 0


async def test_a_server_that_thinks_too_long_is_unavailable(loopback: Loopback):
    embedder = OpenAIEmbedder("embed-1", Endpoint(loopback.url, timeout_seconds=0.05, max_retries=0))
    loopback.slow(0.3)
    with pytest.raises(ModelUnavailableError, match="timeout_seconds"):
        await embedder.embed(["tea"])
    await embedder.aclose()


async def test_nobody_at_the_address_is_unavailable():
    embedder = OpenAIEmbedder("embed-1", Endpoint("http://127.0.0.1:9/v1", max_retries=0))
    with pytest.raises(ModelUnavailableError, match="could not be reached"):
        await embedder.embed(["tea"])
    await embedder.aclose()


@pytest.mark.parametrize("content_type", ["application/json", "text/html"])
async def test_a_web_page_instead_of_an_answer_is_told_apart(
    loopback: Loopback, embedder: OpenAIEmbedder, content_type: str
):
    loopback.garble("<html>welcome</html>", content_type=content_type)
    with pytest.raises(ModelAnswerError, match=r"JSON") as caught:
        await embedder.embed(["tea"])
    assert caught.value.raw == "<html>welcome</html>"


async def test_no_key_is_sent_from_the_surroundings(loopback: Loopback, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-somebody-elses")
    embedder = OpenAIEmbedder("embed-1", Endpoint(loopback.url))
    await embedder.embed(["tea"])
    await embedder.aclose()
    assert "somebody" not in str(loopback.requests[0].headers)


async def test_a_refused_key_is_named_but_never_shown(loopback: Loopback):
    loopback.api_key = "another"
    calls: list[ModelCall] = []
    embedder = embedder_at(loopback, on_call=calls.append)
    with pytest.raises(ModelError, match="api_key") as caught:
        await embedder.embed(["tea"])
    await embedder.aclose()
    shown = [repr(embedder), str(caught.value), repr(calls), repr(vars(embedder)), repr(vars(embedder._endpoint))]
    assert not [text for text in shown if KEY in text]
    assert "***" in str(caught.value)


def test_an_address_is_shown_without_its_credentials():
    assert Endpoint("https://me:secret@host/v1?key=secret").address == "https://host/v1"


async def test_models_share_connections_until_the_last_is_closed(loopback: Loopback):
    first, second = embedder_at(loopback), embedder_at(loopback)
    await first.embed(["tea"])
    await second.embed(["tea"])
    ports = {request.headers["host"] for request in loopback.requests}
    transport = [(await embedder._endpoint._lease()).client._client for embedder in (first, second)]
    assert transport[0] is transport[1]
    await first.aclose()
    assert not transport[0].is_closed
    await second.aclose()
    assert transport[0].is_closed
    await second.embed(["tea"])
    await second.aclose()
    assert len(ports) == 1


def test_one_embedder_serves_several_event_loops(loopback: Loopback):
    embedder = embedder_at(loopback)

    async def once() -> tuple[int, ...]:
        try:
            return (await embedder.embed(["tea"])).shape
        finally:
            await embedder.aclose()

    assert [asyncio.run(once()) for _ in range(2)] == [(1, 64), (1, 64)]
