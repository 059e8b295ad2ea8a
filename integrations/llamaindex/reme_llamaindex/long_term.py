"""The common base of `ReMeMemory` and `ReMeMemoryBlock`: a connection that survives copying and serialising.

LlamaIndex copies memories, serialises them, and makes them again from their fields. A copy has the settings of the
original. A connection cannot be serialised, and a password must not be. So only the address is, and what `redact` takes
out; the password comes from this process or from the environment, the other settings from the environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from llama_index.core.llms import LLM
from llama_index.core.tools import BaseTool
from pydantic import BaseModel, Field, PrivateAttr, SecretStr

from reme_core.settings import Settings
from reme_core.turn import (
    Client,
    Closing,
    ReMeLike,
    TurnMemory,
    TurnOptions,
    also_redact,
    refuse_unknown,
    without_password,
)
from reme_llamaindex.convert import as_chat
from reme_llamaindex.run_events import listen_to_runs
from reme_llamaindex.tools import memory_tools

_NAMES: Final = frozenset(TurnOptions.__annotations__)
_passwords: dict[str, SecretStr] = {}


class LongTermMemory(BaseModel, Closing):
    """A Pydantic model with a long-term memory; each deep copy connects at its first use."""

    workspace_id: str = "default"
    options: TurnOptions = Field(default_factory=TurnOptions)
    """The given options of a turn; `TurnMemory` has the defaults."""
    database: str | None = None
    """The connection string without its password; None is the embedded Postgres."""
    data_dir: Path | None = None
    """The folder of the embedded Postgres and of the spool."""
    redact: list[str] = Field(default_factory=list)
    """The kinds of secrets that are taken out of what is stored; the settings of the environment may add to them."""
    _turn: TurnMemory | None = PrivateAttr(default=None)

    def __init__(
        self,
        database_url: ReMeLike = None,
        workspace_id: str | None = None,
        *,
        client: Client | None = None,
        chat_model: LLM | None = None,
        **options: Any,
    ) -> None:
        """Choose the workspace, and how a turn uses its memory, by the options of the two classes that have this base.

        Deserialising gives the fields of this class too. What is deserialised has no `chat_model` of its own.

        Raises:
            InputError: An option is unknown, or a value does not fit.
        """
        given: TurnOptions = {**options.pop("options", {})}  # type: ignore[typeddict-item]  # checked by `TurnMemory`
        if given.get("spool", "file") not in ("file", "memory"):
            given["spool"] = Path(given["spool"])  # a text after deserialising
        given |= {name: options.pop(name) for name in _NAMES & options.keys()}  # type: ignore[typeddict-item]  # likewise
        if not options.keys().isdisjoint(("database", "data_dir")):  # it was serialised
            written = [options.pop(name, None) for name in ("database", "data_dir", "redact")]
            if database_url is client is None:
                database_url = _settings(*written)
        own = [name for name in type(self).model_fields if name not in LongTermMemory.model_fields]
        refuse_unknown(options.keys() - {"class_name", *own}, *own)
        chat = as_chat(chat_model) if chat_model is not None else None
        turn = TurnMemory(database_url, workspace_id, client=client, chat=chat, **given)
        super().__init__(
            workspace_id=turn.workspace_id,
            options=given,
            database=_address(turn.settings),
            data_dir=turn.settings.data_dir,
            redact=turn.settings.redact,
            **options,
        )
        self._turn = turn
        listen_to_runs()

    @property
    def turn(self) -> TurnMemory:
        """The long-term memory; each deep copy has its own."""
        if self._turn is None:
            settings = _settings(self.database, self.data_dir, self.redact)
            self._turn = TurnMemory(settings, self.workspace_id, **self.options)
        return self._turn

    def tools(self) -> list[BaseTool]:
        """The memory tools, for agents that search and change their memory themselves."""
        return memory_tools(self.turn)

    def __getstate__(self) -> dict[Any, Any]:
        """The state without the connection."""
        turn, self._turn = self._turn, None
        try:
            return super().__getstate__()
        finally:
            self._turn = turn

    def __setstate__(self, state: dict[Any, Any]) -> None:
        """Make the memory again, with the messages that are to be recorded."""
        super().__setstate__(state)  # LlamaIndex makes it of its fields alone
        kept = state["__pydantic_private__"] or {}
        for name in kept.keys() - {"_turn"}:
            setattr(self, name, kept[name])

    async def aclose(self) -> None:
        """Deliver what waits, and disconnect; the next use connects again."""
        if self._turn is not None:
            await self._turn.aclose()


def _address(settings: Settings) -> str | None:
    """The connection string without its password, which is kept in this process; None for the embedded Postgres."""
    if settings.database_url is None:
        return None
    place = without_password(settings.database_url.get_secret_value())
    _passwords[place] = settings.database_url
    return place


def _settings(place: str | None, data_dir: Path | str | None, redact: Sequence[str] | None) -> Settings:
    """The settings of the environment, with this database and data folder, which take these secrets out too."""
    settings = also_redact(Settings.load(), redact or ())
    if data_dir is not None:
        settings = settings.model_copy(update={"data_dir": Path(data_dir)})
    if place is None:
        return settings.model_copy(update={"database_url": None})
    known = _passwords.get(place)
    url = settings.database_url
    if known is None and url is not None and without_password(url.get_secret_value()) == place:
        known = url
    return settings.model_copy(update={"database_url": known or SecretStr(place)})
