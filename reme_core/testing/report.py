"""The rules that hold for every adapter, and the report on how one keeps them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Rule(enum.Enum):
    """What an adapter must keep to, whatever its framework."""

    MEMORY = "What is told in one conversation is known in another one, and in no other workspace."
    ASYNC_AND_SYNC = "It works in any event loop, and without one where the framework has synchronous calls."
    RECALL_ONCE = "A turn recalls once; the model alone sees the note, beside the user's words or in the system prompt."
    DELTA = "Only what is new is written, once and word for word, and never a note that was injected."
    SPEAKER = "The author of a message is the agent that said it, and its role stays."
    DURABLE = "A turn that is cancelled loses nothing that was said."
    ON_ERROR = "A memory that fails ends the turn only where that is asked for, and catches up later."
    OPTIONS = "What it cannot use is refused when the memory is made, with the name of the right option."
    OWNERSHIP = "It closes what it opened, and nothing else."
    TOOLS = (
        "How the framework's tools fare is told to tool memory where that is in use: each call once, never in the way."
    )
    PLAIN_JSON = "What it gives to the framework can be written down as JSON."
    TRACING = "Its spans stand within the caller's; none is left current while a generator waits."
    TOKENS = "What models do for memory is reported the framework's own way."


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one check.

    Attributes:
        rule: The rule that was checked.
        check: The check's name.
        outcome: `passed`, `failed` or `skipped`.
        detail: What was observed, if it failed; the capability that is missing, if it was skipped.
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
