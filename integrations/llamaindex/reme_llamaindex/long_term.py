"""What `ReMeMemory` and `ReMeMemoryBlock` share: a connection that can be written down and made again.

LlamaIndex copies memories, writes them down and makes them again from their fields. A connection cannot be written
down, and a password must not be: so the address is, and the password is found again in this process or in the
environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Self

from llama_index.core.tools import BaseTool
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import BaseModel, Field, PrivateAttr, SecretStr, TypeAdapter

from reme_core.settings import Settings
from reme_core.store.translate import normalise_url
from reme_core.turn import TurnMemory
from reme_core.turn_options import ReMeLike, TurnOptions
from reme_llamaindex.tool_events import listen_to_tools
from reme_llamaindex.tools import memory_tools

_TURN_OPTIONS: Final = TypeAdapter(TurnOptions)
_NAMES: Final = frozenset(TurnOptions.__annotations__)
_passwords: dict[str, SecretStr] = {}


class Connected(BaseModel):
    """A model with a long-term memory, which connects by itself wherever it is made again."""

    workspace_id: str = "default"
    options: TurnOptions = Field(default_factory=TurnOptions)
    """How a turn uses memory, as far as it was said; `TurnMemory` has the defaults."""
    database: str | None = None
    """The connection string without its password; None is the embedded Postgres."""
    data_dir: Path | None = None
    """Where the embedded Postgres is, and what waits for the database."""
    _turn: TurnMemory | None = PrivateAttr(default=None)

    def __init__(self, reme: ReMeLike = None, workspace_id: str = "default", **options: Any) -> None:
        """Say whose memory it is.

        Args:
            reme: An open `AsyncReMe` or `ReMe`, settings, a database URL, or None for what the environment says.
            workspace_id: The tenant.
            options: What `TurnOptions` names, everything that LlamaIndex's own class takes, and, where this is made
                again from what was written down, its fields.
        """
        given = _TURN_OPTIONS.validate_python(
            options.pop("options", {}) | {name: options.pop(name) for name in _NAMES & options.keys()}
        )
        written = {name: options.pop(name) for name in ("database", "data_dir") if name in options}
        if reme is None and written:
            reme = _settings(written.get("database"), written.get("data_dir"))
        turn = TurnMemory(reme, workspace_id, **given)
        super().__init__(
            workspace_id=workspace_id,
            options=given,
            database=_address(turn.settings),
            data_dir=turn.settings.data_dir,
            **options,
        )
        self._turn = turn
        listen_to_tools()

    @property
    def turn(self) -> TurnMemory:
        """The long-term memory; where it was lost, as in a copy, it is made again."""
        if self._turn is None:
            self._turn = TurnMemory(_settings(self.database, self.data_dir), self.workspace_id, **self.options)
        return self._turn

    def tools(self) -> list[BaseTool]:
        """Tools with which an agent searches and changes its memory itself."""
        return memory_tools(self.turn)

    def __getstate__(self) -> dict[Any, Any]:
        """Everything but the connection."""
        turn, self._turn = self._turn, None
        try:
            return super().__getstate__()
        finally:
            self._turn = turn

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """One that connects anew."""
        turn, self._turn = self._turn, None
        try:
            return super().__deepcopy__(memo)
        finally:
            self._turn = turn

    async def aclose(self) -> None:
        """Deliver what waits, and disconnect; what is used again connects again."""
        if self._turn is not None:
            await self._turn.aclose()

    def close(self) -> None:
        """`aclose` for code that does not await."""
        if self._turn is not None:
            self._turn.call(self.aclose)
            self._turn.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()


def _address(settings: Settings) -> str | None:
    """The connection string without its password; None for the embedded Postgres, which its folder names."""
    if settings.database_url is None:
        return None
    place = _without_password(settings.database_url)
    _passwords[place] = settings.database_url
    return place


def _settings(place: str | None, data_dir: Path | str | None) -> Settings:
    """Settings that lead to the same database again; all else is as the environment says."""
    settings = Settings.load()
    if data_dir is not None:
        settings = settings.model_copy(update={"data_dir": Path(data_dir)})
    if place is None:
        return settings.model_copy(update={"database_url": None})
    known = _passwords.get(place)
    if known is None and settings.database_url is not None and _without_password(settings.database_url) == place:
        known = settings.database_url
    return settings.model_copy(update={"database_url": known or SecretStr(place)})


def _without_password(url: SecretStr) -> str:
    parts = conninfo_to_dict(normalise_url(url.get_secret_value()))
    return make_conninfo("", **{name: value for name, value in parts.items() if name != "password"})
