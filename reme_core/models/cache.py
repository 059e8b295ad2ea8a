"""A bounded memory of query embeddings: the same question, asked again or by several at once, is embedded once."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from reme_core.models.base import Embedder, InputType, Vectors

_Key = tuple[asyncio.AbstractEventLoop, str]


class CachedEmbedder:
    """Wraps an embedder; queries are cached (the least recently asked leave first), passages pass through.

    Args:
        inner: The embedder that does the work.
        max_entries: Queries kept; one of 1,024 dimensions takes 4 KB.
    """

    def __init__(self, inner: Embedder, max_entries: int = 2_048) -> None:
        self.inner = inner
        self._max_entries = max_entries
        self._known: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = threading.Lock()
        # A task belongs to its event loop; the vectors, once there, serve all of them.
        self._asked: dict[_Key, asyncio.Task[dict[str, Vectors]]] = {}

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
        found = {text: vector for text in dict.fromkeys(texts) if (vector := self._get(text)) is not None}
        unknown = [text for text in dict.fromkeys(texts) if text not in found]
        if unknown:
            found.update(await self._ask(unknown))
        return np.stack([found[text] for text in texts])

    async def aclose(self) -> None:
        """Close the inner embedder; what is cached stays."""
        await self.inner.aclose()

    def __repr__(self) -> str:
        return f"CachedEmbedder({self.inner!r}, {self._max_entries})"

    async def _ask(self, texts: list[str]) -> dict[str, Vectors]:
        loop = asyncio.get_running_loop()
        fresh = [text for text in texts if (loop, text) not in self._asked]
        if fresh:
            task = loop.create_task(self._fetch(loop, fresh))
            # Whoever still waits gets the error; if nobody does, it is nobody's.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._asked.update({(loop, text): task for text in fresh})
        found: dict[str, Vectors] = {}
        for task in {self._asked[loop, text] for text in texts}:
            # Shielded: when one of those who wait is cancelled, the others still get their answer.
            found.update(await asyncio.shield(task))
        return found

    async def _fetch(self, loop: asyncio.AbstractEventLoop, texts: list[str]) -> dict[str, Vectors]:
        try:
            vectors = await self.inner.embed(texts, "query")
        finally:
            for text in texts:
                self._asked.pop((loop, text), None)
        found = {text: vector.copy() for text, vector in zip(texts, vectors, strict=True)}
        with self._lock:
            self._known.update(found)
            while len(self._known) > self._max_entries:
                self._known.popitem(last=False)
        return found

    def _get(self, text: str) -> Vectors | None:
        with self._lock:
            if text in self._known:
                self._known.move_to_end(text)
            return self._known.get(text)
