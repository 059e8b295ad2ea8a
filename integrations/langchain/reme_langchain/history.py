"""`ReMeChatMessageHistory`: a LangChain chat history in the database, of which memories are made too."""

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
from reme_langchain.convert import is_generated, to_langchain, to_message

log = logging.getLogger(__name__)

_FORM: Final = "langchain"  # the key in a message's metadata for all that LangChain's message has besides its words

_OPTIONS: Final = (
    "session_id", "database_url", "workspace_id", "client", "on_error", "write", "patience", "spool", *SCOPES,
)  # fmt: skip


class ReMeChatMessageHistory(BaseChatMessageHistory, Closing):
    """The messages of one conversation, for `RunnableWithMessageHistory` or for your own code.

    ```python
    history = ReMeChatMessageHistory("monday", "postgresql://…", "alice")
    history.add_user_message("My dog is called Rex.")
    ```

    It gives back all messages as they were added, in order. Memories are made of it as of every other conversation in
    the workspace.

    Attributes:
        session_id: The id of the conversation.
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
        """Choose the conversation.

        Args:
            session_id: The id of the conversation.
            database_url: A database URL or settings; None for the settings of the environment.
            workspace_id: The workspace. By default all users share the workspace `default`.
            client: An open `AsyncReMe` or `ReMe` in place of a URL; it is never closed here.
            on_error: If memory fails, `log` gives an empty history, and delivers added messages later; `raise` raises.
            write: `awaited` returns when the database has the added messages; `background` returns at once.
            patience: How many seconds to wait before memory counts as failed.
            spool: Where messages wait until the database has them; see `TurnOptions`.
            scope: `user_id`, `agent_id` and `run_id`: to whom the conversation belongs within the workspace.

        Raises:
            InputError: An option is unknown, or a value does not fit, such as an empty `session_id`.
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
            InputError: A message has a value that is not JSON, such as an object as artifact; none was added.
            ReMeError: `on_error` is `raise`, and the database did not take the messages. They are delivered later.
        """
        await self._turn.keep([_row(message, self.session_id) for message in messages])

    def clear(self) -> None:
        """Erase the conversation, and the memories that have it as evidence."""
        self._turn.call(self.aclear)

    async def aclear(self) -> None:
        """Erase the conversation, and the memories that have it as evidence."""
        recorded = [message.message_id for message in await self._messages()]
        await self._turn.reme.erase_messages(self._turn.workspace_id, recorded)
        await self._turn.reme.working.erase(self._turn.workspace_id, self.session_id)

    async def aclose(self) -> None:
        """Deliver what waits, and close the connection if it was opened here."""
        await self._turn.aclose()

    async def _messages(self) -> list[Message]:
        return await self._turn.messages(self.session_id)


def _row(message: BaseMessage, session_id: str) -> Message:
    """A `Message` to record, with LangChain's whole message in its metadata."""
    if isinstance(message, RemoveMessage):
        raise InputError("a RemoveMessage tells LangGraph to remove one, and cannot be kept; nothing was added")
    row, form = to_message(message, session_id), message_to_dict(message)
    try:
        if encode_json(message.content) == row.content:
            del form["data"]["content"]  # the words are stored in one place only, where they can be erased
        metadata = {_FORM: encode_json(form), **(NOTE_METADATA if is_generated(message) else {})}
    except TypeError as error:
        raise InputError(f"a message ({message.type}) cannot be kept: {error}; nothing was added") from None
    # The same message may be added twice, so each gets a new id; LangChain's id is kept in the metadata.
    return row.model_copy(update={"message_id": new_id(), "metadata": metadata})


def _form(message: Message) -> dict[str, Any]:
    """A recorded message in the form that `messages_from_dict` reads."""
    form: dict[str, Any] = decode_json(message.metadata.get(_FORM)) or message_to_dict(to_langchain(message))
    return {"type": form["type"], "data": {"content": message.content, **form["data"]}}
