"""The register of checks, and the sentences that several of them use."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from reme_core.testing.driver import Capability, Conversation
from reme_core.testing.model import ScriptedModel
from reme_core.testing.report import Rule
from reme_core.testing.stage import Stage

STATEMENT: Final = "My dog Rex lives in Lisbon with my mother."
QUESTION: Final = "Where does my dog Rex live?"
FACT: Final = "Lisbon"
_SECONDS_TO_BEGIN: Final = 20.0


async def cancel_at_the_model(conversation: Conversation, model: ScriptedModel, text: str) -> None:
    """Begin a turn, and cancel it while the model answers."""
    model.hold()
    turn = asyncio.ensure_future(conversation.say(text))
    await asyncio.wait_for(model.answering.wait(), _SECONDS_TO_BEGIN)
    turn.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await turn


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one rule; it is skipped for drivers without the capabilities in `needs`."""

    rule: Rule
    run: Callable[[Stage], Awaitable[None]]
    needs: frozenset[Capability]

    @property
    def name(self) -> str:
        """The name in the report."""
        return self.run.__name__.lstrip("_")


CHECKS: Final[list[Check]] = []
"""All checks, in the order of the report; importing a module of checks adds its own."""


def check(rule: Rule, *needs: Capability) -> Callable[[Callable[[Stage], Awaitable[None]]], None]:
    """Register the decorated function as a check of a rule, for drivers with the capabilities that it needs."""

    def enter(run: Callable[[Stage], Awaitable[None]]) -> None:
        CHECKS.append(Check(rule, run, frozenset(needs)))

    return enter
