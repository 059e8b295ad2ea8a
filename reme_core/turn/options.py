"""How a turn uses memory, as the keyword arguments that every adapter takes and hands on to `TurnMemory`.

```python
def __init__(
    self,
    database_url: ReMeLike = None,
    workspace_id: str | None = None,
    *,
    client: Client | None = None,
    session_id: str | None = None,
    **options: Unpack[TurnOptions],
) -> None:
    self.turn = TurnMemory(database_url, workspace_id, client=client, **options)
    self.session_id = check_session(session_id) or new_id()
```
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, get_args

from typing_extensions import TypedDict  # Pydantic wants this one before Python 3.12

from reme_core.errors import ConfigurationError, InputError
from reme_core.settings import Settings
from reme_core.turn.connections import Client, ReMeLike

__all__ = [
    "Client",
    "OnError",
    "Position",
    "ReMeLike",
    "SpoolPlace",
    "TurnOptions",
    "Write",
    "check_chance",
    "check_count",
    "check_count_tokens",
    "check_flag",
    "check_model",
    "check_session",
    "name_workspace",
    "refuse_unknown",
]

log = logging.getLogger(__name__)

OnError = Literal["log", "raise"]
Write = Literal["background", "awaited", "off"]
SpoolPlace = Literal["file", "memory"] | Path
Position = Literal["user", "system"]
"""Where a note stands in a prompt: beside the user's last message, or in the system message."""


class TurnOptions(TypedDict, total=False):
    """How a turn uses memory; `DEFAULTS` has what holds where nothing else is said."""

    kinds: Sequence[str]
    """What to recall: `personal`, `task`, `tool`, `conversation` (what was said, word for word), or single kinds;
    without any, standing memories alone. With `tool`, calls of the framework's tools are recorded too."""
    top_k: int
    """Memories, and as many messages, that a note holds at the most."""
    min_relevance: float
    """The chance that anything fits the question, 0 to 1, below which a note has standing memories alone: "hi" brings
    nothing."""
    user_id: str
    """The person within the workspace: what is recorded is of them, and only what is of them is recalled."""
    agent_id: str
    """The same of an agent."""
    run_id: str
    """The same of a run."""
    filters: Mapping[str, Any] | None
    """What alone is recalled, as `recall` names it: `subject`, `author`, `session_id`, `metadata`, `happened` … With
    `agent_id` None, what is of any agent."""
    token_budget: int
    """Tokens that a note takes at the most."""
    position: Position
    """Where a note stands: beside the last message of the `user`, or in the `system` message, which providers then
    cannot take from their cache any more."""
    on_error: OnError
    """`log` lets a turn go on without memory, `raise` lets it fail."""
    write: Write
    """When a turn is written: in the `background`, once it is safe from a crash; `awaited`; or `off`."""
    patience: float
    """Seconds that a turn waits for memory, recalling or writing, before it counts as failed."""
    spool: SpoolPlace
    """Where turns wait that the database has not taken yet: a `file` of ours or a given one, or `memory` alone."""
    window: int | None
    """Tokens that the conversation may take of the model's window; what is too much is kept, and can be read back. None
    shows the model all of it."""


DEFAULTS: Final[TurnOptions] = {
    "kinds": ("personal", "conversation"),
    "top_k": 5,
    "min_relevance": 0.05,
    "user_id": "",
    "agent_id": "",
    "run_id": "",
    "filters": None,
    "token_budget": 800,
    "position": "user",
    "on_error": "log",
    "write": "background",
    "patience": 10.0,
    "spool": "file",
    "window": None,
}
DEFAULT_WORKSPACE: Final = "default"
ALL_OPTIONS: Final = ("database_url", "client", "workspace_id", "session_id", "chat_model", *DEFAULTS)
"""What every adapter takes, save that a conversation has its name elsewhere in some."""
_MEANT: Final = {
    **dict.fromkeys(("reme", "connection"), "client"),
    **dict.fromkeys(("url", "uri", "dsn", "connection_string", "conn_string"), "database_url"),
    **dict.fromkeys(("user", "tenant", "tenant_id", "workspace"), "workspace_id"),
    **dict.fromkeys(("session", "thread_id", "conversation_id"), "session_id"),
    **dict.fromkeys(("model", "model_client", "llm", "chat", "summary_model"), "chat_model"),
    **dict.fromkeys(("k", "limit", "max_results", "similarity_top_k"), "top_k"),
}
_told: set[str] = set()


def refuse_unknown(given: Iterable[str], *more: str, known: Iterable[str] = ALL_OPTIONS) -> None:
    """Raise an error for the first of the options `given`, none of which there is, with the name that is likely meant.

    Args:
        given: The names of options that nothing takes.
        more: Options that there are besides the `known`.
        known: Options that there are: those of all adapters.

    Raises:
        InputError: There is one.
    """
    unknown = sorted(given)
    names = [name for name in (*known, *more) if name not in unknown]
    for name in unknown:
        meant = _MEANT.get(name)
        near = [meant] if meant in names else difflib.get_close_matches(name, names, n=1)
        if name in ALL_OPTIONS:  # which is no slip, but is not for this
            near = []
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
        raise InputError(f"there is no option {name!r}; {hint}")


_CHOICES: Final[dict[str, tuple[object, ...]]] = {
    "on_error": get_args(OnError),
    "write": get_args(Write),
    "position": get_args(Position),
}


_COUNTS: Final = ("top_k", "token_budget", "window")


def complete_options(options: TurnOptions) -> TurnOptions:
    """The options given, and the defaults of the others.

    Raises:
        InputError: There is no such option, or a value does not fit.
    """
    refuse_unknown(options.keys() - DEFAULTS.keys())
    complete: TurnOptions = {**DEFAULTS, **options}
    values: Mapping[str, Any] = complete
    for name, choices in _CHOICES.items():
        if values[name] not in choices:
            raise InputError(f"{name} is {' or '.join(map(repr, choices))}, not {values[name]!r}")
    for name in _COUNTS:
        if (name, values[name]) != ("window", None):
            check_count(name, values[name])
    if not _is_number(patience := values["patience"]) or not patience > 0:
        raise InputError(f"patience is a positive number of seconds, not {patience!r}")
    check_chance("min_relevance", values["min_relevance"])
    if not isinstance(filters := values["filters"], Mapping | None):
        raise InputError(f"filters are a dict such as {{'subject': 'Ann'}}, not {filters!r}")
    if not isinstance(spool := values["spool"], Path) and spool not in ("file", "memory"):
        raise InputError(f"spool is 'file', 'memory' or the Path of a file, not {spool!r}")
    return complete


def check_count(name: str, value: Any) -> int:
    """Return a number of things as it is.

    Raises:
        InputError: It is no whole number, or less than 1.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name} is a whole number, 1 or more; not {value!r}")
    return value


def check_chance(name: str, value: Any) -> float:
    """Return a chance as it is.

    Raises:
        InputError: It is no number from 0 to 1.
    """
    if not _is_number(value) or not 0 <= value <= 1:
        raise InputError(f"{name} is a chance, between 0 and 1, not {value!r}")
    return float(value)


def check_flag(name: str, value: Any) -> bool:
    """Return a flag as it is.

    Raises:
        InputError: It is neither True nor False.
    """
    if not isinstance(value, bool):
        raise InputError(f"{name} is True or False, not {value!r}")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_model(model: object, *kinds: type) -> None:
    """Check that a `chat_model` is one of the framework's.

    Raises:
        InputError: It is none of these kinds.
    """
    if not isinstance(model, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise InputError(f"chat_model is a {wanted}, not {model!r:.60}")


def check_count_tokens(count_tokens: object, window: int | None) -> None:
    """Check a tokenizer, if one was given.

    Raises:
        InputError: It cannot be called, or there is no window for which it would count.
    """
    if count_tokens is None:
        return
    if not callable(count_tokens):
        raise InputError(f"count_tokens is a function from a text to its number of tokens, not {count_tokens!r:.60}")
    if window is None:
        raise InputError("count_tokens counts what fits a window; give window=… too")


def check_session(session_id: str | None) -> str | None:
    """Return the name of a conversation as it is.

    Raises:
        InputError: It is empty, or no text.
    """
    if session_id is not None and (not isinstance(session_id, str) or not session_id.strip()):
        raise InputError(f"{session_id!r} cannot name a conversation; leave session_id out to begin a new one")
    return session_id


def name_workspace(workspace_id: str | None, settings: Settings) -> str:
    """The workspace that is meant: the one given, else the one that all share, which is logged once in a process.

    Raises:
        ConfigurationError: None was given, and the settings want one.
    """
    if workspace_id is not None:
        return workspace_id
    if not settings.allow_default_workspace:
        raise ConfigurationError("name the workspace: workspace_id=…; the setting allow_default_workspace is off")
    if DEFAULT_WORKSPACE not in _told:
        _told.add(DEFAULT_WORKSPACE)
        log.warning("all users share the workspace %r; pass workspace_id to keep them apart", DEFAULT_WORKSPACE)
    return DEFAULT_WORKSPACE
