"""A model server on this machine: it speaks OpenAI's protocol (`/rerank` and DashScope's too) and answers as told.

    def test_something(loopback):
        loopback.chat({"memories": []})            # what every chat request is answered with
        loopback.chat("first", "second")           # in turn; the last one repeats
        loopback.chat(lambda body: "…")            # made from the request's body
        loopback.fail(503, times=2)                # the next two requests
        …
        assert loopback.bodies("/chat/completions")[0]["temperature"] == 0

Only the model is played; the HTTP between is real.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import uvicorn

Body = dict[str, Any]
Reply = str | Body
Script = Reply | Callable[[Body], Reply]

_MESSAGE_FIELDS = {"content", "tool_calls", "reasoning_content", "reasoning", "refusal"}


@dataclass
class Recorded:
    """One request that arrived, with how many were being answered at that moment, itself included."""

    path: str
    body: Body
    headers: dict[str, str]
    beside: int = 1
    query: str = ""


@dataclass
class Answer:
    """What goes back: a status, a body (bytes as they are, else JSON), and whether the connection breaks midway."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    broken: bool = False
    blanks: int = 0
    """Blank lines before the body, one each 20 ms."""


def hashed_vector(text: str, width: int) -> np.ndarray:
    """A unit vector in which each word (or Chinese character) has a place, so that texts that share words are near."""
    vector = np.zeros(width, dtype="<f4")
    for word in re.findall(r"[㐀-鿿]|[^\W㐀-鿿]+", text.lower()) or [""]:
        digest = hashlib.blake2b(word.encode("utf-8"), digest_size=8).digest()
        vector[int.from_bytes(digest[:4], "little") % width] += 1 if digest[4] & 1 else -1
    if not vector.any():
        vector[0] = 1
    return vector / np.linalg.norm(vector)


def tool_call(name: str, call_id: str = "call-1", **arguments: Any) -> Body:
    """One member of a reply's `tool_calls`."""
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": call_id, "type": "function", "function": function}


def word_overlap(query: str, text: str) -> float:
    """The share of the query's words that a text holds: the rerank model that is played here."""
    wanted, there = (set(re.findall(r"[㐀-鿿]|[^\W㐀-鿿]+", words.lower())) for words in (query, text))
    return len(wanted & there) / max(len(wanted), 1)


class Loopback:
    """The server and its script. `reset` forgets script and records; `url` is the base URL to give a client."""

    def __init__(self) -> None:
        # The protocol is named since asyncio turns off Nagle's algorithm (40 ms an answer) only for TCP by name.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._app, interface="asgi3", lifespan="off", ws="none", log_config=None, timeout_graceful_shutdown=1
            )
        )
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="loopback", daemon=True)
        self.reset()

    def __enter__(self) -> Loopback:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=5)
        self._socket.close()

    @property
    def url(self) -> str:
        """The base URL for OpenAI-compatible clients, and for `/rerank`."""
        return f"http://127.0.0.1:{self.port}/v1"

    # --- script -----------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Begin anew: no records, no faults, every chat answered with `ok`, vectors 64 wide."""
        self.requests: list[Recorded] = []
        # Of this script alone: an answer that an earlier test did not wait for may still be under way.
        self._answering: list[Recorded] = []
        self.width = 64
        self.api_key = ""
        """When set, every other key is refused with 401."""
        self.refuses: set[str] = set()
        """Fields answered with 400, as strict servers do: `dimensions`, `temperature`, `json_schema` …"""
        self.ignores: set[str] = set()
        """Fields taken without effect, as lax servers do: `dimensions`, `encoding_format`."""
        self.latency = 0.0
        """Seconds before every answer."""
        self.stream_pieces: Callable[[str], list[str]] = lambda text: re.findall(r".{1,3}", text, re.DOTALL)
        """How a streamed answer is cut."""
        self._script: deque[Script] = deque(["ok"])
        self._faults: deque[Callable[[Answer], Answer | Awaitable[Answer]]] = deque()
        self._otherwise: Callable[[Body], Answer | None] = lambda _: None

    def chat(self, *replies: Script) -> None:
        """What chat requests are answered with, in turn; the last reply repeats.

        A string is the text. A dict of nothing but a message's fields (`content`, `tool_calls`, `reasoning_content`)
        is the message; any other dict is sent as JSON text. A function makes either from the request's body.
        """
        self._script = deque(replies)

    def fail(self, status: int = 500, *, times: int = 1, message: str = "told to fail", body: Any = None) -> None:
        """Answer the next requests with an error status; clients are told to try again at once.

        The error has the form of OpenAI, or is `body`: JSON, or bytes of a web page.
        """
        sent = {"error": {"message": message, "type": "loopback"}} if body is None else body
        kind = "text/html" if isinstance(sent, bytes) else "application/json"
        answer = Answer(status, sent, {"retry-after-ms": "1"}, kind)
        self._faults.extend([lambda _: answer] * times)

    def drop(self, *, times: int = 1) -> None:
        """Break the connection in the middle of the next answers."""
        self._faults.extend([_broken] * times)

    def garble(self, sent: str | bytes = '{"id": "x", "choices": [', *, content_type: str = "application/json") -> None:
        """Answer the next request with this instead of a JSON document."""
        body = sent if isinstance(sent, bytes) else sent.encode("utf-8")
        self._faults.append(lambda _: Answer(200, body, content_type=content_type))

    def send_blanks(self, count: int) -> None:
        """Send blank lines before the next answer, as servers do that keep a connection alive."""
        self._faults.append(lambda answer: replace(answer, blanks=count))

    def answer_otherwise(self, to: Callable[[Body], Answer | None]) -> None:
        """Answer each request with what `to` makes of its body, unless that is None."""
        self._otherwise = to

    def slow(self, seconds: float, *, times: int = 1) -> None:
        """Answer the next requests late."""

        async def late(answer: Answer) -> Answer:
            await asyncio.sleep(seconds)
            return answer

        self._faults.extend([late] * times)

    def replace(self, change: Callable[[Body], Body]) -> None:
        """Change the body of the next answer, for instance to lose a vector."""
        self._faults.append(lambda answer: Answer(answer.status, change(answer.body)))

    # --- records ----------------------------------------------------------------------------------------------------

    def bodies(self, path: str = "") -> list[Body]:
        """The bodies of the requests whose path ends so, in order of arrival."""
        return [request.body for request in self.requests if request.path.endswith(path)]

    # --- server -----------------------------------------------------------------------------------------------------

    async def _app(self, scope: Body, receive: Callable[[], Awaitable[Body]], send: Callable[[Body], Any]) -> None:
        data, more = b"", True
        while more:
            event = await receive()
            data, more = data + event.get("body", b""), event.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        answering = self._answering
        request = Recorded(
            scope["path"], json.loads(data or b"{}"), headers, len(answering) + 1, scope["query_string"].decode()
        )
        answering.append(request)
        try:
            self.requests.append(request)
            if self.latency:
                await asyncio.sleep(self.latency)
            answer = self._otherwise(request.body) or self._answer(request)
            if self._faults:
                changed = self._faults.popleft()(answer)
                answer = changed if isinstance(changed, Answer) else await changed
            await self._send(answer, send)
        finally:
            answering.remove(request)

    async def _send(self, answer: Answer, send: Callable[[Body], Any]) -> None:
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body, ensure_ascii=False).encode()
        headers = {"content-type": answer.content_type, **answer.headers}
        if not answer.broken and answer.content_type != "text/event-stream":
            headers["content-length"] = str(answer.blanks + len(body))
        await send(
            {
                "type": "http.response.start",
                "status": answer.status,
                "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            }
        )
        for _ in range(answer.blanks):
            await send({"type": "http.response.body", "body": b"\n", "more_body": True})
            await asyncio.sleep(0.02)
        if answer.broken:
            await send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
            raise ConnectionResetError("told to drop the connection")
        for line in body.splitlines(keepends=True) if answer.content_type == "text/event-stream" else [body]:
            await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body"})

    def _answer(self, request: Recorded) -> Answer:
        body = request.body
        if self.api_key and request.headers.get("authorization") != f"Bearer {self.api_key}":
            given = request.headers.get("authorization", "").removeprefix("Bearer ")
            return _error(401, f"Incorrect API key provided: {given}")
        form = body.get("response_format") or {}
        for name in sorted(self.refuses & {*body, form.get("type", "")}):
            return _error(400, f"Unsupported parameter: '{name}' is not supported by this model")
        if request.path.endswith("/chat/completions"):
            return self._chat(body)
        if request.path.endswith("/embeddings"):
            return self._embeddings(body)
        if request.path.endswith("/text-rerank"):
            results = _ranked(body["input"]["query"], body["input"]["documents"], body["parameters"].get("top_n"))
            return Answer(body={"output": {"results": results}, "usage": {"total_tokens": 7}, "request_id": "r"})
        if request.path.endswith("/rerank"):
            results = _ranked(body["query"], body["documents"], body.get("top_n"))
            return Answer(body={"results": results, "usage": {"total_tokens": 7}})
        return _error(404, f"no such path: {request.path}")

    def _chat(self, body: Body) -> Answer:
        script = self._script.popleft() if len(self._script) > 1 else self._script[0]
        reply = script(body) if callable(script) else script
        if isinstance(reply, dict) and not reply.keys() <= _MESSAGE_FIELDS:
            reply = json.dumps(reply, ensure_ascii=False)
        message = {"role": "assistant", "content": None, **({"content": reply} if isinstance(reply, str) else reply)}
        words = sum(len(str(part.get("content") or "").split()) for part in body.get("messages", []))
        usage = {
            "prompt_tokens": words,
            "completion_tokens": len(str(message["content"]).split()),
            "total_tokens": words + len(str(message["content"]).split()),
        }
        head = {"id": "chat-1", "created": 0, "model": body.get("model", "")}
        if body.get("stream"):
            return self._stream(head, message, usage, bool((body.get("stream_options") or {}).get("include_usage")))
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return Answer(body={**head, "object": "chat.completion", "choices": [choice], "usage": usage})

    def _stream(self, head: Body, message: Body, usage: Body, tell_usage: bool) -> Answer:
        deltas = [{"role": "assistant", "content": ""}]
        if message.get("reasoning_content"):
            deltas.append({"reasoning_content": message["reasoning_content"]})
        deltas += [{"content": piece} for piece in self.stream_pieces(message["content"] or "")]
        deltas += [
            {"tool_calls": [{**call, "index": index}]} for index, call in enumerate(message.get("tool_calls") or [])
        ]
        events = [
            {**head, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": d, "finish_reason": None}]}
            for d in deltas
        ]
        if tell_usage:
            events.append({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage})
        lines = [*(json.dumps(event, ensure_ascii=False) for event in events), "[DONE]"]
        return Answer(body="".join(f"data: {line}\n\n" for line in lines).encode(), content_type="text/event-stream")

    def _embeddings(self, body: Body) -> Answer:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        if any(not text for text in texts):
            return _error(400, "'$.input' is invalid: an input cannot be an empty string")
        width = body.get("dimensions", self.width) if "dimensions" not in self.ignores else self.width
        as_text = body.get("encoding_format") == "base64" and "encoding_format" not in self.ignores
        vectors = [hashed_vector(text, width) for text in texts]
        rows = [
            {
                "object": "embedding",
                "index": index,
                # Twice as long as it should be: servers needn't normalise.
                "embedding": base64.b64encode((2 * v).tobytes()).decode() if as_text else (2 * v).tolist(),
            }
            for index, v in enumerate(vectors)
        ]
        tokens = sum(len(text.split()) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return Answer(body={"object": "list", "model": body["model"], "data": rows, "usage": usage})


def _broken(answer: Answer) -> Answer:
    return Answer(answer.status, answer.body, answer.headers, answer.content_type, broken=True)


def _error(status: int, message: str) -> Answer:
    return Answer(status, {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}})


def _ranked(query: str, documents: list[str], top_n: int | None) -> list[Body]:
    scores = [(word_overlap(query, text), index) for index, text in enumerate(documents)]
    best = sorted(scores, key=lambda pair: (-pair[0], pair[1]))[:top_n]
    return [{"index": index, "relevance_score": score} for score, index in best]


@pytest.fixture(scope="session")
def loopback_server() -> Iterator[Loopback]:
    """One server for the whole session; use `loopback`."""
    with Loopback() as server:
        yield server


@pytest.fixture
def loopback(loopback_server: Loopback) -> Loopback:
    """The model server with a clean script."""
    loopback_server.reset()
    return loopback_server
