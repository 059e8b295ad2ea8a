"""Counts of what a `TurnMemory` did, and of the tokens that chat models used for it."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakValueDictionary

from reme_core.models import ModelCall


@dataclass(slots=True)
class Counts:
    """What a `TurnMemory` did since it was made."""

    recalls: int = 0
    """Turns for which the database was searched."""
    reused: int = 0
    """How often a turn asked again and got the same note."""
    records: int = 0
    """Turns whose messages the database has stored."""
    messages: int = 0
    """New messages that the database has stored."""
    tool_calls: int = 0
    """Tool calls that the database has stored."""
    failures: int = 0
    """Recalls and deliveries that failed; a failed delivery is tried again."""
    refused: int = 0
    """Turns that were not accepted, most likely because too many wait already; the log says why."""
    set_aside: int = 0
    """Turns, or parts of turns, that the database refuses for good; `reme spool list` shows them."""
    at_risk: int = 0
    """Turns that a crash would lose now: they wait in memory only, because the spool's file cannot be written."""
    note_tokens: int = 0
    """Tokens of all notes together."""


@dataclass(slots=True, weakref_slot=True)
class Usage:
    """Tokens and calls of the chat models that worked for memory: read conversations, wrote summaries."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0

    def take(self) -> Usage:
        """What was counted since the last call of this method."""
        taken = Usage(self.prompt_tokens, self.completion_tokens, self.calls)
        self.prompt_tokens = self.completion_tokens = self.calls = 0
        return taken


class UsageByWorkspace:
    """The usage of chat models for each watched workspace."""

    def __init__(self) -> None:
        self._spent = WeakValueDictionary[str, Usage]()

    def begin(self, workspace: str) -> Usage:
        """Count for a workspace from now on, for as long as somebody holds what this returns."""
        return self._spent.setdefault(workspace, Usage())

    def count_call(self, workspace: str, call: ModelCall) -> None:
        """Count a model call, if it is one of a chat model and for a watched workspace."""
        spent = self._spent.get(workspace)
        if spent is not None and not call.purpose.startswith(("embed", "rerank")):
            spent.prompt_tokens += call.prompt_tokens
            spent.completion_tokens += call.completion_tokens
            spent.calls += 1
