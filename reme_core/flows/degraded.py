"""Asks models during a retrieval. If a model fails, the retrieval goes on without it and answers with what it found."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

from reme_core.errors import ModelError
from reme_core.flows.deps import Deps
from reme_core.flows.state import RetrievalState

T = TypeVar("T")


async def ask_model(work: Awaitable[T], what: str, state: RetrievalState, deps: Deps) -> T | None:
    """What comes of the `work` of a model; None if it failed or took too long, which the report then says.

    The report calls the work `what`. All models of one retrieval together get the seconds of `state.patience`, or else
    those of the settings.
    """
    patience, begun = state.patience or deps.settings.recall.patience, time.monotonic()
    try:
        async with asyncio.timeout(patience - state.waited):
            return await work
    except TimeoutError:
        report_degraded(state, what, f"models did not answer within {patience:g} seconds")
    except ModelError as error:
        report_degraded(state, what, str(error))
    finally:
        state.waited += time.monotonic() - begun
    return None


def report_degraded(state: RetrievalState, what: str, reason: str) -> None:
    """Tell the caller, once, what the answer lacks and why; an empty reason tells nothing."""
    told = state.report.get("degraded", [])
    if reason and (line := f"{what}: {reason}") not in told:
        state.report["degraded"] = [*told, line]
