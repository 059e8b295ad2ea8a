"""Model contexts that show the model what fits its window, with a note that they do not store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from autogen_core import Component, ComponentModel
from autogen_core.model_context import ChatCompletionContext, UnboundedChatCompletionContext
from autogen_core.models import FunctionExecutionResultMessage, LLMMessage, SystemMessage, UserMessage
from pydantic import BaseModel

from reme_autogen.convert import NOTE_SOURCE, from_model, prefer_person
from reme_autogen.memory import ReMeMemory, load_memory
from reme_autogen.recorder import ends_turn, said_by_asker, visible_messages
from reme_core.errors import InputError
from reme_core.turn import SESSION, Position, TurnMemory, fit_messages
from reme_core.types import Message, new_id


class ContextWithNote(ChatCompletionContext):
    """A context around another one, which shows what fits of its messages, with a note, and never stores the note."""

    def __init__(self, inner: ChatCompletionContext | None, turn: TurnMemory) -> None:
        """Show the messages of `inner`, by default an unbounded context, as the memory's options say."""
        super().__init__()
        self.inner = inner if inner is not None else UnboundedChatCompletionContext()
        self.note = self.session_id = ""  # until a turn sets them
        self._turn = turn

    async def add_message(self, message: LLMMessage) -> None:
        """Add a message to the inner context."""
        await self.inner.add_message(message)

    async def get_messages(self) -> list[LLMMessage]:
        """The messages of the inner context that fit, with the note."""
        fitting = await what_fits(self._turn, await self.inner.get_messages(), self.session_id)
        return with_note(fitting, self.note, self._turn.position)

    async def clear(self) -> None:
        """Clear the inner context."""
        self.note = ""
        await self.inner.clear()

    async def save_state(self) -> Mapping[str, Any]:
        """The inner context's state, without the note."""
        return await self.inner.save_state()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the inner context."""
        await self.inner.load_state(state)


class ReMeModelContextConfig(BaseModel):
    """A memory, and the inner context."""

    memory: ComponentModel
    inner: ComponentModel


class ReMeModelContext(ContextWithNote, Component[ReMeModelContextConfig]):
    """Long-term memory for `AssistantAgent(model_context=…)`.

    The model is shown the note with the last user message; the note is never stored in the context. A turn is recorded
    when the answer, or the results of tools, are added to the context.

    ```python
    context = ReMeModelContext(ReMeMemory(workspace_id="alice"))
    agent = AssistantAgent("assistant", model_client, model_context=context)
    ```
    """

    component_config_schema = ReMeModelContextConfig
    component_provider_override = "reme_autogen.ReMeModelContext"

    def __init__(self, memory: ReMeMemory, inner: ChatCompletionContext | None = None) -> None:
        """Show the messages of `inner`, by default an unbounded context, with the notes of `memory`.

        Raises:
            InputError: One of the two is something else.
        """
        if not isinstance(memory, ReMeMemory) or not isinstance(inner, ChatCompletionContext | None):
            raise InputError("give a ReMeModelContext a memory and a context: ReMeModelContext(ReMeMemory(…), inner)")
        super().__init__(inner, memory.turn)
        self.memory = memory
        self._name = new_id()
        self._asked = 0

    async def add_message(self, message: LLMMessage) -> None:
        """Add a message; the turn is recorded when it ends with this message."""
        message = said_by_asker(message)
        await super().add_message(message)
        if isinstance(message, UserMessage):
            self._asked += 1
            await self.memory.contexts.begin_turn(self.inner)
        if ends_turn(message):
            await self.memory.contexts.record(self.inner)

    async def get_messages(self) -> list[LLMMessage]:
        """The messages of the inner context that fit, with the note; each turn recalls once."""
        self.session_id = self.memory.contexts.session_of(self.inner)
        asked = prefer_person(await visible_messages(self.inner))
        note = await self._turn.begin(asked, f"{self._name}:{self._asked}", session_id=self.session_id)
        self.note = note.text
        return await super().get_messages()

    async def clear(self) -> None:
        """Clear the inner context; what follows is another conversation."""
        await self.memory.contexts.end_conversation(self.inner)
        await super().clear()

    async def save_state(self) -> Mapping[str, Any]:
        """The inner context's state, with the number of its conversation in the memory's session."""
        return {**await super().save_state(), "reme_resets": self.memory.contexts.number_of(self.inner)}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the inner context, and go on with its conversation."""
        inner = dict(state)
        number = inner.pop("reme_resets", 0)
        await super().load_state(inner)
        await self.memory.contexts.go_on(self.inner, number)

    def _to_config(self) -> ReMeModelContextConfig:
        return ReMeModelContextConfig(memory=self.memory.dump_component(), inner=self.inner.dump_component())

    @classmethod
    def _from_config(cls, config: ReMeModelContextConfig) -> Self:
        memory = load_memory(config.memory, "ReMeModelContext")
        return cls(memory, ChatCompletionContext.load_component(config.inner))


def with_note(messages: Sequence[LLMMessage], note: str, position: Position) -> list[LLMMessage]:
    """The messages with the note: in the user's last message, or as a message of its own at the head."""
    # Some models refuse it at any other place.
    shown = list(messages)
    if note and position == "system":
        return [SystemMessage(content=note), *shown]
    places = [place for place, message in enumerate(shown) if isinstance(message, UserMessage)]
    if not note:
        return shown
    if not places:  # a context that shows few messages has left out the question, after calls of tools
        return [UserMessage(content=note, source=NOTE_SOURCE), *shown]
    asked = shown[places[-1]]
    assert isinstance(asked, UserMessage)
    content = f"{note}\n\n{asked.content}" if isinstance(asked.content, str) else [note, *asked.content]
    shown[places[-1]] = asked.model_copy(update={"content": content})
    return shown


async def what_fits(turn: TurnMemory, messages: list[LLMMessage], session_id: str) -> list[LLMMessage]:
    """The messages of a context that fit the memory's window, with a summary of the others; the context keeps all."""
    SESSION.set(session_id)
    return await fit_messages(
        turn,
        messages,
        session_id,
        parts_of=lambda message: from_model(message) or [Message(role="system", content=str(message.content))],
        with_parts=_with_parts,
        summary=lambda text: UserMessage(content=text, source=NOTE_SOURCE),
    )


def _with_parts(message: LLMMessage, parts: dict[int, Message]) -> LLMMessage:
    if isinstance(message, FunctionExecutionResultMessage):
        results = [message.content[number].model_copy(update={"content": one.content}) for number, one in parts.items()]
        return message.model_copy(update={"content": results})
    return message.model_copy(update={"content": parts[0].content})
