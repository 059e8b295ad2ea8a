"""A few ops that do next to nothing, for tests of the engine that runs them."""

from __future__ import annotations

from typing import Any, Literal, cast

import pytest

from reme_core.flows.deps import Deps
from reme_core.flows.registry import op
from reme_core.flows.state import RetrievalState, SummaryState
from reme_core.settings import Settings


def deps(**given: Any) -> Deps:
    """The engine itself touches neither store nor models."""
    nothing = dict.fromkeys(("database", "memories", "workspaces", "recall", "workspace_models", "log_writer"))
    return Deps(**cast(Any, {**nothing, "settings": Settings(), **given}))


@pytest.fixture(autouse=True)
def ops(own_ops: None) -> None:
    @op(reads={"query"}, writes={"search_query"}, aliases=("fetch_query",))
    async def ask(state: RetrievalState, deps: Deps) -> None:
        """Take the query.

        More of it.
        """
        state.search_query = state.query

    @op(reads={"search_query"}, writes={"hits"})
    async def look(
        state: RetrievalState,
        deps: Deps,
        *,
        top_k: int = 5,
        bound: float | None = None,
        mode: Literal["a", "b"] = "a",
        names: tuple[str, ...] = (),
    ) -> None:
        state.report["look"] = {"top_k": top_k, "bound": bound, "mode": mode, "names": names, "chat": deps.chat}

    @op(reads={"search_query"}, writes={"hits"})
    async def peek(state: RetrievalState, deps: Deps) -> None: ...

    @op(uses={"hits"}, writes={"answer"})
    async def say(state: RetrievalState, deps: Deps) -> None:
        state.answer = f"{state.search_query}!"

    @op(reads={"search_query"}, writes={"time_ranges"})
    async def clock(state: RetrievalState, deps: Deps) -> None: ...

    @op(writes={"extra.mood"})
    async def feel(state: RetrievalState | SummaryState, deps: Deps) -> None:
        state.extra["mood"] = "fine"

    @op(writes={"memories"})
    async def learn(state: SummaryState, deps: Deps) -> None: ...

    @op()
    async def demand(state: RetrievalState, deps: Deps, *, size: int) -> None: ...
