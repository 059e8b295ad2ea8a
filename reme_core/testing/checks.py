"""The register of checks, and the sentences that several of them use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from reme_core.testing.driver import Capability
from reme_core.testing.report import Rule
from reme_core.testing.stage import Stage

STATEMENT: Final = "My dog Rex lives in Lisbon with my mother."
QUESTION: Final = "Where does my dog Rex live?"
FACT: Final = "Lisbon"


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
