"""`ReMeRetriever`: what a workspace remembers, as a LangChain retriever."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr

from reme_core.errors import InputError, ReMeError
from reme_core.turn import Client, OnError, ReMeLike, TurnMemory, interleave, refuse_unknown
from reme_langchain.convert import as_document

log = logging.getLogger(__name__)

_MEANT: Final = {**dict.fromkeys(("top_k", "limit", "search_kwargs"), "k"), "search_type": "kinds"}
"""What options of other retrievers are called here."""


class ReMeRetriever(BaseRetriever):
    """Finds memories, and what was said, for a query.

    ```python
    retriever = ReMeRetriever("postgresql://…", "alice", k=4)
    documents = retriever.invoke("Where does my dog live?")
    ```
    """

    k: int
    """Documents at the most."""
    on_error: OnError
    """Whether a memory that fails yields nothing, or an error."""
    _turn: TurnMemory = PrivateAttr()

    def __init__(
        self,
        database_url: ReMeLike = None,
        workspace_id: str | None = None,
        *,
        client: Client | None = None,
        kinds: Sequence[str] = ("personal", "conversation"),
        k: int = 5,
        filters: Mapping[str, Any] | None = None,
        on_error: OnError = "log",
        patience: float = 10.0,
        **options: Any,
    ) -> None:
        """Say where to look.

        Args:
            database_url: A database URL or settings; None for what the environment says.
            workspace_id: The tenant. Default: `default`, which all share.
            client: An open `AsyncReMe` or `ReMe` in place of a URL; it is never closed here.
            kinds: What to look for: `personal`, `task`, `tool`, `conversation`, or single kinds.
            k: Documents at the most; `invoke(query, k=…)` says it for one call.
            filters: What alone is found, as `TurnMemory` takes them.
            on_error: `log` yields nothing where memory fails, `raise` the error.
            patience: Seconds before memory counts as failed.
            options: Everything else that `BaseRetriever` takes.

        Raises:
            InputError: There is no such option, or a value does not fit.
        """
        for name in options.keys() & _MEANT.keys():
            raise InputError(f"there is no option {name!r}; did you mean {_MEANT[name]!r}?")
        refuse_unknown(options.keys() - BaseRetriever.model_fields.keys(), "k")
        super().__init__(k=_check_k(k), on_error=on_error, **options)
        self._turn = TurnMemory(
            database_url,
            workspace_id,
            client=client,
            kinds=kinds,
            top_k=k,
            filters=filters,
            on_error=on_error,
            write="off",
            patience=patience,
            spool="memory",
        )

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return self._turn.call(self._documents, query, self.k if k is None else _check_k(k))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return await self._documents(query, self.k if k is None else _check_k(k))

    async def _documents(self, query: str, k: int) -> list[Document]:
        try:
            hits = await self._turn.recall(query, limit=k)
        except ReMeError as error:
            if self.on_error == "raise":
                raise
            log.warning("nothing was retrieved: %s", error)
            return []
        return [as_document(hit) for hit in interleave(hits)[:k]]

    async def aclose(self) -> None:
        """Close what was opened here."""
        await self._turn.aclose()

    def close(self) -> None:
        """`aclose` for code that does not await."""
        self._turn.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()


def _check_k(k: int) -> int:
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise InputError(f"k is how many documents at the most, 1 or more; not {k!r}")
    return k
