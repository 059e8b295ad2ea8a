"""A conversation with memory: retrieve before each answer, record after it, and know what shaped it.

`Chat` is what `reme chat` talks to, and a small adapter of its own: the memory of a turn is `reme_core.turn`, the
answer is the configured chat model's. Without a model it says so plainly, and shows what it remembers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from reme_core.app import AsyncReMe
from reme_core.errors import InputError
from reme_core.prompts import Language, phrase
from reme_core.schema import Memory, Message, new_id
from reme_core.text.budget import count_tokens
from reme_core.text.terms import language_of
from reme_core.turn import Note, TurnMemory

HISTORY_TOKENS = 2_000
"""How much of the running conversation `history_message_strategy="auto"` shows the model."""


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """An answer, and what it rests on.

    Attributes:
        answer: What was said.
        memories: The memories and earlier messages that the model was shown, standing ones first.
        note: The note they were shown in, with the scores of its hits.
        prompt: The messages that the model was given, system prompt included; empty where no model is set.
    """

    answer: str
    memories: tuple[Memory, ...] = ()
    note: Note = field(default_factory=Note)
    prompt: tuple[Message, ...] = ()


class Chat:
    """One conversation in one workspace.

    ```python
    chat = Chat(reme, "alice")
    print((await chat.chat_with_memory("What should I cook tonight?")).answer)
    ```

    Attributes:
        history: What was said in it so far.
        last: The last answer; None before the first.
    """

    def __init__(
        self,
        reme: AsyncReMe,
        workspace: str,
        *,
        session_id: str = "",
        kinds: Sequence[str] = ("personal", "conversation"),
        top_k: int = 5,
        token_budget: int = 800,
    ) -> None:
        """Begin, or take up, a conversation.

        Args:
            reme: An open memory.
            workspace: Whose memory it is.
            session_id: Names the conversation; default is a new one.
            kinds: What to recall, as `TurnMemory` takes it.
            top_k: Memories, and as many earlier messages, that an answer may rest on.
            token_budget: Tokens that they may take in the prompt.
        """
        self._reme = reme
        self.workspace = workspace
        self.session_id = session_id or new_id()
        self._turn = TurnMemory(
            reme, workspace, kinds=kinds, top_k=top_k, token_budget=token_budget, write="awaited", on_error="raise"
        )
        self.history: list[Message] = []
        self.last: ChatAnswer | None = None

    async def chat_with_memory(self, query: str, **options: Any) -> ChatAnswer:
        """Answer with what is remembered; the options are those of `stream`."""
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
        temporary_memories: Sequence[str] = (),
        history_message_strategy: Literal["auto"] | int | None = "auto",
        remember_response: bool = True,
    ) -> AsyncIterator[str]:
        """Answer piece by piece; `last` holds the whole of it afterwards.

        Args:
            query: What the human says.
            role_name: Who the human is, where the memory holds several people.
            system_prompt: What the model is told to be; default is a helpful assistant.
            memory_prompt: What to say before the note of memories; default says that they are memories.
            temporary_memories: Facts for this answer alone; they are shown and not kept.
            history_message_strategy: How much of this conversation the model sees: as much as fits into 2,000 tokens
                (`auto`), its last so many messages, or nothing (None).
            remember_response: Whether the answer is kept as part of the conversation. What the human says always is;
                what stands in for an answer where no model is set never is.

        Raises:
            InputError: The query is empty.
            ModelError: The model failed; what the human said is kept.
        """
        if not query.strip():
            raise InputError("there is nothing to answer; say something")
        asked = Message(role="user", content=query, author=role_name, session_id=self.session_id)
        shown = self._shown(history_message_strategy)
        note = await self._turn.begin([*shown, asked])
        self.history.append(asked)
        prompt: list[Message] = []
        answer = ""
        try:
            if self._reme.chat is None:
                remember_response = False  # what stands in for an answer would be recalled as if it were one
                answer = _without_model(query, note, temporary_memories)
                yield answer
            else:
                system = _system(query, system_prompt, memory_prompt, note, temporary_memories)
                prompt = [Message(role="system", content=system), *shown, asked]
                async for piece in self._reme.chat.stream(prompt, purpose="chat"):
                    answer += piece
                    yield piece
            said = [asked, Message(role="assistant", content=answer, session_id=self.session_id)]
        except BaseException:
            self._turn.record_soon([asked], session_id=self.session_id)
            raise
        self.history.append(said[1])
        await self._turn.record(said if remember_response else [asked], session_id=self.session_id)
        memories = (*note.standing, *(hit.memory for hit in note.hits))
        self.last = ChatAnswer(answer, memories, note, tuple(prompt))

    def clear(self) -> None:
        """Forget what was said here, for the model's eyes; the memory keeps it. A new conversation begins."""
        self.history, self.last, self.session_id = [], None, new_id()

    async def aclose(self) -> None:
        """Deliver what waits. The memory stays open."""
        await self._turn.aclose()

    def _shown(self, strategy: Literal["auto"] | int | None) -> list[Message]:
        if strategy is None:
            return []
        if strategy != "auto":
            return self.history[-strategy:] if strategy > 0 else []
        shown: list[Message] = []
        left = HISTORY_TOKENS
        for message in reversed(self.history):
            left -= count_tokens(message.content)
            if left < 0:
                break
            shown.insert(0, message)
        return shown


def _system(query: str, system_prompt: str, memory_prompt: str, note: Note, temporary: Sequence[str]) -> str:
    language = _language(query)
    parts = [system_prompt or phrase("chat_system", language)]
    if note or temporary:
        parts.append(memory_prompt or phrase("chat_memory", language))
    if temporary:
        parts.append("\n".join(f"- {text}" for text in temporary))
    if note:
        parts.append(note.text)
    return "\n\n".join(parts)


def _without_model(query: str, note: Note, temporary: Sequence[str]) -> str:
    language = _language(query)
    known = [*temporary, *(m.content for m in note.standing), *(hit.content for hit in note.hits)]
    lines = [phrase("chat_offline", language)]
    if known:
        lines += [phrase("chat_remembered", language), *(f"- {text}" for text in known)]
    return "\n".join(lines)


def _language(query: str) -> Language:
    return "zh" if language_of(query) == "zh" else "en"
