"""What a turn's memory did, and what chat models used for it."""

from __future__ import annotations

from dataclasses import dataclass

from reme_core.models import ModelCall


@dataclass(slots=True)
class Counts:
    """What a `TurnMemory` did since it was made."""

    recalls: int = 0
    """Turns for which the database was searched."""
    reused: int = 0
    """Times a turn asked again and got the note it had."""
    records: int = 0
    """Turns whose messages the database took."""
    messages: int = 0
    """Messages among them that were new to it."""
    tool_calls: int = 0
    """Calls of tools that the database took."""
    failures: int = 0
    """Recalls and deliveries that failed; what was not delivered waits and is tried again."""
    refused: int = 0
    """Turns that were not taken, since too many wait already."""
    set_aside: int = 0
    """Turns, or single messages of them, that the database refuses for good; `reme spool list` shows them."""
    at_risk: int = 0
    """Turns that wait in memory alone now, since their file cannot be written: a crash would lose them."""
    note_tokens: int = 0
    """Tokens of all notes together."""


@dataclass(slots=True)
class Usage:
    """What chat models did for memory: rewriting queries, making summaries."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0


class UsageByWorkspace:
    """What chat models used for each workspace that is accounted for, since it was last taken."""

    def __init__(self) -> None:
        self._spent: dict[str, Usage] = {}

    def begin(self, workspace: str) -> None:
        """Account for a workspace from now on."""
        self._spent.setdefault(workspace, Usage())

    def take(self, workspace: str) -> Usage:
        """What was used since the last call of this."""
        spent, self._spent[workspace] = self._spent[workspace], Usage()
        return spent

    def add(self, workspace: str, call: ModelCall) -> None:
        """Count a call of a chat model; those of other models, and for other workspaces, are passed over."""
        spent = self._spent.get(workspace)
        if spent is not None and not call.purpose.startswith(("embed", "rerank")):
            spent.prompt_tokens += call.prompt_tokens
            spent.completion_tokens += call.completion_tokens
            spent.calls += 1
