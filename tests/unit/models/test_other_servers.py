"""Servers that answer otherwise than OpenAI's: Ollama, vLLM, llama.cpp, LM Studio, TEI, Azure, Gemini, Mistral."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from reme_core.errors import ModelError, ModelRefusedError, ModelUnavailableError
from reme_core.models.endpoint import Endpoint
from reme_core.models.openai import OpenAIEmbedder
from reme_core.models.openai_chat import OpenAIChat
from reme_core.models.rerank import HttpReranker
from tests.loopback import Answer, Loopback, hashed_vector, word_overlap

KEY = "sk-loopback-secret"
ASK: list[Any] = [{"role": "user", "content": "What does Ada drink?"}]


class Fact(BaseModel):
    text: str


class Facts(BaseModel):
    facts: list[Fact]


@pytest.fixture
async def chat(loopback: Loopback) -> AsyncIterator[OpenAIChat]:
    model = OpenAIChat("chat-1", Endpoint(loopback.url, KEY, max_retries=1))
    yield model
    await model.aclose()


@pytest.fixture
async def embedder(loopback: Loopback) -> AsyncIterator[OpenAIEmbedder]:
    model = OpenAIEmbedder("embed-1", Endpoint(loopback.url, KEY, max_retries=2, timeout_seconds=5))
    yield model
    await model.aclose()


def cut(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer of a server that has reached the limit of tokens."""
    return {**answer, "choices": [{**answer["choices"][0], "finish_reason": "length"}]}


@pytest.mark.parametrize("thought", ["<think>Well, let me", {"reasoning_content": "Well, let me", "content": ""}])
async def test_a_model_that_thought_until_it_was_cut_off_may_answer_longer_from_then_on(
    loopback: Loopback, chat: OpenAIChat, thought: Any
) -> None:
    whole = {"facts": [{"text": "tea"}]}
    loopback.chat(thought, whole)
    loopback.replace(cut)
    for _ in range(2):
        assert await chat.complete_as(ASK, Facts, max_tokens=100) == Facts.model_validate(whole)
    assert [body["max_tokens"] for body in loopback.bodies()] == [100, 25_100, 25_100]


async def test_text_that_comes_in_parts_is_read_without_the_parts_that_are_thinking(
    loopback: Loopback, chat: OpenAIChat
) -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Well, let me see"}]}
    parts = [thought, {"type": "text", "text": "Hello, "}, {"type": "text", "text": "Ann."}]
    loopback.answer_otherwise(
        lambda body: None if body["stream"] else Answer(200, {"choices": [{"index": 0, "message": {"content": parts}}]})
    )
    assert (await chat.complete(ASK)).text == "Hello, Ann."
    deltas = [{"content": [thought]}, {"content": [{"type": "text", "text": "Hello, "}]}, {"content": "Ann."}]
    events = [json.dumps({"id": "1", "choices": [{"index": 0, "delta": delta}]}) for delta in deltas]
    loopback.garble("".join(f"data: {event}\n\n" for event in events), content_type="text/event-stream")
    assert "".join([piece async for piece in chat.stream(ASK)]) == "Hello, Ann."


@pytest.mark.parametrize("error", ["Unexpected endpoint or method. (POST /x)", {"message": "no credits", "code": 402}])
async def test_an_error_with_the_status_of_an_answer_is_told(
    loopback: Loopback, chat: OpenAIChat, error: object
) -> None:
    told = error if isinstance(error, str) else "no credits"
    loopback.answer_otherwise(lambda _body: Answer(200, {"error": error}))
    for asked in (chat.complete(ASK), chat.complete_as(ASK, Facts)):
        with pytest.raises(ModelError, match=re.escape(told)):
            await asked
    assert len(loopback.requests) == 2  # nothing to be corrected
    embedder = OpenAIEmbedder("embed-1", Endpoint(loopback.url))
    with pytest.raises(ModelError, match=re.escape(told)):
        await embedder.embed(["tea"])
    await embedder.aclose()


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (422, {"error": "the input is too short", "error_type": "Validation"}, "(422: the input is too short)"),  # TEI
        (400, {"object": "error", "message": "no such role", "code": 400}, "(400: no such role)"),  # older vLLM
        (422, {"detail": [{"loc": ["body", "n"], "msg": "not a number"}]}, "not a number"),  # FastAPI
        (400, [{"error": {"code": 400, "message": "no such field", "status": "INVALID"}}], "(400: no such field)"),
        (403, b"<html><head><title>403\nForbidden</title></head>" + b"<p>sorry</p>" * 999, "(403: 403 Forbidden)"),
        (502, b"<html><body><h1>Bad Gateway</h1>nginx</body></html>", "(502: Bad Gateway nginx)"),
        (404, b"404 page not found", "(404: 404 page not found)"),  # Ollama, without /v1
        (402, {"error": {"message": "Insufficient Balance"}}, "wants to be paid first (402: Insufficient Balance)"),
        (405, b"", "was not found (405)"),
        (400, b"tea " * 999, "tea …)"),
    ],
)
async def test_what_a_server_says_about_an_error_is_told_whatever_its_form(
    loopback: Loopback, chat: OpenAIChat, status: int, body: object, told: str
) -> None:
    loopback.fail(status, times=9, body=body)
    with pytest.raises(ModelError) as raised:
        await chat.complete(ASK)
    assert told in str(raised.value)
    assert len(str(raised.value)) < 800


async def test_a_field_that_is_refused_in_another_form_than_openais_is_left_out(
    loopback: Loopback, chat: OpenAIChat
) -> None:
    loopback.fail(422, body={"detail": [{"type": "extra_forbidden", "loc": ["body", "temperature"], "msg": "extra"}]})
    await chat.complete(ASK)
    assert ["temperature" in body for body in loopback.bodies()] == [True, False]


@pytest.mark.parametrize(
    ("query", "header"),
    [("api-version=2024-10-21", ("api-key", KEY)), ("tenant=a%26b", ("authorization", f"Bearer {KEY}"))],
)
async def test_what_the_query_of_an_address_asks_for_is_asked_for_with_each_request(
    loopback: Loopback, query: str, header: tuple[str, str]
) -> None:
    model = OpenAIChat("gpt", Endpoint(f"{loopback.url}/openai/deployments/mine/?{query}", KEY))
    await model.complete(ASK)
    await model.aclose()
    [request] = loopback.requests
    assert (request.path, request.query) == ("/v1/openai/deployments/mine/chat/completions", query)
    assert {name: request.headers.get(name) for name in ("api-key", "authorization")} == {
        "api-key": None, "authorization": None, header[0]: header[1]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (413, {"message": "batch size 128 > maximum allowed batch size 32", "code": 413, "type": "Validation"}),  # TEI
        (400, {"error": {"message": "batch size is invalid, it should not be larger than 10.: input.contents"}}),
        (
            400,
            [{"error": {"message": "* BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch"}}],
        ),
        (400, {"error": {"message": "Requested 410000 tokens, max 300000 tokens per request"}}),  # OpenAI
        (422, {"detail": "Too many inputs in request, split into more batches."}),
        (413, b"<html><head><title>413 Request Entity Too Large</title></head></html>"),
    ],
)
async def test_a_batch_that_is_too_large_for_the_server_is_sent_in_parts(
    loopback: Loopback, embedder: OpenAIEmbedder, status: int, error: object
) -> None:
    refuse = Answer(status, error, content_type="text/html" if isinstance(error, bytes) else "application/json")
    loopback.answer_otherwise(lambda body: refuse if len(body["input"]) > 10 else None)
    texts = [f"tea number {n}" for n in range(30)]
    vectors = await embedder.embed(texts)
    np.testing.assert_allclose(vectors, [hashed_vector(text, 64) for text in texts], atol=1e-6)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (500, "input (992 tokens) is too large to process. increase the physical batch size (current batch size: 512)"),
        (413, "Input validation error: `inputs` must have less than 512 tokens. Given: 992"),
        (400, "This model's maximum context length is 512 tokens. However, you requested 992 tokens in the input"),
        (400, "the input length exceeds the context length"),
        (400, "Range of input length should be [1, 8192]"),
    ],
)
async def test_a_text_that_is_too_long_for_the_model_has_the_vector_of_its_beginning(
    loopback: Loopback, embedder: OpenAIEmbedder, status: int, message: str
) -> None:
    refuse = Answer(status, {"error": {"message": message}})
    loopback.answer_otherwise(lambda body: refuse if any(len(text) > 2000 for text in body["input"]) else None)
    vectors = await embedder.embed(["coffee", "green " * 1000, "black"])
    expected = [hashed_vector(text, 64) for text in ("coffee", "green " * 250, "black")]
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert len(loopback.requests) == 7  # nothing that is too long is sent again as it was


async def test_a_server_that_calls_everything_too_long_is_left_in_the_end(
    loopback: Loopback, embedder: OpenAIEmbedder
) -> None:
    loopback.fail(400, times=99, message="too long")
    with pytest.raises(ModelRefusedError, match="too long"):
        await embedder.embed(["tea " * 2000] * 64)


@pytest.mark.parametrize(("name", "value"), [("ALL_PROXY", "socks9://127.0.0.1:1"), ("SSL_CERT_FILE", "/no/such.pem")])
async def test_a_variable_with_which_nothing_can_be_reached_is_named(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ModelError, match=name):
        await OpenAIEmbedder("embed-1", Endpoint(loopback.url)).embed(["tea"])


async def test_a_proxy_of_the_environment_is_told_and_so_is_an_address_without_https(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://ann:secret@127.0.0.1:9")
    proxied = OpenAIEmbedder("embed-1", Endpoint(loopback.url, KEY, max_retries=0))
    with pytest.raises(
        ModelUnavailableError, match="by the proxy that the environment names, unless NO_PROXY"
    ) as raised:
        await proxied.embed(["tea"])
    assert "secret" not in str(raised.value)
    await proxied.aclose()
    mistaken = OpenAIEmbedder("embed-1", Endpoint(loopback.url.replace("http:", "https:"), KEY, max_retries=0))
    with pytest.raises(ModelUnavailableError, match="write http:// in base_url"):
        await mistaken.embed(["tea"])
    await mistaken.aclose()


async def test_a_reranker_of_tei_is_understood_and_asked_for_no_more_than_it_takes(loopback: Loopback) -> None:
    def answer(body: dict[str, Any]) -> Answer:
        if "texts" not in body:
            told = (
                b"Failed to deserialize the JSON body into the target type: missing field `texts` at line 1 column 80"
            )
            return Answer(422, told, content_type="text/plain")
        if len(body["texts"]) > 4:
            return Answer(413, {"error": "batch size 10 > maximum allowed batch size 4", "error_type": "Validation"})
        if max(map(len, body["texts"])) > 2000:
            return Answer(413, {"error": "Input validation error: `inputs` must have less than 512 tokens. Given: 700"})
        scores = [{"index": n, "score": word_overlap(body["query"], text)} for n, text in enumerate(body["texts"])]
        return Answer(200, sorted(scores, key=lambda score: -score["score"]))

    loopback.answer_otherwise(answer)
    reranker = HttpReranker("bge-reranker", Endpoint(loopback.url))
    documents = [*(f"coffee number {n}" for n in range(8)), "green tea " * 500, "tea"]
    for _ in range(2):
        ranked = await reranker.rank("green tea", documents)
        assert ranked == [(8, 1.0), (9, 0.5), *((n, 0.0) for n in range(8))]
    await reranker.aclose()
    assert ["documents" in request.body for request in loopback.requests].count(True) == 1


async def test_a_model_that_refuses_is_quoted(loopback: Loopback, chat: OpenAIChat) -> None:
    loopback.chat({"refusal": "I'm sorry, I can't help with that."})
    assert (await chat.complete(ASK)).text == "I'm sorry, I can't help with that."
    with pytest.raises(ModelError, match="it begins \"I'm sorry, I can't help"):
        await chat.complete_as(ASK, Facts)


@pytest.mark.parametrize("missing", [{0}, {0, 1, 2}])
async def test_vectors_without_a_number_are_in_their_place(
    loopback: Loopback, embedder: OpenAIEmbedder, missing: set[int]
) -> None:
    def without_numbers(answer: dict[str, Any]) -> dict[str, Any]:
        rows = [{k: v for k, v in row.items() if k != "index" or v not in missing} for row in answer["data"]]
        return {**answer, "data": rows if len(missing) > 1 else rows[::-1]}

    loopback.replace(without_numbers)  # Gemini leaves out a number that is 0
    texts = ["green tea", "black coffee", "water"]
    vectors = await embedder.embed(texts)
    np.testing.assert_allclose(vectors, [hashed_vector(text, 64) for text in texts], atol=1e-6)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (500, "failed to parse grammar"),  # llama.cpp
        (500, "failed to load model vocabulary required for format"),  # Ollama
        (404, "No endpoints found that support response_format"),
        (501, "json_schema is not implemented"),
    ],
)
async def test_a_server_that_fails_at_a_schema_is_asked_without_it_from_then_on(
    loopback: Loopback, chat: OpenAIChat, status: int, message: str
) -> None:
    refuse = Answer(status, {"error": {"message": message}}, {"retry-after-ms": "1"})
    loopback.answer_otherwise(
        lambda body: refuse if (body.get("response_format") or {}).get("type") == "json_schema" else None
    )
    loopback.chat({"facts": [{"text": "tea"}]})
    await chat.complete_as(ASK, Facts)
    asked = len(loopback.requests)
    assert (await chat.complete_as(ASK, Facts)).facts == [Fact(text="tea")]
    assert len(loopback.requests) == asked + 1


async def test_a_call_of_a_tool_may_have_a_number_for_its_id(loopback: Loopback, chat: OpenAIChat) -> None:
    loopback.chat({"tool_calls": [{"id": 7, "function": {"name": "look_up", "arguments": {"word": "tea"}}}]})
    [call] = (await chat.complete(ASK)).tool_calls
    assert (call.id, call.name, json.loads(call.arguments)) == ("7", "look_up", {"word": "tea"})
