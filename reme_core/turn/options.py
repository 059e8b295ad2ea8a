"""The options of a turn: keyword arguments that every adapter takes and passes on to `TurnMemory`, and their checks.

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

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, get_args

from typing_extensions import TypedDict  # Pydantic wants this one before Python 3.12

from reme_core.errors import ConfigurationError, InputError, did_you_mean
from reme_core.settings import Settings
from reme_core.store.recall import MAX_HITS
from reme_core.store.rows import check_text
from reme_core.types import SCOPES
from reme_core.working.window import CountTokens, tokenizer_of

log = logging.getLogger(__name__)

OnError = Literal["log", "raise"]
Write = Literal["background", "awaited", "off"]
SpoolPlace = Literal["file", "memory"] | Path
Position = Literal["user", "system"]
"""The place of a note in a prompt: beside the user's last message, or in the system message."""


class TurnOptions(TypedDict, total=False):
    """How a turn uses memory; `DEFAULTS` has the default values."""

    kinds: Sequence[str]
    """What to recall: `personal`, `task`, `tool`, `conversation` (messages, word for word), or single kinds. If it is
    empty, a note has standing memories only. With `tool`, the framework's tool calls are recorded too."""
    top_k: int
    """How many memories a note has at most; it has at most as many messages besides."""
    min_relevance: float | None
    """A chance from 0 to 1. If it is less likely than this that anything fits the question, a note has standing
    memories only; so a mere "hi" recalls nothing. With None it is .4, or .2 for an embedding model other than the
    offline one, with which relevance is less certain."""
    user_id: str
    """The person within the workspace. What is recorded belongs to this person, and nothing else is recalled."""
    agent_id: str
    """The same for an agent."""
    run_id: str
    """The same for a run."""
    filters: Mapping[str, Any] | None
    """Only what passes these filters is recalled: `subject`, `author`, `session_id`, `metadata`, `happened` … as in
    `recall`. With `{"agent_id": None}` the memories of all agents are recalled."""
    token_budget: int
    """How many tokens a note has at most."""
    position: Position
    """Where a note stands: beside the `user`'s last message, or in the `system` message. A system message that changes
    with each note cannot come from a provider's cache."""
    on_error: OnError
    """If memory fails: `log` lets the turn go on without memory, `raise` lets it fail."""
    write: Write
    """How a turn is written to the database: in the `background`, after a file on the disk has it; `awaited`, so that
    the turn ends when the database has it; or not at all (`off`)."""
    patience: float
    """How many seconds a turn waits for a recall, or for a write, before memory counts as failed."""
    spool: SpoolPlace
    """Where turns wait until the database has them: in a `file` under `data_dir`, in the file of a given `Path`, whose
    name ends in `.sqlite3`, or in `memory` only."""
    window: int | None
    """How many tokens the conversation may take of the model's window. What is left out is stored and can be read back.
    With None the model is shown the whole conversation."""


DEFAULTS: Final[TurnOptions] = {
    "kinds": ("personal", "conversation"),
    "top_k": 5,
    "min_relevance": None,
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
"""The options of every adapter. In some, the framework names the conversation and there is no `session_id`."""
_MEANT: Final = {
    **dict.fromkeys(("reme", "connection"), "client"),
    **dict.fromkeys(("url", "uri", "dsn", "connection_string", "conn_string"), "database_url"),
    **dict.fromkeys(("user", "tenant", "tenant_id", "workspace"), "workspace_id"),
    **dict.fromkeys(("session", "thread_id", "conversation_id"), "session_id"),
    **dict.fromkeys(("model", "model_client", "llm", "chat", "summary_model"), "chat_model"),
    **dict.fromkeys(("k", "limit", "max_results", "similarity_top_k"), "top_k"),
    **dict.fromkeys(("max_tokens", "token_limit"), "token_budget"),
    **dict.fromkeys(("threshold", "min_score", "score_threshold", "similarity_cutoff"), "min_relevance"),
    **dict.fromkeys(("person", "person_id"), "user_id"),
    "timeout": "patience",
}
_told: set[str] = set()


def refuse_unknown(given: Iterable[str], *more: str, known: Iterable[str] = ALL_OPTIONS) -> None:
    """Raise an error if there are unknown options; it names the first of them, and the option that is likely meant.

    Args:
        given: The names of the unknown options.
        more: Further options of the caller, besides `known`.
        known: The options of the caller; by default those of all adapters.

    Raises:
        InputError: `given` is not empty.
    """
    unknown = sorted(given)
    names = [name for name in (*known, *more) if name not in unknown]
    for name in unknown:
        others, meant = f"there are {', '.join(names)}", _MEANT.get(name)
        # An option of other adapters, which this caller does not take, is no typing error.
        is_others = name in ALL_OPTIONS
        hint = others if is_others else did_you_mean(meant if meant in names else name, names, others)
        raise InputError(f"there is no option {name!r}; {hint}")


_CHOICES: Final = {"on_error": get_args(OnError), "write": get_args(Write), "position": get_args(Position)}
_COUNTS: Final = ("top_k", "token_budget", "window")
_MOST_TOP_K: Final = MAX_HITS // 2  # a turn looks for twice as many messages, since the model sees some of them anyway


def complete_options(options: TurnOptions) -> TurnOptions:
    """The options given, and the defaults of the others.

    Raises:
        InputError: An option is unknown, or a value does not fit.
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
    if complete["top_k"] > _MOST_TOP_K:
        raise InputError(f"top_k is {_MOST_TOP_K} at most, not {complete['top_k']}: all of it is put before a model")
    if not _is_number(patience := values["patience"]) or not patience > 0:
        raise InputError(f"patience is a positive number of seconds, not {patience!r}")
    if values["min_relevance"] is not None:
        check_chance("min_relevance", values["min_relevance"])
    for name in SCOPES:
        if isinstance(values[name], str) and values[name].isspace():
            raise InputError(f"{name} is blank; leave it out if what is recorded belongs to nobody in particular")
    if not isinstance(filters := values["filters"], Mapping | None):
        raise InputError(f"filters are a dict such as {{'subject': 'Ann'}}, not {filters!r}")
    if not isinstance(spool := values["spool"], Path) and spool not in ("file", "memory"):
        raise InputError(f"spool is 'file', 'memory' or the Path of a file, not {spool!r}")
    return complete


def check_count(name: str, value: Any) -> int:
    """Return a count as it is.

    Raises:
        InputError: It is not a whole number, or less than 1.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name} is a whole number, 1 or more; not {value!r}")
    return value


def check_chance(name: str, value: Any) -> float:
    """Return a chance as it is.

    Raises:
        InputError: It is not a number from 0 to 1.
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
    """Check that a `chat_model` is a model of the framework.

    Raises:
        InputError: It is an instance of none of these classes.
    """
    if not isinstance(model, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise InputError(f"chat_model is a {wanted}, not {model!r:.60}")


def check_count_tokens(count_tokens: CountTokens | None, window: int | None) -> None:
    """Check a tokenizer, if one was given.

    Raises:
        InputError: It cannot be called, or there is no `window`, so that it would not be used.
    """
    tokenizer_of(count_tokens)
    if count_tokens is not None and window is None:
        raise InputError("count_tokens counts what fits a window; give window=… too")


def check_session(session_id: str | None) -> str | None:
    """Return the name of a conversation as it is.

    Raises:
        InputError: It is not a text that Postgres can store, or a blank one.
    """
    if session_id is not None:
        if not isinstance(session_id, str) or not session_id.strip():
            raise InputError(f"{session_id!r} cannot name a conversation; leave session_id out to begin a new one")
        check_text("session_id", session_id)
    return session_id


def name_workspace(workspace_id: str | None, settings: Settings) -> str:
    """The given workspace, or the default one, which all users share; using it is logged once in a process.

    Raises:
        ConfigurationError: No workspace was given, and the settings do not allow the default one.
    """
    if workspace_id is not None:
        return workspace_id
    if not settings.allow_default_workspace:
        raise ConfigurationError("name the workspace: workspace_id=…; the setting allow_default_workspace is off")
    if DEFAULT_WORKSPACE not in _told:
        _told.add(DEFAULT_WORKSPACE)
        log.warning("all users share the workspace %r; pass workspace_id to keep them apart", DEFAULT_WORKSPACE)
    return DEFAULT_WORKSPACE
