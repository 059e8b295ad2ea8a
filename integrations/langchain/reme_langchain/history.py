"""`ReMeChatMessageHistory`: one conversation in the database, which is also what memories are made of."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final, Literal, Unpack

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, RemoveMessage, message_to_dict, messages_from_dict

from reme_core.errors import InputError, ReMeError
from reme_core.turn import (
    NOTE_METADATA,
    Client,
    Closing,
    OnError,
    ReMeLike,
    SpoolPlace,
    TurnMemory,
    check_session,
    decode_json,
    encode_json,
    refuse_unknown,
)
from reme_core.types import SCOPES, Message, Scope, new_id
from reme_langchain.convert import is_generated, to_message

log = logging.getLogger(__name__)

_FORM: Final = "langchain"  # in a message's metadata: what LangChain's message holds beside its words

_OPTIONS: Final = (
    "session_id", "database_url", "workspace_id", "client", "on_error", "write", "patience", "spool", *SCOPES,
)  # fmt: skip


class ReMeChatMessageHistory(BaseChatMessageHistory, Closing):
    """The messages of one conversation, for `RunnableWithMessageHistory` and for programs of your own.

    ```python
    history = ReMeChatMessageHistory("monday", "postgresql://…", "alice")
    history.add_user_message("My dog is called Rex.")
    ```

    It gives back what was added: each message, in order, with all that it holds. What people said in it is a source of
    memories like every other conversation in the workspace.

    Attributes:
        session_id: The conversation.
    """

    def __init__(
        self,
        session_id: str,
        database_url: ReMeLike = None,
        workspace_id: str | None = None,
        *,
        client: Client | None = None,
        on_error: OnError = "log",
        write: Literal["background", "awaited"] = "awaited",
        patience: float = 10.0,
        spool: SpoolPlace = "file",
        **scope: Unpack[Scope],
    ) -> None:
        """Say which conversation it is.

        Args:
            session_id: The conversation.
            database_url: A database URL or settings; None for what the environment says.
            workspace_id: The tenant. Default: `default`, which all share.
            client: An open `AsyncReMe` or `ReMe` in place of a URL; it is never closed here.
            on_error: `log` begins anew where memory fails, and delivers what was added later; `raise` fails.
            write: `awaited` waits until the database has what was added; in the `background` it is on its way there.
            patience: Seconds before memory counts as failed.
            spool: Where messages wait that the database has not taken yet.
            scope: `user_id`, `agent_id` and `run_id`, of whom the conversation is within the workspace.

        Raises:
            InputError: There is no such option, or a value does not fit, such as a `session_id` that is empty.
        """
        refuse_unknown(scope.keys() - set(SCOPES), known=_OPTIONS)
        if check_session(session_id) is None:
            raise InputError("session_id names the conversation, as in ReMeChatMessageHistory('monday')")
        if write not in ("background", "awaited"):
            raise InputError(f"write is 'awaited' or 'background', not {write!r}: a history keeps what is added")
        self.session_id = session_id
        self._turn = TurnMemory(
            database_url,
            workspace_id,
            client=client,
            kinds=(),
            on_error=on_error,
            write=write,
            patience=patience,
            spool=spool,
            **scope,
        )

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # LangChain allows a property for the attribute
        """All messages, in order; to be read only."""
        return self._turn.call(self.aget_messages)

    async def aget_messages(self) -> list[BaseMessage]:
        """All messages, in order."""
        try:
            return messages_from_dict([_form(message) for message in await self._messages()])
        except ReMeError as error:
            if self._turn.on_error == "raise":
                raise
            log.warning("a conversation begins anew: %s", error)
            return []

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages at the end."""
        self._turn.call(self.aadd_messages, messages)

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages at the end.

        Raises:
            InputError: A message holds what is no JSON, such as an artifact of a class; none was added.
            ReMeError: The database did not take them, and errors are raised. They are delivered later nevertheless.
        """
        await self._turn.keep([_row(message, self.session_id) for message in messages])

    def clear(self) -> None:
        """Erase the conversation, and with it the memories that rest on it."""
        self._turn.call(self.aclear)

    async def aclear(self) -> None:
        """Erase the conversation, and with it the memories that rest on it."""
        recorded = [message.message_id for message in await self._messages()]
        await self._turn.reme.erase_messages(self._turn.workspace_id, recorded)
        await self._turn.reme.working.erase(self._turn.workspace_id, self.session_id)

    async def aclose(self) -> None:
        """Deliver what waits, and close what was opened here."""
        await self._turn.aclose()

    def close(self) -> None:
        """`aclose` for code that does not await."""
        self._turn.close()

    async def _messages(self) -> list[Message]:
        return await self._turn.messages(self.session_id)


def _row(message: BaseMessage, session_id: str) -> Message:
    """A message with its whole form beside what memory is made of."""
    if isinstance(message, RemoveMessage):
        raise InputError("a RemoveMessage tells LangGraph to remove one, and cannot be kept; nothing was added")
    form = message_to_dict(message)
    try:
        if encode_json(message.content) == message.text:
            del form["data"]["content"]  # the words stand in one place only, from which they can be erased
        metadata = {_FORM: encode_json(form), **(NOTE_METADATA if is_generated(message) else {})}
    except TypeError as error:
        raise InputError(f"a message ({message.type}) cannot be kept: {error}; nothing was added") from None
    # A list may hold a message twice, so each gets an id of its own here; LangChain's own is kept in its form.
    return to_message(message, session_id).model_copy(update={"message_id": new_id(), "metadata": metadata})


def _form(message: Message) -> dict[str, Any]:
    """A message in the form that LangChain reads."""
    form: dict[str, Any] = decode_json(message.metadata.get(_FORM)) or {}
    return {"type": form.get("type", "human"), "data": {"content": message.content, **form.get("data", {})}}
