"""Secrets taken out of what is about to be stored, each replaced by a mark that says what stood there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel

from reme_core.text.secrets import rules_of

Given = TypeVar("Given")

# By these fields something is found again, so they stay as they are.
_NAMES: Final = frozenset(
    ("workspace_id", "memory_id", "message_id", "session_id", "user_id", "agent_id", "run_id", "episode_id", "task_id",
     "worker_id", "tool_call_id", "call_hash", "id", "author", "subject", "tool_name", "name", "superseded_by")
)  # fmt: skip


def redact(given: Given, kinds: Sequence[str]) -> Given:
    """Take secrets of some kinds out of the texts of a JSON value, message, memory, call or episode, or out of a text.

    The kinds are those of the setting `redact`. Names, ids and keys of objects stay.

    >>> redact("my card is 4242 4242 4242 4242", ["money"]), redact({"flight": "4111 1111 1111 1112"}, ["all"])
    ('my card is [card number]', {'flight': '4111 1111 1111 1112'})

    Raises:
        ConfigurationError: There is no such kind.
    """
    return cast(Given, _redact(given, kinds)) if kinds else given


def _redact(given: Any, kinds: Sequence[str]) -> Any:
    # Not `isinstance`: the members of `Kind` and `Status` are strings too, and stay.
    if type(given) is str:
        return _redact_text(given, kinds)
    if isinstance(given, BaseModel):
        clean = {name: _redact(value, kinds) for name, value in given if name not in _NAMES}
        return given.model_copy(update=clean)
    if isinstance(given, dict):
        return {key: _redact(value, kinds) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return type(given)(_redact(value, kinds) for value in given)
    return given


def _redact_text(text: str, kinds: Sequence[str]) -> str:
    for rule in rules_of(tuple(kinds)):
        parts, done = [], 0
        for begin, end in rule.find(text):
            parts += [text[done:begin], f"[{rule.kind.replace('_', ' ')}]"]
            done = end
        text = "".join([*parts, text[done:]])
    return text
