"""A conversation with memory: it recalls before each answer and records after it.

`reme chat` is made of it. The configured chat model answers; if there is none, the answer says so and lists what was
recalled.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from reme_core.client import AsyncReMe
from reme_core.engine import Engine
from reme_core.errors import InputError
from reme_core.prompts import language_for, phrase
from reme_core.prompts.budget import count_tokens
from reme_core.prompts.note import Note
from reme_core.turn.memory import TurnMemory
from reme_core.types import Memory, Message, new_id

HISTORY_TOKENS = 2_000
"""The tokens of the conversation that the model sees by `history_message_strategy="auto"`."""


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """An answer, and what it rests on.

    Attributes:
        answer: The text of the answer.
        note: The note of memories in the prompt, with the scores of its hits.
    """

    answer: str
    note: Note

    @property
    def memories(self) -> tuple[Memory, ...]:
        """The memories and earlier messages in the note, standing instructions and the profile first."""
        return (*self.note.standing, *(hit.memory for hit in self.note.hits))


class Chat:
    """One conversation in one workspace.

    ```python
    chat = Chat(reme, "alice")
    print((await chat.chat_with_memory("What should I cook tonight?")).answer)
    ```

    Attributes:
        history: Its messages so far.
        last: The last answer; None before the first.
    """

    def __init__(self, reme: Engine, workspace: str) -> None:
        """Begin a conversation about the memory of a workspace; the engine is open in the running event loop.

        Raises:
            InputError: This is no `Engine`.
        """
        if not isinstance(reme, Engine):
            raise InputError(f"a Chat needs an Engine (`async with Engine() as reme`), not {type(reme).__name__}")
        self._reme = reme
        self.workspace = workspace
        self.session_id = new_id()
        kinds = ("personal", "conversation")
        self._turn = TurnMemory(AsyncReMe.of(reme), workspace, kinds=kinds, write="awaited", on_error="raise")
        self.history: list[Message] = []
        self.last: ChatAnswer | None = None

    async def chat_with_memory(self, query: str, **options: Any) -> ChatAnswer:
        """Answer as `stream` does, whose options it takes, but in one piece."""
        async for _ in self.stream(query, **options):
            pass
        assert self.last is not None
        return self.last

    async def stream(
        self,
        query: str,
        *,
        role_name: str = "",
        system_prompt: str = "",
        memory_prompt: str = "",
        temporary_memories: str | Sequence[str] | None = None,
        history_message_strategy: Literal["auto"] | int | None = "auto",
        remember_response: bool = True,
    ) -> AsyncIterator[str]:
        """Answer piece by piece; afterwards, `last` is the whole answer.

        Args:
            query: What the user says.
            role_name: The user's name, if several people share the memory. Then only what is known about this person is
                recalled, and what this person and the assistant said.
            system_prompt: Instructions to the model; empty takes those of a helpful assistant.
            memory_prompt: What introduces the note of memories; empty takes a sentence that explains it.
            temporary_memories: Facts, or one as a text, for this answer only; the model sees them, but they are not
                stored.
            history_message_strategy: How much of this conversation the model sees: what fits into 2,000 tokens
                (`auto`), that many of the last exchanges (a number), or nothing (None).
            remember_response: Whether to store the answer. What the user says is always stored; the answer that says
                that no model is configured never is.

        Raises:
            InputError: The query is empty.
            ModelError: The model failed; what the user said is stored all the same.
        """
        if not query.strip():
            raise InputError("there is nothing to answer; say something")
        asked = Message(role="user", content=query, author=role_name, session_id=self.session_id)
        shown = self._visible_history(history_message_strategy)
        temporary = [temporary_memories] if isinstance(temporary_memories, str) else temporary_memories or ()
        turn = self._turn.about(role_name) if role_name else self._turn
        self.history.append(asked)
        answer = ""
        try:
            note = await turn.begin([*shown, asked], session_id=self.session_id)
            if self._reme.chat is None:
                remember_response = False  # stored, it would be recalled as if somebody had said it
                answer = _answer_without_model(query, note, temporary)
                yield answer
            else:
                system = _system_message(query, system_prompt, memory_prompt, note, temporary)
                prompt = [Message(role="system", content=system), *shown, asked]
                async for piece in self._reme.chat.stream(prompt, purpose="chat"):
                    answer += piece
                    yield piece
            said = [asked, Message(role="assistant", content=answer, session_id=self.session_id)]
        except BaseException:
            # Also where the caller is cancelled, or stops reading: what the user said is stored all the same.
            self._turn.record_soon([asked], session_id=self.session_id)
            raise
        self.history.append(said[1])
        await self._turn.record(said if remember_response else [asked], session_id=self.session_id)
        self.last = ChatAnswer(answer, note)

    def clear(self) -> None:
        """Begin a new conversation. What was said in this one stays in memory."""
        self.history, self.last, self.session_id = [], None, new_id()

    async def aclose(self) -> None:
        """Store the messages that are still to be stored. The engine stays open."""
        await self._turn.aclose()

    def _visible_history(self, strategy: Literal["auto"] | int | None) -> list[Message]:
        if strategy is None:
            return []
        if strategy != "auto":
            asked = [place for place, message in enumerate(self.history) if message.role == "user"]
            return self.history[asked[-strategy:][0] :] if asked and strategy > 0 else []
        shown: list[Message] = []
        left = HISTORY_TOKENS
        # From the newest back, so that the oldest ones are left out.
        for message in reversed(self.history):
            left -= count_tokens(message.content)
            if left < 0:
                break
            shown.insert(0, message)
        return shown


def _system_message(query: str, system_prompt: str, memory_prompt: str, note: Note, temporary: Sequence[str]) -> str:
    language = language_for(query)
    parts = [system_prompt or phrase("chat_system", language)]
    if note or temporary:
        parts.append(memory_prompt or phrase("chat_memory", language))
    if temporary:
        parts.append("\n".join(f"- {text}" for text in temporary))
    if note:
        parts.append(note.text)
    return "\n\n".join(parts)


def _answer_without_model(query: str, note: Note, temporary: Sequence[str]) -> str:
    language = language_for(query)
    known = [*temporary, *(m.content for m in note.standing), *(hit.content for hit in note.hits)]
    lines = [phrase("chat_offline", language)]
    if known:
        lines += [phrase("chat_remembered", language), *(f"- {text}" for text in known)]
    return "\n".join(lines)
