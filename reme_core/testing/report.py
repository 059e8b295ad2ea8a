"""The rules for all adapters, and the report on how an adapter keeps them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Rule(enum.Enum):
    """A rule that every adapter must keep, whatever its framework."""

    MEMORY = "What is said in one conversation is recalled in another one, but in no other workspace."
    ASYNC_AND_SYNC = "It works in any event loop, and without one if the framework has synchronous calls."
    RECALL_ONCE = "A turn recalls once; only the model sees the note, beside the user's words or in the system prompt."
    DELTA = "Only new messages are written, once and word for word, and no notes."
    SPEAKER = "The author of a message is the agent that said it, and its role stays."
    DURABLE = "A cancelled turn loses nothing that was said."
    ON_ERROR = "If memory fails, the turn ends only with on_error='raise', and the messages are written later."
    OPTIONS = "Unknown options and wrong values are refused when the memory is made; the error names the right option."
    OWNERSHIP = "It closes what it opened, and nothing else."
    TOOLS = "If tool memory is in use, each tool call is recorded once; the call does not wait for it."
    PLAIN_JSON = "What it gives to the framework can be written as JSON."
    TRACING = "Its spans are within the caller's span, and none stays current while a generator waits."
    TOKENS = "The tokens that models use for memory are reported in the framework's own way."


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one check.

    Attributes:
        outcome: `passed`, `failed` or `skipped`.
        detail: For a failed check, what was observed; for a skipped one, the missing capability.
    """

    rule: Rule
    check: str
    outcome: str
    detail: str = ""


@dataclass(slots=True)
class Report:
    """The results of an adapter's checks. It is truthy if there are any and none failed."""

    adapter: str
    results: list[Result] = field(default_factory=list)

    @property
    def failures(self) -> list[Result]:
        """The results of the checks that failed."""
        return [result for result in self.results if result.outcome == "failed"]

    def __bool__(self) -> bool:
        return bool(self.results) and not self.failures

    def __str__(self) -> str:
        lines = [f"{self.adapter}: {'keeps all rules' if self else f'{len(self.failures)} checks failed'}"]
        for rule in Rule:
            of_rule = [result for result in self.results if result.rule is rule]
            if of_rule:
                lines.append(f"  {rule.value}")
            for result in of_rule:
                detail = f": {result.detail}" if result.detail else ""
                lines.append(f"    {result.outcome:8}{result.check.replace('_', ' ')}{detail}")
        return "\n".join(lines)
