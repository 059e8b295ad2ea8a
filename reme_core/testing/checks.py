"""The register of checks, and what they talk about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from reme_core.testing.driver import Capability
from reme_core.testing.report import Rule
from reme_core.testing.stage import Stage

TOLD: Final = "My dog Rex lives in Lisbon with my mother."
ASKED: Final = "Where does my dog Rex live?"
KNOWN: Final = "Lisbon"


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one rule, and what a framework has to be capable of for it."""

    rule: Rule
    run: Callable[[Stage], Awaitable[None]]
    needs: frozenset[Capability]

    @property
    def name(self) -> str:
        """Its name, as the report gives it."""
        return self.run.__name__.lstrip("_")


CHECKS: Final[list[Check]] = []
"""All checks; a module of them registers its own when it is imported."""


def check(rule: Rule, *needs: Capability) -> Callable[[Callable[[Stage], Awaitable[None]]], None]:
    """Enter a function as a check of a rule."""

    def enter(run: Callable[[Stage], Awaitable[None]]) -> None:
        CHECKS.append(Check(rule, run, frozenset(needs)))

    return enter
