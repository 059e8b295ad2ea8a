"""One recall, from what a caller says to what is found: checked, put into numbers, looked for, and noted in the log."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from reme_core.errors import InputError
from reme_core.schema import Hit, Kind, Recollection, Status, kinds_of, new_id
from reme_core.store.database import Database
from reme_core.store.filters import Filters
from reme_core.store.journal import Journal, working_for
from reme_core.store.recall import Plan, Question, recall_memories, recall_messages, unnamed
from reme_core.store.serving import Served, Serving

MAX_HITS = 1_000
"""Most hits that one recall gives."""

_LARGEST_WEIGHT = 1e6  # the kind then goes before all others anyway; what is far larger Postgres cannot multiply

Vector = Sequence[float] | npt.NDArray[np.float32]


class Search:
    """Looks into the memories and messages of one database.

    Args:
        database: Where they are.
        serving: Which model makes the vectors of a workspace.
        journal: Where it is noted what was found.
    """

    def __init__(self, database: Database, serving: Serving, journal: Journal) -> None:
        self._database = database
        self._serving = serving
        self._journal = journal

    async def recall(
        self,
        workspace: str,
        query: str,
        filters: Filters,
        plan: Plan,
        *,
        limit: int,
        embedding: Vector | None = None,
        flow: str = "",
    ) -> Recollection:
        """Find what passes the filters and fits the query best, in one SQL statement.

        Args:
            workspace: Where to look.
            query: What to look for.
            filters: Among what.
            plan: How to rank.
            limit: How many hits.
            embedding: The vector of the query, if it is at hand.
            flow: Who asks, for the log.

        Raises:
            InputError: The query is empty, the limit is beyond `MAX_HITS`, or the vector does not fit.
            EmbeddingModelError: The workspace's vectors are of a model that cannot be reached from here.
        """
        if not query.strip():
            raise InputError("the query is empty; say what to look for (or list memories with memories.list)")
        if not 1 <= limit <= MAX_HITS:
            raise InputError(f"limit must be between 1 and {MAX_HITS}, not {limit}")
        served = await self._serving.of(workspace)
        with working_for(workspace):
            said = Kind.CONVERSATION in filters.kinds
            vector = await self._vector(workspace, query, served, embedding, names_count=not said)
        question = Question(workspace, query, vector, served.embedder.name, limit)
        begun = time.perf_counter()
        hits = await self._find(question, filters, plan, served)
        found = Recollection.model_construct(retrieval_id=new_id(), workspace_id=workspace, query=query, hits=hits)
        self._journal.retrieved(
            found,
            kinds=list(filters.kinds),
            flow=flow,
            session_id=filters.session_id or "",
            milliseconds=(time.perf_counter() - begun) * 1000,
        )
        return found

    async def _find(self, question: Question, filters: Filters, plan: Plan, served: Served) -> list[Hit]:
        search = recall_messages if Kind.CONVERSATION in filters.kinds else recall_memories
        if served.hnsw:
            width = len(question.vector)
            indexed = Plan(plan.fusion, width, plan.type_weights, plan.boost)
            hits = await search(self._database, question, filters, indexed)
            if len(hits) == question.limit:
                return hits
            # An index is searched approximately and may come back with fewer rows than pass the filters.
        return await search(self._database, question, filters, plan)

    async def _vector(
        self, workspace: str, query: str, served: Served, given: Vector | None, *, names_count: bool
    ) -> npt.NDArray[np.float32]:
        if given is not None:
            vectors = self._serving.given(np.atleast_2d(np.asarray(given, dtype=np.float32)), 1, served.embedder)
        else:
            asked = query if names_count else unnamed(query, await self._serving.authors(workspace))
            vectors = await served.embedder.embed([asked], "query")
        return np.asarray(vectors[0])


def checked_status(status: str | None) -> Status | None:
    """The status that a text names; none where there is no text.

    Raises:
        InputError: There is no such status.
    """
    try:
        return Status(status) if status else None
    except ValueError:
        raise InputError(f"there is no status {status!r}; known are {', '.join(Status)}") from None


def checked_kinds(kind: str | Sequence[str] | None) -> list[str]:
    """The kinds that a name, a family's name or several stand for; none stand for all memories.

    Raises:
        InputError: There is no such kind, or memories and messages are asked for together.
    """
    try:
        kinds = kinds_of(kind)
    except ValueError:
        known = ", ".join(["personal", *Kind])
        raise InputError(f"there is no kind {kind!r}; known are {known}") from None
    if Kind.CONVERSATION in kinds and len(kinds) > 1:
        raise InputError("kind 'conversation' looks at messages, other kinds at memories; recall them one at a time")
    return kinds


def checked_weights(weights: Mapping[str, float] | None) -> Mapping[str, float]:
    """Factors for kinds.

    Raises:
        InputError: One is negative, no number, or beyond all measure.
    """
    for kind, weight in (weights or {}).items():
        if not 0 <= weight <= _LARGEST_WEIGHT:
            raise InputError(f"the weight of kind '{kind}' must be between 0 and {_LARGEST_WEIGHT:,.0f}, not {weight}")
    return weights or {}
