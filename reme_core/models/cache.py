"""A cache of query embeddings: a query that is asked again, or by several callers at once, is embedded once.

It is a circuit breaker as well. While a model does not answer, only one query now and then is sent to it, and the
others fail at once: a search can then use words alone.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from functools import partial

import numpy as np

from reme_core.errors import ModelUnavailableError
from reme_core.models.base import Embedder, InputType, Vectors
from reme_core.models.local import LocalEmbedder

_MOST_KEPT = 2_048  # queries; those not used for longest go first. One with 1,024 dimensions takes 4 KB
_HANGS_AFTER_SECONDS = 3.0  # the vector of a query takes milliseconds, seldom a second
_PAUSE_SECONDS = 15.0  # before a model that does not answer is asked again

_Key = tuple[asyncio.AbstractEventLoop, str]


class CachedEmbedder:
    """An embedder with a cache for queries; passages are not cached."""

    def __init__(self, inner: Embedder) -> None:
        self.inner = inner
        self.name = inner.name
        self._vectors: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = threading.Lock()
        self._answered_at = 0.0  # when the model last answered, on the monotonic clock
        self._ask_again_at: float | None = None  # on the same clock; None while the model answers
        # A task can be awaited on its own event loop only, so tasks are kept by loop. All loops share the vectors.
        self._pending: dict[_Key, asyncio.Task[dict[str, Vectors]]] = {}
        self._waiting: Counter[asyncio.Task[dict[str, Vectors]]] = Counter()  # callers

    @property
    def dimensions(self) -> int | None:
        """The inner embedder's width."""
        return self.inner.dimensions

    async def embed(self, texts: Sequence[str], input_type: InputType = "passage") -> Vectors:
        """Embed texts; see `Embedder.embed`.

        Raises:
            ModelUnavailableError: A query is not in the cache, and the model did not answer others a moment ago.
        """
        if input_type != "query" or not texts:
            vectors = await self.inner.embed(texts, input_type)
            self._close_circuit()
            return vectors
        found = {text: vector for text in dict.fromkeys(texts) if (vector := self._lookup(text)) is not None}
        unknown = [text for text in dict.fromkeys(texts) if text not in found]
        if unknown:
            self._check_circuit()
            found.update(await self._embed_once(unknown))
        return np.stack([found[text] for text in texts])

    async def aclose(self) -> None:
        """Close the inner embedder; the cache stays."""
        await self.inner.aclose()

    def __repr__(self) -> str:
        return f"CachedEmbedder({self.inner!r})"

    async def _embed_once(self, texts: list[str]) -> dict[str, Vectors]:
        loop = asyncio.get_running_loop()
        pending = self._pending
        fresh = [text for text in texts if (task := pending.get((loop, text))) is None or task.cancelling()]
        if fresh:
            task = loop.create_task(self._embed_queries(loop, fresh))
            task.add_done_callback(partial(self._forget, loop, fresh))
            pending.update({(loop, text): task for text in fresh})
        found: dict[str, Vectors] = {}
        tasks = {pending[loop, text] for text in texts}
        self._waiting.update(tasks)
        try:
            for task in tasks:
                # Shielded: cancelling one caller must not cancel the task of the others.
                found.update(await asyncio.shield(task))
        finally:
            self._waiting.subtract(tasks)
            for task in [task for task in tasks if not self._waiting[task]]:
                del self._waiting[task]
                # All queries queue for one thread of this machine, and one that nobody waits for leaves the queue. What
                # an endpoint answers is of use later, and shows that it answers.
                if isinstance(self.inner, LocalEmbedder):
                    task.cancel()
        return found

    async def _embed_queries(self, loop: asyncio.AbstractEventLoop, texts: list[str]) -> dict[str, Vectors]:
        begun = time.monotonic()
        # A model that hangs opens the circuit before the call fails, which may take minutes.
        hanging = loop.call_later(_HANGS_AFTER_SECONDS, self._open_circuit, begun)
        try:
            vectors = await self.inner.embed(texts, "query")
            self._close_circuit()
        except ModelUnavailableError:
            self._open_circuit(begun)
            raise
        finally:
            hanging.cancel()
        # Copied: a row is a view, and would keep the whole batch in memory.
        found = {text: vector.copy() for text, vector in zip(texts, vectors, strict=True)}
        with self._lock:
            self._vectors.update(found)
            while len(self._vectors) > _MOST_KEPT:
                self._vectors.popitem(last=False)
        return found

    def _forget(
        self, loop: asyncio.AbstractEventLoop, texts: list[str], task: asyncio.Task[dict[str, Vectors]]
    ) -> None:
        # Not at the end of the task's own work: one that is cancelled before its first step does nothing.
        for text in texts:
            if self._pending.get((loop, text)) is task:
                del self._pending[loop, text]
        if not task.cancelled():
            task.exception()  # all who wait get it; if nobody waits any more, asyncio would log it, unless it is read
        elif self._ask_again_at is not None:
            self._ask_again_at = time.monotonic()  # the next query tries in its place

    def _close_circuit(self) -> None:
        self._answered_at, self._ask_again_at = time.monotonic(), None

    def _open_circuit(self, begun: float) -> None:
        # If the model has answered since then, only this query failed, or it began before the model came back.
        if begun > self._answered_at:
            self._ask_again_at = time.monotonic() + _PAUSE_SECONDS

    def _check_circuit(self) -> None:
        if self._ask_again_at is None:
            return
        if (left := self._ask_again_at - time.monotonic()) > 0:
            raise ModelUnavailableError(f"{self.name} did not answer a moment ago; it is asked again in {left:.0f} s")
        self._ask_again_at = time.monotonic() + _PAUSE_SECONDS  # this query tries; others fail until it has succeeded

    def _lookup(self, text: str) -> Vectors | None:
        with self._lock:
            if text in self._vectors:
                self._vectors.move_to_end(text)
            return self._vectors.get(text)
