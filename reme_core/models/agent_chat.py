"""The model of an agent framework as a chat model: the agent's own model does the reading for its memory.

The connections of a framework's model belong to the event loop of its application. So the model is asked in the event
loop from which the memory was used last.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from reme_core.errors import ModelError, ModelUnavailableError
from reme_core.given import storable
from reme_core.models.base import Answer, Completion, Conversation, OnCall, Tool, Usage, report_call
from reme_core.models.json_in_words import Wire, correct_once, read_answer, with_instruction
from reme_core.text.answers import strip_thinking
from reme_core.types import Message

Answering = Callable[[list[Message]], Coroutine[Any, Any, Completion]]
"""Asks a framework's model: takes messages of the system, users and assistants; gives its text and token counts."""

_PATIENCE: Final = 300.0  # seconds to wait for one answer; an event loop that was stopped gives none


class AgentChat:
    """A chat model that answers in text and JSON, by the model of an agent."""

    provider: ClassVar[str] = "agent"

    def __init__(self, name: str, answer: Answering) -> None:
        self.name = name
        self._answer = answer
        self._loop: asyncio.AbstractEventLoop | None = None
        self.on_call: OnCall | None = None

    def use_running_loop(self) -> None:
        """From now on, ask the model in the event loop of the caller."""
        self._loop = asyncio.get_running_loop()

    async def complete(self, messages: Conversation, *, tools: Sequence[Tool] = (), purpose: str = "") -> Completion:
        """Answer in text; see `ChatModel.complete`."""
        if tools:
            raise ModelError(f"{self.name}, the model of an agent, calls no tools here; set llm.default for that")
        with report_call(self.on_call, self.provider, self.name, purpose) as usage:
            return await self._ask(_to_wire(messages), usage)

    async def complete_as(
        self, messages: Conversation, schema: type[Answer], *, max_tokens: int | None = None, purpose: str = ""
    ) -> Answer:
        """Answer in JSON that fits `schema`; see `ChatModel.complete_as`. The schema is sent in words.

        `max_tokens` has no effect: whoever made the agent's model has set its limit.
        """
        wire = with_instruction(_to_wire(messages), schema)
        return await correct_once(lambda asked: self._answer_once(asked, schema, purpose), wire, schema)

    async def stream(self, messages: Conversation, *, purpose: str = "") -> AsyncIterator[str]:
        """Answer in one piece; see `ChatModel.stream`."""
        yield (await self.complete(messages, purpose=purpose)).text

    async def aclose(self) -> None:
        """Do nothing: the application closes its model."""

    async def _answer_once(self, wire: list[Wire], schema: type[Answer], purpose: str) -> Answer:
        with report_call(self.on_call, self.provider, self.name, purpose) as usage:
            return read_answer((await self._ask(wire, usage)).text, schema)

    async def _ask(self, wire: list[Wire], usage: Usage) -> Completion:
        if self._loop is None or not self._loop.is_running():
            raise ModelUnavailableError(f"{self.name} cannot be asked: the event loop of its agent does not run")
        asked = [Message(role=message["role"], content=message["content"]) for message in wire]
        # The caller may run in another event loop, and another thread.
        future = asyncio.run_coroutine_threadsafe(self._answer(asked), self._loop)
        try:
            async with asyncio.timeout(_PATIENCE):
                answer = await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            # Either the caller was cancelled, or the agent's loop has ended and cancelled its tasks.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise ModelUnavailableError(f"{self.name} did not answer: the event loop of its agent has ended") from None
        except ModelError:
            raise
        except Exception as error:  # each framework raises errors of its own
            raise ModelUnavailableError(f"{self.name}, the model of the agent, failed: {error!r}") from error
        usage.prompt_tokens, usage.completion_tokens = answer.prompt_tokens, answer.completion_tokens
        return replace(answer, text=strip_thinking(storable(answer.text)))


def _to_wire(messages: Conversation) -> list[Wire]:
    return [m if isinstance(m, dict) else {"role": m.role, "content": m.content} for m in messages]
