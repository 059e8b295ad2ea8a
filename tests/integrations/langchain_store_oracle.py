"""LangGraph's own in-memory store as the oracle of `ReMeStore`: both carry out the same operations."""

from __future__ import annotations

import hashlib
import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from reme_langchain import ReMeStore

WORDS = ["pear", "plum", "fig", "lime", "kiwi", "date"]


def embed(texts: list[str]) -> list[list[float]]:
    """Words as random directions, so that texts are equally near only if they are the same."""
    return [_vector(text).tolist() for text in texts]


def _vector(text: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
    return np.random.default_rng(seed).normal(size=8)


INDEX: Any = {"dims": 8, "embed": embed, "fields": ["text", "notes[*]"]}


class Oracle(InMemoryStore):
    """LangGraph's own, without three accidents that `ReMeStore` does not share (see its module)."""

    def batch(self, ops: Any) -> list[Any]:
        results = super().batch(ops)
        for namespace in [namespace for namespace, items in self._data.items() if not items]:
            del self._data[namespace]
        return results

    def _handle_list_namespaces(self, op: Any) -> Any:
        everything = self._data
        self._data = {namespace: items for namespace, items in everything.items() if items}  # type: ignore[assignment]
        try:
            return super()._handle_list_namespaces(op)  # none because somebody looked into it, or emptied it
        finally:
            self._data = everything

    def _extract_texts(self, put_ops: Any) -> Any:
        for namespace, key in put_ops:
            self._vectors[namespace].pop(key, None)  # texts that an item no longer holds do not find it
        return super()._extract_texts(put_ops)

    def _insertinmem_store(self, to_embed: Any, embeddings: Any) -> None:
        for places, embedding in zip(to_embed.values(), embeddings, strict=True):  # one text may stand in two items
            for namespace, key, path in places:
                self._vectors[namespace][key][path] = embedding


labels = st.sampled_from(["a", "b", "bb", "ä", "c"])
namespaces = st.lists(labels, min_size=1, max_size=3).map(tuple)
prefixes = st.lists(labels, max_size=2).map(tuple)
keys = st.sampled_from(["k1", "k2", "k\x003", "k10"])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 12),
    st.sampled_from([0.5, 9.0, 10.5, math.inf, -math.inf, 1e308]),
    st.sampled_from(["9", "10", "x", "", "x\x00", "\x10", "half \ud83d"]),
)
members = st.one_of(
    scalars, st.lists(scalars, max_size=2), st.dictionaries(st.sampled_from(["p", "q"]), scalars, max_size=2)
)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join)
values = st.fixed_dictionaries(
    {}, optional={"n": members, "m": members, "text": texts, "notes": st.lists(texts, max_size=2)}
)
orderings = st.dictionaries(
    st.sampled_from(["$gt", "$gte", "$lt", "$lte"]),
    st.one_of(st.integers(-1, 11), st.sampled_from(["9", 9.5, math.inf, -math.inf])),
    min_size=1, max_size=2,
)  # fmt: skip
operators = st.one_of(
    orderings, members.map(lambda value: {"$eq": value}), members.map(lambda value: {"$ne": value}),
)  # fmt: skip
filters = st.none() | st.dictionaries(
    st.sampled_from(["n", "m"]),
    members | operators | operators.map(lambda inner: {"p": inner}) | operators.map(lambda inner: [inner]),
    max_size=2,
)

gets = st.builds(GetOp, namespaces, keys, st.booleans())
puts = st.builds(
    PutOp, namespaces, keys, values, st.sampled_from([None, None, None, False, ["text"], ["n", "notes[0]"]]), st.none()
)
deletes = st.builds(PutOp, namespaces, keys, st.none(), st.none(), st.none())
searches = st.builds(
    SearchOp, prefixes, filters, st.integers(1, 5), st.integers(0, 3), st.none() | st.none() | texts, st.booleans()
)  # fmt: skip
matches = st.builds(
    MatchCondition,
    st.sampled_from(["prefix", "suffix"]),
    st.lists(labels | st.just("*"), min_size=1, max_size=2).map(tuple),
)
listings = st.builds(
    ListNamespacesOp, st.none() | st.lists(matches, max_size=2).map(tuple), st.none() | st.integers(1, 3),
    st.integers(1, 6), st.integers(0, 2),
)  # fmt: skip
operations = st.one_of(puts, puts, deletes, gets, searches, listings)


def plain(result: Any) -> Any:
    """An answer without its times, which differ."""
    if isinstance(result, list):
        return [plain(member) for member in result]
    if result is None or isinstance(result, tuple):
        return result
    score = getattr(result, "score", None)
    score = None if score is None else pytest.approx(score, abs=1e-5)
    return (result.namespace, result.key, result.value, score)


def expected(oracle: Oracle, ops: list[Any]) -> list[Any] | None:
    """The oracle's answers; None where it fails, as when it is asked whether "x" is more than 9."""
    whole = [op._replace(limit=10**6, offset=0) if isinstance(op, SearchOp) else op for op in ops]
    try:
        answers = oracle.batch(whole)
    except (TypeError, ValueError):
        return None
    return [
        plain(answer[op.offset : op.offset + op.limit] if isinstance(op, SearchOp) else answer)
        for op, answer in zip(ops, answers, strict=True)
    ]


class Differential(RuleBasedStateMachine):
    """Batches of operations on both stores, whose answers must be the same."""

    store: ReMeStore
    ran = 0

    def __init__(self) -> None:
        super().__init__()
        self.oracle = Oracle(index=INDEX)
        self.store.workspace_id = f"w{random.SystemRandom().getrandbits(64):x}"

    @rule(ops=st.lists(operations, min_size=1, max_size=12))
    def batch(self, ops: list[Any]) -> None:
        answerable = [op for op in ops if not isinstance(op, SearchOp) or expected(self.oracle, [op]) is not None]
        answers = zip(answerable, self.store.batch(answerable), expected(self.oracle, answerable) or [], strict=True)
        for op, mine, theirs in answers:
            assert plain(mine) == theirs, op
        type(self).ran += len(answerable)

    @rule(op=operations)
    def single(self, op: Any) -> None:
        self.batch([op])
