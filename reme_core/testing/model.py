"""`ScriptedModel`: a chat model that gives scripted answers and keeps its prompts."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from reme_core.prompts.fence import NOTE
from reme_core.types import new_id

PROMPT_TOKENS, COMPLETION_TOKENS = 11, 5
"""How many tokens drivers report for each answer."""


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of the model: a text, or a tool to call with its arguments as JSON."""

    text: str = ""
    tool: str = ""
    arguments: str = "{}"
    call_id: str = "call-1"
    error: str = ""
    beside: tuple[Reply, ...] = ()
    """Calls of tools in the same answer as this one (`Capability.PARALLEL`)."""

    @property
    def calls(self) -> tuple[Reply, ...]:
        """The calls of tools in this answer, each as a reply."""
        return (self, *self.beside) if self.tool else ()


@dataclass(slots=True)
class ScriptedModel:
    """The model that a driver plugs into its framework: `reply = await model.answer([(role, text), …])`.

    Attributes:
        prompts: Every prompt so far, in order.
    """

    prompts: list[list[PromptMessage]] = field(default_factory=list)
    answering: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a prompt arrives that is never answered (see `hold`)."""
    _script: deque[Reply | None] = field(default_factory=deque)

    def say(self, text: str) -> None:
        """Answer the next prompt with this."""
        self._script.append(Reply(text))

    def call(self, tool: str, *, call_id: str = "", **arguments: Any) -> None:
        """Answer the next prompt by calling a tool; the id of the call is new, unless one is given."""
        self._script.append(Reply(tool=tool, arguments=json.dumps(arguments), call_id=call_id or new_id()))

    def call_at_once(self, tool: str, *arguments: dict[str, Any]) -> None:
        """Answer the next prompt by calling a tool several times, each with other arguments (`Capability.PARALLEL`)."""
        first, *others = [Reply(tool=tool, arguments=json.dumps(given), call_id=new_id()) for given in arguments]
        self._script.append(replace(first, beside=tuple(others)))

    def fail(self) -> None:
        """Answer the next prompt with an error, as a model does that is overloaded."""
        self._script.append(Reply(error="the model is overloaded"))

    def hold(self) -> None:
        """Never answer the next prompt."""
        self._script.append(None)

    async def answer(self, prompt: Iterable[tuple[str, str]]) -> Reply:
        """Take a prompt and return the next scripted reply, or `ok` after the last one."""
        reply = self._take(prompt)
        while reply is None:
            self.answering.set()
            await asyncio.Event().wait()
        return reply

    def answer_now(self, prompt: Iterable[tuple[str, str]]) -> Reply:
        """`answer` for frameworks that call a model without awaiting it."""
        reply = self._take(prompt)
        assert reply is not None, "a model that is called without awaiting cannot be held"
        return reply

    def _take(self, prompt: Iterable[tuple[str, str]]) -> Reply | None:
        self.prompts.append([PromptMessage(role, text) for role, text in prompt])
        reply = self._script.popleft() if self._script else Reply("ok")
        if reply is not None and reply.error:
            raise RuntimeError(reply.error)
        return reply

    @property
    def last_prompt(self) -> str:
        """The whole text of the last prompt."""
        return "\n".join(message.text for message in self.prompts[-1]) if self.prompts else ""

    def notes(self, number: int = -1) -> list[tuple[int, PromptMessage]]:
        """The messages of a prompt that contain a note, each with its index."""
        return [(place, m) for place, m in enumerate(self.prompts[number]) if f"<{NOTE}" in m.text]
