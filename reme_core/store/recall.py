"""Recall: embed a query, find memories or messages by meaning and by words, and judge and log what was found."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from numbers import Real
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from reme_core.errors import InputError, ModelAnswerError, ModelError
from reme_core.given import part_to_read
from reme_core.postgres.database import Database
from reme_core.store.filters import Filters
from reme_core.store.index.embedders import WorkspaceModel, WorkspaceModels, unit_vectors
from reme_core.store.index.upkeep import Indexing
from reme_core.store.logs import LogWriter, logging_for_workspace
from reme_core.store.query import persons_words
from reme_core.store.recall_sql import Plan, find
from reme_core.store.relevance import Found, Match, Question, judged_hits
from reme_core.text.likeness import words_of
from reme_core.text.redact import redact
from reme_core.text.timex import AskedTime
from reme_core.types import SCOPES, Hit, Kind, Recollection, new_id

log = logging.getLogger(__name__)

MAX_HITS = 1_000
"""Most hits that one recall gives."""

# How long a recall waits for the vector of its query, and for vectors of messages recorded just now. A vector takes
# milliseconds, seldom a second, and without it the words alone give an answer.
_EMBED_SECONDS, _VECTORS_SECONDS = 4.0, 2.0

_SPARE = 5  # more hits than asked for, in place of those that say the same as a better one
_PLAIN = Plan()

Vector = Sequence[float] | npt.NDArray[np.float32]

# Memories that differ in one of these fields say different things.
_ABOUT = ("kind", "subject", "author", "valid_from", "valid_until", *SCOPES)
# The subject of a message is its session, that of a lesson its task: in two of these the same words say the same.
_SUBJECT_IS_ORIGIN = (Kind.CONVERSATION, Kind.TASK)


class Recall:
    """Finds memories and messages of one database; called like a function.

    ```python
    found = await recall("alice", "What does she drink?", Filters.of(kind="personal"), limit=5)
    ```
    """

    def __init__(
        self, database: Database, workspace_models: WorkspaceModels, indexing: Indexing, log_writer: LogWriter
    ) -> None:
        self._database = database
        self._workspace_models = workspace_models
        self._indexing = indexing
        self._log_writer = log_writer
        self._warned_of: set[tuple[str, str]] = set()  # models, and the code of the error

    async def __call__(
        self,
        workspace: str,
        query: str,
        filters: Filters,
        plan: Plan = _PLAIN,
        *,
        limit: int = 10,
        min_relevance: float = 0.0,
        embedding: Vector | None = None,
        time: AskedTime | None = None,
        flow: str = "",
        session_id: str = "",
    ) -> Recollection:
        """Find the memories or messages that pass the filters and fit the query best, and note them in the log.

        There are no hits if the chance that anything fits (`Recollection.relevance`) is below `min_relevance`. The
        query is embedded unless `embedding` is its vector, and `time` is what it asks about. The flow that asks, and
        the conversation in which it asks, are for the log.

        Raises:
            InputError: The query is empty, the limit is beyond `MAX_HITS`, `min_relevance` is not between 0 and 1, or
                the vector does not fit.
            EmbeddingModelError: The workspace's vectors are of a model that cannot be reached from here.
        """
        parts = [(part, limit) for part in filters.apart]
        questions = await self.questions(workspace, query, parts, embedding=embedding, time=time)
        return await self.answer(questions, plan, min_relevance=min_relevance, flow=flow, session_id=session_id)

    async def answer(
        self,
        questions: Sequence[Question],
        plan: Plan = _PLAIN,
        *,
        min_relevance: float = 0.0,
        flow: str = "",
        session_id: str = "",
    ) -> Recollection:
        """The second step of a recall: find what fits best, and note it in the log. For arguments see `__call__`."""
        if not isinstance(min_relevance, Real) or not 0 <= min_relevance <= 1:
            raise InputError(f"min_relevance is a chance, between 0 and 1, not {min_relevance!r:.60}")
        begun = perf_counter()  # without the time for the vector, which the log of model calls has
        hits, relevance = await self._judged_hits(questions, plan)
        recollection = Recollection.model_construct(  # not validated again: its hits are valid
            retrieval_id=new_id(),
            workspace_id=questions[0].workspace,
            query=questions[0].text,
            hits=hits if relevance >= min_relevance else [],
            relevance=relevance,
            degraded=next((q.degraded for q in questions if q.degraded), ""),
        )
        self._log_writer.log_recall(
            recollection,
            hits,
            min_relevance=min_relevance,
            kinds=[kind for question in questions for kind in question.filters.kinds],
            flow=flow,
            session_id=session_id or questions[0].filters.session_id or "",
            milliseconds=(perf_counter() - begun) * 1000,
        )
        return recollection

    async def questions(
        self,
        workspace: str,
        query: str,
        parts: Sequence[tuple[Filters, int]],
        *,
        embedding: Vector | None = None,
        time: AskedTime | None = None,
    ) -> list[Question]:
        """The first step of a recall: the query as a question to each of the `parts`, which are filters with a limit.

        For the other arguments and the errors see `__call__`.
        """
        if not isinstance(query, str) or not query.strip():
            raise InputError("the query is empty; say what to look for, or list the memories")
        for _, limit in parts:
            if not isinstance(limit, int) or not 1 <= limit <= MAX_HITS:
                raise InputError(f"limit must be a number between 1 and {MAX_HITS}, not {limit!r:.60}")
        query = redact(part_to_read(query), self._database.settings.redact)
        if any(filters.of_messages for filters, _ in parts):
            await self._indexing.wait_for_vectors(workspace, _VECTORS_SECONDS)
        model = await self._workspace_models.of(workspace)
        name, ef_search = model.embedder.name, model.ef_search
        if embedding is None:
            with logging_for_workspace(workspace):
                vectors, degraded = await self._vectors(workspace, query, model, [part for part, _ in parts])
        else:
            own = unit_vectors(np.atleast_2d(embedding), 1, model.embedder)[0]
            vectors, degraded = [own] * len(parts), ""
        return [
            Question(workspace, query, vector, name, limit, filters, degraded, time, ef_search)
            for (filters, limit), vector in zip(parts, vectors, strict=True)
        ]

    async def _judged_hits(self, questions: Sequence[Question], plan: Plan) -> tuple[list[Hit], float]:
        """The hits of all questions, and the chance that anything fits."""
        hits: list[Hit] = []
        relevance = 0.0
        for question in questions:
            of_part, found = judged_hits(question, await self._find_once(question, plan))
            relevance = max(relevance, of_part)
            hits.extend(found)
        # Scores of memories and of messages cannot be compared, so both together are ordered by their chances.
        if len(questions) > 1:
            best = sorted(hits, key=lambda hit: hit.relevance, reverse=True)[: questions[0].limit]
            hits = number_ranks(best)
        return hits, relevance

    async def _find_once(self, question: Question, plan: Plan) -> Found:
        """What fits the question best, each statement once; the next best take the places of those left out."""
        asked = question.limit + _SPARE
        while True:
            found = await self.find(replace(question, limit=asked), plan)
            matches = once(found.matches, at_its_time=question.time is not None)
            # Enough statements, or the workspace has no more matches, or more than any recall gives were looked at.
            if len(matches) >= question.limit or len(found.matches) < asked or asked > MAX_HITS:
                return replace(found, matches=matches[: question.limit])
            asked *= 4

    async def find(self, question: Question, plan: Plan = _PLAIN) -> Found:
        """What fits the question best, before it is judged."""
        settings = self._database.settings.recall
        exact = replace(plan, fusion=plan.fusion or settings.fusion, shares=settings.vector_share)
        if question.vector is not None and question.ef_search:
            exact = replace(exact, every_posting=False)
            found = await find(self._database, question, replace(exact, hnsw_dimensions=len(question.vector)))
            if len(found.matches) == question.limit:
                return found
            # The index search is approximate, and may give fewer rows than pass the filters. The exact scan gives all.
        return await find(self._database, question, exact)

    async def _vectors(
        self, workspace: str, query: str, model: WorkspaceModel, parts: Sequence[Filters]
    ) -> tuple[Sequence[npt.NDArray[np.float32] | None], str]:
        """The vector by which each part is searched; or none for any, and the reason."""
        # A model that fails must not stop an agent's turn: then words alone find memories.
        embedder = model.embedder
        try:
            async with asyncio.timeout(_EMBED_SECONDS):
                words = persons_words(query)
                said = any(part.of_messages for part in parts)
                named = replace_names(words, await self._workspace_models.authors(workspace)) if said else words
                texts = [named if part.of_messages else words for part in parts]
                different = list(dict.fromkeys(texts))
                vectors = await embedder.embed(different, "query")
            width = vectors.shape[1]
            if model.dimensions not in (None, width):
                raise ModelAnswerError(
                    f"{embedder.name} gave a vector {width} wide, and those of workspace '{workspace}' are"
                    f" {model.dimensions} wide; is another model served under its name?"
                )
            return [vectors[different.index(text)] for text in texts], ""
        except TimeoutError:
            problem = f"{embedder.name} did not answer within {_EMBED_SECONDS:g} seconds"
        except ModelError as error:
            # Hits hide that they lack something, and a wrong key stays wrong: whoever runs this is told once.
            if (failure := (embedder.name, error.code)) not in self._warned_of:
                self._warned_of.add(failure)
                log.warning("recall goes by words alone: %s", error)
            problem = str(error)
        return [None] * len(parts), problem


def number_ranks(hits: Sequence[Hit]) -> list[Hit]:
    """The hits with the ranks of their places, from 1."""
    return [hit.model_copy(update={"rank": rank}) for rank, hit in enumerate(hits, 1)]


def once(matches: Iterable[Match], *, at_its_time: bool) -> list[Match]:
    """The matches, best first, without those that say the same as a better one; each counts those that it stands for.

    Of several that say the same, the newest stands for all, in the place of the best: what was said last counts. With
    `at_its_time`, the same words said or observed at another time count as another statement.
    """
    best: dict[Hashable, Match] = {}
    for match in matches:
        said = _statement(match.memory), at_its_time and match.memory["observed_at"]
        first = best.get(said)
        if first is None:
            best[said] = match
        else:
            newest = max((first.memory, match.memory), key=_time_of)
            best[said] = first._replace(memory=newest, alike=first.alike + 1)
    return list(best.values())


def _time_of(memory: Mapping[str, Any]) -> datetime:
    said: datetime = memory["observed_at"] or memory["created_at"]
    return said


def _statement(memory: Mapping[str, Any]) -> Hashable:
    """What a memory says, and about what: two that say the same have equal values."""
    kind = memory["kind"]
    about = tuple(memory.get(name) for name in _ABOUT if name != "subject" or kind not in _SUBJECT_IS_ORIGIN)
    # A lesson that several tasks taught is one lesson, as in ReMe 0.1.
    situation = "" if kind == Kind.TASK else words_of(memory.get("when_to_use", ""))
    # Words are compared, not vectors: a "not" or another day changes the meaning, and hardly the vector.
    content = memory.get("content", "")
    return *about, situation, words_of(content) or content


def replace_names(query: str, authors: Sequence[str]) -> str:
    """The query with the names of known speakers replaced by a pronoun, for embedding.

    >>> replace_names("What does Caroline like?", ["Caroline"])
    'What does they like?'
    """
    # A name pulls the vector towards all messages of that speaker. `speaker_weight` scores the speaker instead. LoCoMo
    # gains .01 by this.
    for author in authors:
        first = author.split()[0] if author.split() else author
        query = re.sub(rf"\b{re.escape(first)}\b", "they", query) if first.isascii() else query.replace(author, "他")
    return query
