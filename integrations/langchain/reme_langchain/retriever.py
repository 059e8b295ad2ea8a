"""`ReMeRetriever`: what a workspace remembers, as a LangChain retriever."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr

from reme_core.errors import InputError, ReMeError
from reme_core.turn import (
    Client,
    Closing,
    OnError,
    ReMeLike,
    TurnMemory,
    check_count,
    interleave,
    refuse_unknown,
)
from reme_core.types import SCOPES, Scope
from reme_langchain.convert import as_document

log = logging.getLogger(__name__)

_TOP_K: Final = 5  # as all adapters have it

_OPTIONS: Final = (
    "database_url", "workspace_id", "client", "kinds", "top_k", "k", "search_kwargs", "min_relevance", "filters",
    *SCOPES, "on_error", "patience",
)  # fmt: skip


class ReMeRetriever(BaseRetriever, Closing):
    """Finds memories, and what was said, for a query.

    ```python
    retriever = ReMeRetriever("postgresql://…", "alice", top_k=4)
    documents = retriever.invoke("Where does my dog live?")
    ```
    """

    k: int
    """Documents at the most."""
    min_relevance: float
    """The chance that anything fits the query, 0 to 1, below which nothing is found."""
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
        top_k: int | None = None,
        k: int | None = None,
        search_kwargs: Mapping[str, Any] | None = None,
        min_relevance: float = 0.0,
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
            top_k: Documents at the most, 5 by default; `invoke(query, k=…)` says it for one call.
            k: The same, as LangChain's retrievers call it.
            search_kwargs: The same, as those of its vector stores do: `{"k": 4}`.
            min_relevance: The chance that anything fits the query, 0 to 1, below which nothing is found.
            filters: What alone is found, as `TurnMemory` takes them.
            on_error: `log` yields nothing where memory fails, `raise` the error.
            patience: Seconds before memory counts as failed.
            options: `user_id`, `agent_id` and `run_id`, of whom alone something is found, and everything else that
                `BaseRetriever` takes.

        Raises:
            InputError: There is no such option, or a value does not fit.
        """
        scope: Scope = {name: options.pop(name) for name in SCOPES if name in options}  # type: ignore[assignment]
        refuse_unknown(options.keys() - BaseRetriever.model_fields.keys(), known=_OPTIONS)
        limit = _limit_of(search_kwargs or {}, k=k, top_k=top_k)
        turn = TurnMemory(
            database_url,
            workspace_id,
            client=client,
            kinds=kinds,
            top_k=limit,
            min_relevance=min_relevance,
            filters=filters,
            on_error=on_error,
            write="off",
            patience=patience,
            spool="memory",
            **scope,
        )
        super().__init__(k=limit, min_relevance=min_relevance, on_error=on_error, **options)
        self._turn = turn

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return self._turn.call(self._documents, query, self.k if k is None else check_count("k", k))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return await self._documents(query, self.k if k is None else check_count("k", k))

    async def _documents(self, query: str, k: int) -> list[Document]:
        try:
            hits = await self._turn.recall(query, limit=k, min_relevance=self.min_relevance)
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


def _limit_of(search_kwargs: Mapping[str, Any], **limits: int | None) -> int:
    """How many documents are wanted, by whatever name that was said."""
    refuse_unknown(search_kwargs.keys() - {"k"}, known=("k",))
    given = {name: value for name, value in (*limits.items(), *search_kwargs.items()) if value is not None}
    if len(given) > 1:
        raise InputError("top_k and k are the same; give one")
    for name, value in given.items():
        return check_count(name, value)
    return _TOP_K
