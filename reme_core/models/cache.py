"""A cache of query embeddings: a query that is asked again, or by several callers at once, is embedded once."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from reme_core.models.base import Embedder, InputType, Vectors

_Key = tuple[asyncio.AbstractEventLoop, str]


class CachedEmbedder:
    """An embedder with a cache for queries; passages are not cached.

    Args:
        inner: The embedder to ask for what is not in the cache.
        max_entries: How many queries to keep, those used last; one of 1,024 dimensions takes 4 KB.
    """

    def __init__(self, inner: Embedder, max_entries: int = 2_048) -> None:
        self.inner = inner
        self._max_entries = max_entries
        self._vectors: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = threading.Lock()
        # A task can be awaited on its own event loop only; vectors, once there, are shared by all.
        self._pending: dict[_Key, asyncio.Task[dict[str, Vectors]]] = {}

    @property
    def name(self) -> str:
        """The inner embedder's name."""
        return self.inner.name

    @property
    def dimensions(self) -> int | None:
        """The inner embedder's width."""
        return self.inner.dimensions

    async def embed(self, texts: Sequence[str], input_type: InputType = "passage") -> Vectors:
        """Embed texts; see `Embedder.embed`."""
        if input_type != "query" or not texts:
            return await self.inner.embed(texts, input_type)
        found = {text: vector for text in dict.fromkeys(texts) if (vector := self._lookup(text)) is not None}
        unknown = [text for text in dict.fromkeys(texts) if text not in found]
        if unknown:
            found.update(await self._embed_once(unknown))
        return np.stack([found[text] for text in texts])

    async def aclose(self) -> None:
        """Close the inner embedder; the cache stays."""
        await self.inner.aclose()

    def __repr__(self) -> str:
        return f"CachedEmbedder({self.inner!r}, {self._max_entries})"

    async def _embed_once(self, texts: list[str]) -> dict[str, Vectors]:
        loop = asyncio.get_running_loop()
        fresh = [text for text in texts if (loop, text) not in self._pending]
        if fresh:
            task = loop.create_task(self._embed_queries(loop, fresh))
            # Everyone who waits gets the task's error; reading it here keeps asyncio from logging it if nobody waits.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._pending.update({(loop, text): task for text in fresh})
        found: dict[str, Vectors] = {}
        for task in {self._pending[loop, text] for text in texts}:
            # Shielded, so that cancelling one caller does not cancel the task for the others.
            found.update(await asyncio.shield(task))
        return found

    async def _embed_queries(self, loop: asyncio.AbstractEventLoop, texts: list[str]) -> dict[str, Vectors]:
        try:
            vectors = await self.inner.embed(texts, "query")
        finally:
            for text in texts:
                self._pending.pop((loop, text), None)
        # Copied, since a row is a view that would keep the whole batch in memory.
        found = {text: vector.copy() for text, vector in zip(texts, vectors, strict=True)}
        with self._lock:
            self._vectors.update(found)
            while len(self._vectors) > self._max_entries:
                self._vectors.popitem(last=False)
        return found

    def _lookup(self, text: str) -> Vectors | None:
        with self._lock:
            if text in self._vectors:
                self._vectors.move_to_end(text)
            return self._vectors.get(text)
