"""`Turn`: memory for a plain loop around a chat model, without any agent framework."""

from __future__ import annotations

from typing import Any, Self

from typing_extensions import Unpack

from reme_core.errors import InputError
from reme_core.prompts.note import Note
from reme_core.text.chat_format import MessageLike, read_messages
from reme_core.text.ids import ConversationIds
from reme_core.turn.connections import Client
from reme_core.turn.memory import TurnMemory
from reme_core.turn.options import TurnOptions, check_session
from reme_core.types import Message


class Turn:
    """One turn of a conversation: it recalls at the beginning of the block, and records at its end.

    ```python
    with Turn(reme, "alice", messages) as turn:  # or `async with`
        reply = client.chat.completions.create(model=MODEL, messages=turn.prompt)
        messages.append({"role": "assistant", "content": reply.choices[0].message.content})
    ```

    At the end of the block, the messages from the user's last one on are recorded, with tool calls and their results.
    Earlier messages were recorded in their own turns. If the block ends with an error, its messages are recorded too.

    Attributes:
        note: The note of this turn; its `text` is empty if nothing was recalled.
        prompt: The messages to send to the model. The note stands before the words of the user's last message or, with
            `position="system"`, in a system message after those at the head.
    """

    def __init__(
        self,
        reme: Client,
        workspace: str,
        messages: list[Any],
        *,
        session_id: str = "",
        **options: Unpack[TurnOptions],
    ) -> None:
        """Prepare a turn; the block runs it.

        Args:
            reme: The memory, a `ReMe` or an `AsyncReMe`.
            workspace: The workspace.
            messages: The conversation so far, as chat APIs take it, with the user's question last. Append the model's
                answer to it inside the block; this class does not change it.
            session_id: The id of the conversation. With it, a turn that runs again is still recorded once.
            options: The options of `TurnMemory`, without `window`; here `write` is `awaited` by default.

        Raises:
            InputError: An option, or a message, does not fit.
        """
        if not isinstance(messages, list):
            raise InputError(f"messages is the list to which the answer is appended, not {messages!r:.80}")
        if options.get("window") is not None:
            raise InputError("a Turn shows the model all messages it is given; give it those that fit (working.fit)")
        if not isinstance(workspace, str):  # an adapter may be given none: then all users share one
            raise InputError(f"workspace is a text, such as the id of the user, not {workspace!r:.60}")
        self._messages: list[MessageLike] = messages
        self._session_id = check_session(session_id or None) or ""
        given: TurnOptions = {"write": "awaited", **options}
        self._memory = TurnMemory(client=reme, workspace_id=workspace, **given)
        self._begin = 0
        self._asked: list[Message] = []
        self.note = Note()
        self.prompt: list[Any] = []

    async def __aenter__(self) -> Self:
        said = self._read()
        self._begin = max((n for n, message in enumerate(said) if message.role == "user"), default=0)
        self._asked = said[self._begin :]
        try:
            self.note = await self._memory.begin(said, session_id=self._session_id)
        except BaseException:
            # `__aexit__` will not be called, and what the user said is kept all the same.
            self._memory.record_soon(self._asked, session_id=self._session_id)
            await self._memory.aclose()
            raise
        self.prompt = self._prompt(said) if self.note.text else list(self._messages)
        return self

    async def __aexit__(self, *exception: object) -> None:
        said = self._asked
        try:
            said = self._read()[self._begin :]
        finally:  # what the user said is recorded also if something else was appended that is no message
            try:
                await self._memory.record(said, session_id=self._session_id)
            finally:
                await self._memory.aclose()

    def __enter__(self) -> Self:
        return self._memory.call(self.__aenter__)

    def __exit__(self, *exception: object) -> None:
        self._memory.call(self.__aexit__, *exception)

    def _prompt(self, said: list[Message]) -> list[Any]:
        note, prompt = self.note.text, list(self._messages)
        asked = prompt[self._begin] if any(message.role == "user" for message in said) else None
        if self._memory.position == "user" and isinstance(asked, dict):
            words = asked.get("content") or ""
            shown = f"{note}\n\n{words}" if isinstance(words, str) else [{"type": "text", "text": note}, *words]
            prompt[self._begin] = {**asked, "content": shown}
        else:
            leading = next((n for n, message in enumerate(said) if message.role != "system"), len(said))
            prompt.insert(leading, {"role": "system", "content": note})
        return prompt

    def _read(self) -> list[Message]:
        said = read_messages(self._messages)
        if not self._session_id:
            return said
        ids = ConversationIds(self._session_id, self._memory.scope["user_id"])
        named = [ids.name(message) for message in said]
        return [m if "message_id" in m.model_fields_set else n for m, n in zip(said, named, strict=True)]
