"""`ReMeStore`: LangGraph's long-term store on Postgres tables that plain SQL can read.

It answers as LangGraph's `InMemoryStore` does, and items can expire. It differs where that store has defects. Only
namespaces with items are listed. An overwritten item is no longer found by its old texts. A page of search results is a
slice of all results.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from copy import deepcopy
from typing import Any, Final, Never, Self, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
)

from reme_core import Item as RememberedItem
from reme_core import Items, ItemWrite, NamespacePattern
from reme_core.errors import InputError, ReMeError
from reme_core.turn import (
    Client,
    Closing,
    ReMeLike,
    TurnConnection,
    callers_portal,
    check_workspace,
    name_workspace,
    refuse_unknown,
)
from reme_langchain.batches import Batches
from reme_langchain.store_config import check_index, check_ttl


class StoreOptions(TypedDict, total=False):
    """What `ReMeStore` takes besides the database and the workspace."""

    index: IndexConfig | None
    ttl: TTLConfig | None


Namespace = tuple[str, ...]
Embedding = npt.NDArray[np.float32]

log = logging.getLogger(__name__)

_SWEEP_MINUTES: Final = 5.0


class ReMeStore(BaseStore, Closing):
    """A LangGraph store in a workspace of ReMe's database.

    ```python
    store = ReMeStore("postgresql://…", "acme")
    agent = create_agent(model, tools, store=store)
    ```

    It may be used from any event loop and any thread; it connects when it is first used.

    Attributes:
        workspace_id: The workspace. Row-level security hides the items of other workspaces, whatever the namespace.
        index_config: Which texts of a value are embedded, and by which model.
        ttl_config: How long items live, in minutes. Expired items are no longer found; their rows are deleted later.
    """

    supports_ttl = True

    def __init__(
        self,
        database_url: ReMeLike = None,
        workspace_id: str | None = None,
        *,
        client: Client | None = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        **unknown: Never,
    ) -> None:
        """Choose the database and the workspace.

        Args:
            database_url: A database URL or settings; None for the settings of the environment.
            workspace_id: The workspace. By default all users share the workspace `default`.
            client: An open `AsyncReMe` or `ReMe` in place of a URL; it is never closed here.
            index: `dims`, `embed` and `fields` for search by meaning (cosine), as for any LangGraph store. Without it,
                searches go by filter alone.
            ttl: `default_ttl` and `refresh_on_read` for items that expire; `sweep_interval_minutes`, by default 5, is
                how often a write also deletes expired rows.
            unknown: Any other option is refused; the error names the one that is likely meant.

        Raises:
            InputError: An option is unknown, or a value does not fit.
        """
        refuse_unknown(unknown, known=("database_url", "client", "workspace_id", "index", "ttl"))
        self.index_config = check_index(index)
        self.embeddings: Embeddings | None = ensure_embeddings(index.get("embed")) if index else None
        self.ttl_config = check_ttl(ttl)
        self._connection = TurnConnection(database_url, client)
        self.workspace_id = check_workspace(name_workspace(workspace_id, self._connection.reme.settings))
        self._batches = Batches(self._run)
        self._next_sweep = 0.0
        self._sweeper: Future[None] | None = None

    @classmethod
    def from_conn_string(
        cls, conn_string: str, workspace_id: str | None = None, **options: Unpack[StoreOptions]
    ) -> Self:
        """A store in the database of this URL, for `with` or `async with`, as other LangGraph stores have it.

        ```python
        with ReMeStore.from_conn_string("postgresql://…", "acme") as store:
            store.setup()
        ```
        """
        return cls(conn_string, workspace_id, **options)

    async def asetup(self) -> None:
        """Bring the database to this version's schema, and connect. It may be called any number of times.

        Raises:
            DatabaseUnavailableError: There is no connection.
            SchemaError: The role may not make the schema, or pgvector is missing.
        """
        await self._connection.set_up()

    def setup(self) -> None:
        """`asetup` for code that does not await."""
        callers_portal().wait(self.asetup())

    async def aclose(self) -> None:
        """Stop the sweeper, and close the connection if it was opened here."""
        self.stop_ttl_sweeper()
        await self._connection.close()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations from code that does not await; see `abatch`."""
        return callers_portal().wait(self.abatch(ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations together. Reads see the state before the batch; of several puts of a key the last one counts.

        Either all writes happen or none. Operations of concurrent callers in this event loop run in the same batch.

        Raises:
            InputError: A value is not JSON, or an operation does not fit; nothing of this batch was written.
            DatabaseUnavailableError: There is no connection.
        """
        batch = list(ops)
        for op in batch:
            if not isinstance(op, GetOp | SearchOp | ListNamespacesOp | PutOp):
                raise InputError(f"a store has no operation {type(op).__name__}")
            namespace = op.namespace_prefix if isinstance(op, SearchOp) else getattr(op, "namespace", ())
            if isinstance(namespace, str):
                raise InputError(f"a namespace is several labels, such as ('users', 'ada'), not {namespace!r:.60}")
            if isinstance(op, PutOp) and not isinstance(op.value, Mapping | None):
                raise InputError(f"a value is an object, such as {{'tea': 'green'}}, not {op.value!r:.60}")
        return await self._batches.ask(batch)

    async def _run(self, ops: Sequence[Op]) -> list[Result]:
        items = self._connection.reme.items
        results = await self._read(items, ops)
        await self._write(items, ops)
        return results

    async def asweep_ttl(self) -> int:
        """Delete the rows of expired items, and return their number."""
        return await self._connection.reme.items.sweep(self.workspace_id)

    def sweep_ttl(self) -> int:
        """`asweep_ttl` for code that does not await."""
        return callers_portal().wait(self.asweep_ttl())

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Also delete the rows of expired items while nothing is written, until `stop_ttl_sweeper` or the store closes.

        It returns at once, and is not awaited. Started twice, it is one sweeper.

        Args:
            sweep_interval_minutes: How often; by default as often as writes do it.

        Raises:
            InputError: That is no positive number.
        """
        asked: Any = {"sweep_interval_minutes": sweep_interval_minutes}
        seconds = _sweep_seconds(self.ttl_config if sweep_interval_minutes is None else check_ttl(asked))
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = callers_portal().submit(self._keep_sweeping(seconds))
        return self._sweeper

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the sweeper, and return True as LangGraph's stores do; it stops at once, whatever the `timeout`."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        return True

    async def _keep_sweeping(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.asweep_ttl()
            except ReMeError as error:
                log.warning("the rows of expired items are not deleted yet: %s", error)

    async def _read(self, items: Items, ops: Sequence[Op]) -> list[Result]:
        """The results of the reading operations, with None in the places of the others."""
        results: list[Result] = [None] * len(ops)
        read: list[RememberedItem] = []
        gets = {n: op for n, op in enumerate(ops) if isinstance(op, GetOp)}
        if gets:
            found = await items.get(self.workspace_id, [(op.namespace, op.key) for op in gets.values()])
            for n, get in gets.items():
                if (one := found.get((get.namespace, get.key))) is not None:
                    results[n] = Item(**_fields(one))
                    read += [one] if get.refresh_ttl else []
        # Equal searches, as of callers who ask at the same time, are asked once. A filter is no key; its `repr` is one.
        equal: dict[str, dict[int, SearchOp]] = {}
        for n, op in enumerate(ops):
            if isinstance(op, SearchOp):
                equal.setdefault(repr(op._replace(refresh_ttl=True)), {})[n] = op
        searches = [next(iter(same.values())) for same in equal.values()]
        vectors = await self._embed_queries([op.query for op in searches if op.query])
        found_by = await asyncio.gather(
            *(
                items.search(
                    self.workspace_id, op.namespace_prefix, filters=op.filter, vector=vectors.get(op.query or ""),
                    limit=op.limit, offset=op.offset,
                )
                for op in searches
            )
        )  # fmt: skip
        for same, hits in zip(equal.values(), found_by, strict=True):
            for n, search in same.items():
                results[n] = [SearchItem(**_fields(one), score=one.score) for one in hits]
                read += hits if search.refresh_ttl else []
        for n, op in enumerate(ops):
            if isinstance(op, ListNamespacesOp):
                results[n] = await self._namespaces(items, op)
        if any(item.expires for item in read):
            await items.refresh(self.workspace_id, read)
        return results

    async def _namespaces(self, items: Items, op: ListNamespacesOp) -> list[Namespace]:
        patterns = []
        for condition in op.match_conditions or ():
            if condition.match_type not in ("prefix", "suffix"):
                raise InputError(f"namespaces are matched by 'prefix' or 'suffix', not {condition.match_type!r}")
            patterns.append(NamespacePattern(tuple(condition.path), at_end=condition.match_type == "suffix"))
        return await items.namespaces(self.workspace_id, patterns, depth=op.max_depth, limit=op.limit, offset=op.offset)

    async def _write(self, items: Items, ops: Sequence[Op]) -> None:
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        if not puts:
            return
        if time.monotonic() >= self._next_sweep:
            self._next_sweep = time.monotonic() + _sweep_seconds(self.ttl_config)
            await items.sweep(self.workspace_id)
        writes = {
            name: ItemWrite(*name, None if op.value is None else dict(op.value), op.ttl) for name, op in puts.items()
        }
        for name, vectors in (await self._embed_values(puts)).items():
            writes[name].vectors.update(vectors)
        looked_into = [op.namespace for op in ops if isinstance(op, GetOp)]
        await items.write(self.workspace_id, list(writes.values()), order=looked_into)

    async def _embed_queries(self, queries: Sequence[str]) -> dict[str, Embedding]:
        if self.embeddings is None:
            return {}
        return {
            text: np.asarray(await self.embeddings.aembed_query(text), np.float32) for text in dict.fromkeys(queries)
        }

    async def _embed_values(
        self, puts: dict[tuple[Namespace, str], PutOp]
    ) -> dict[tuple[Namespace, str], dict[str, Embedding]]:
        """The vectors of each item's texts, by item and path; each text is embedded once."""
        if self.embeddings is None or self.index_config is None:
            return {}
        fields = self.index_config.get("fields") or ["$"]
        texts = {
            name: dict(_texts(dict(op.value), fields if op.index is None else op.index))
            for name, op in puts.items()
            if op.value is not None and op.index is not False
        }
        unique = list(dict.fromkeys(text for paths in texts.values() for text in paths.values()))
        if not unique:
            return {}
        embedded = await self.embeddings.aembed_documents(unique)
        vectors = {text: np.asarray(vector, np.float32) for text, vector in zip(unique, embedded, strict=True)}
        for vector in vectors.values():
            if vector.shape != (self.index_config["dims"],):
                raise InputError(
                    f"the index has {self.index_config['dims']} dimensions, and a vector of the model {len(vector)};"
                    " correct `dims`"
                )
        return {name: {path: vectors[text] for path, text in paths.items()} for name, paths in texts.items()}


def _sweep_seconds(ttl: TTLConfig | None) -> float:
    return (ttl or {}).get("sweep_interval_minutes", _SWEEP_MINUTES) * 60


def _texts(value: dict[str, Any], fields: Sequence[str]) -> Iterable[tuple[str, str]]:
    for field in fields:
        texts = get_text_at_path(value, field)
        if len(texts) == 1:
            yield field, texts[0]
        else:
            yield from ((f"{field}.{place}", text) for place, text in enumerate(texts))


def _fields(found: RememberedItem) -> dict[str, Any]:
    fields = {name: getattr(found, name) for name in ("namespace", "key", "created_at", "updated_at")}
    return fields | {"value": deepcopy(found.value)}  # others who read the same item change the value of their own
