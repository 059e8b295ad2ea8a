"""A perfect reader behind an OpenAI-compatible endpoint on loopback: it answers prompts from the key of people.

It sees what a model sees, finds the numbered messages and the remembered statements in the prompt, and answers the
operations that follow from the key. What is lost with it is lost around the model.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from benchmarks.people import Fact, Person
from reme_core.prompts.budget import count_tokens

_INSTRUCTIONS = re.compile(r"instruct|style|format|address|rule|answer|reply|recipe", re.IGNORECASE)


class Endpoint:
    """An OpenAI-compatible endpoint that answers each prompt by a function; `url` is its base URL while it is open.

    An answer that has `tool_calls` calls these; any other is sent as JSON.
    """

    def __init__(self, answer: Callable[[str], dict[str, Any]]) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                prompt = "\n".join(message["content"] or "" for message in body["messages"])
                answered = answer(prompt)
                text = json.dumps(answered, ensure_ascii=False)
                tokens = {"prompt_tokens": count_tokens(prompt), "completion_tokens": count_tokens(text)}
                told = answered if "tool_calls" in answered else {"content": text}
                choice = {"index": 0, "message": {"role": "assistant", **told}, "finish_reason": "stop"}
                head = {"id": "oracle", "object": "chat.completion", "created": 0, "model": body["model"]}
                usage = {**tokens, "total_tokens": sum(tokens.values())}
                sent = json.dumps({**head, "choices": [choice], "usage": usage}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *args: Any) -> None:
                """Keep the table readable."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class Oracle(Endpoint):
    """The perfect reader of some people's conversations."""

    def __init__(self, people: Sequence[Person]) -> None:
        readers = [_Reader(person) for person in people]
        super().__init__(lambda prompt: _answer(readers, prompt))


def _answer(readers: Sequence[_Reader], prompt: str) -> dict[str, Any]:
    if "<operations>" in prompt:
        numbers = re.findall(r"^\[(\d+)\] \w+:", prompt.rsplit("<operations>", maxsplit=1)[-1], re.MULTILINE)
        return {"holds": [int(number) for number in numbers]}
    conversation = prompt.rsplit("<conversation>", maxsplit=1)[-1].split("</conversation>", maxsplit=1)[0]
    remembered = prompt.rsplit("<memories>", maxsplit=1)[-1].split("</memories>", maxsplit=1)[0]
    lines = {int(n): text for n, text in re.findall(r"^\[(\d+)\] [^:\n]+: (.*)$", conversation, re.MULTILINE)}
    memories = {int(n): text for n, text in re.findall(r"^m(\d+) (.*)$", remembered, re.MULTILINE)}
    best = max(readers, key=lambda reader: len(reader.numbers(lines)))
    return {"operations": best.operations(lines, memories)}


class _Reader:
    """Reads one person's conversations by the key."""

    def __init__(self, person: Person) -> None:
        self._person = person
        self._by_text = {" ".join(m.content.split()): m for m in person.messages if m.role == "user"}

    def numbers(self, lines: dict[int, str]) -> dict[str, int]:
        """The numbers of the prompt's lines by the ids of this person's messages."""
        found: dict[str, int] = {}
        for number, text in lines.items():
            message = self._by_text.get(text) or next(
                (m for known, m in self._by_text.items() if text.endswith("…") and known.startswith(text[:-1])), None
            )
            if message is not None:
                found[message.message_id] = number
        return found

    def operations(self, lines: dict[int, str], memories: dict[int, str]) -> list[dict[str, Any]]:
        """What follows from the key, in the order of the messages."""
        numbers = self.numbers(lines)
        done: list[dict[str, Any]] = []
        closed: set[str] = set()
        for message in self._person.messages:
            number = numbers.get(message.message_id)
            if number is None:
                continue
            if message.message_id in self._person.wishes:
                done.append(_wish(number, message.content))
            for fact in self._person.facts.values():
                if fact.known_from == message.message_id:
                    done.append(self._told(fact, numbers, memories, closed))
                elif message.message_id in fact.evidence and (place := _place(fact, memories)):
                    done.append(_operation("confirm", fact, [number], place))
            for fact in self._person.facts.values():
                if fact.ended_by == message.message_id and fact.how != "elapsed" and fact.id not in closed:
                    closed.add(fact.id)
                    op = "forget" if fact.how == "forgotten" else "end"
                    done.append(_operation(op, fact, [number], _place(fact, memories)))
        return done

    def _told(self, fact: Fact, numbers: dict[str, int], memories: dict[int, str], closed: set[str]) -> dict[str, Any]:
        evidence = [numbers[e] for e in fact.evidence if e in numbers] or [numbers[fact.known_from]]
        olds = [f for f in self._person.facts.values() if f.successor == fact.id and f.ended_by == fact.known_from]
        op, place = "add", 0
        if olds and olds[0].id not in closed:
            closed.add(olds[0].id)
            op, place = "change", _place(olds[0], memories)
        known = numbers.keys() | set(fact.context)
        told = [m for m in self._person.messages if m.message_id in {*fact.evidence, *fact.context} & known]
        spoken = " ".join(message.content for message in told)
        value = [word for group in fact.says for word in group if word.casefold() in spoken.casefold()][:3]
        return {
            **_operation(op, fact, evidence, place),
            "value": " ".join(value),
            "statement": fact.statement,
            "kind": "instruction" if _INSTRUCTIONS.search(fact.thing) and fact.about == "user" else "fact",
            "since": fact.valid_from,
            "until": fact.valid_until,
        }


def _wish(number: int, said: str) -> dict[str, Any]:
    return {"op": "add", "evidence": [number], "memory": 0, "thing": "", "statement": said, "kind": "instruction"}


def _operation(op: str, fact: Fact, evidence: list[int], memory: int) -> dict[str, Any]:
    return {"op": op, "evidence": evidence, "memory": memory, "about": fact.about, "thing": fact.thing}


def _place(fact: Fact, memories: dict[int, str]) -> int:
    """The number of the remembered statement that holds a fact; 0 where none is shown."""
    begins = " ".join(fact.statement.split())[:30]
    exact = [number for number, text in memories.items() if begins in text]
    return next(iter(exact + [number for number, text in memories.items() if fact.said_in(text)]), 0)
