"""An embedder that keeps its vectors on disk, so that a large set is embedded once."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import platformdirs

from reme_core.engine import Engine
from reme_core.models.base import Embedder, InputType, Vectors

FOLDER = Path(os.environ.get("REME_BENCH_CACHE") or platformdirs.user_cache_dir("reme-bench"))


class RememberingEmbedder:
    """Embeds what it has not embedded before; a file for each model, to be deleted where the model's engine changes.

    Attributes:
        inner: The embedder that makes the vectors.
    """

    def __init__(self, inner: Embedder, folder: Path = FOLDER) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.inner = inner
        self._file = sqlite3.connect(folder / f"{inner.name.replace('/', '-')}.sqlite", check_same_thread=False)
        self._file.execute("create table if not exists vector (key blob primary key, numbers blob) without rowid")

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
        keys = [hashlib.blake2b(f"{input_type} {text}".encode(), digest_size=16).digest() for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if self._look_up(key) is None}
        if missing:
            vectors = await self.inner.embed(list(missing.values()), input_type)
            rows = [(key, vector.tobytes()) for key, vector in zip(missing, vectors, strict=True)]
            self._file.executemany("insert or replace into vector values (?, ?)", rows)
            self._file.commit()
        found = [self._look_up(key) for key in keys]
        return np.array([np.frombuffer(numbers or b"", np.float32) for numbers in found], np.float32)

    def _look_up(self, key: bytes) -> bytes | None:
        row = self._file.execute("select numbers from vector where key = ?", (key,)).fetchone()
        return row[0] if row else None

    async def aclose(self) -> None:
        """Close the file and the inner embedder."""
        self._file.close()
        await self.inner.aclose()


def remember_vectors(reme: Engine) -> RememberingEmbedder:
    """Let an engine embed what it has not embedded before alone; gives its embedder."""
    usual = reme._workspace_models.default
    remembering = RememberingEmbedder(getattr(usual, "inner", usual))  # not what its own cache of queries keeps
    reme._workspace_models.default = remembering
    return remembering
