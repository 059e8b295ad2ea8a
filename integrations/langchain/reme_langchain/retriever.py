"""`ReMeRetriever`: a LangChain retriever for the memories and messages of a workspace."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr

from reme_core.errors import InputError, ReMeError
from reme_core.turn import Client, Closing, OnError, ReMeLike, TurnMemory, check_count, refuse_unknown
from reme_core.types import SCOPES, Scope
from reme_langchain.convert import as_document

log = logging.getLogger(__name__)

_TOP_K: Final = 5  # as all adapters have it

_OPTIONS: Final = (
    "database_url", "workspace_id", "client", "kinds", "top_k", "k", "search_kwargs", "min_relevance", "filters",
    *SCOPES, "on_error", "patience",
)  # fmt: skip


class ReMeRetriever(BaseRetriever, Closing):
    """Finds memories and messages for a query.

    ```python
    retriever = ReMeRetriever("postgresql://…", "alice", top_k=4)
    documents = retriever.invoke("Where does my dog live?")
    ```
    """

    k: int
    """How many documents to give at most."""
    min_relevance: float
    """The chance that anything fits the query, 0 to 1, below which nothing is found."""
    on_error: OnError
    """If memory fails: `log` gives no documents, `raise` raises the error."""
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
        """Choose the workspace, and what is found there.

        Args:
            database_url: A database URL or settings; None for the settings of the environment.
            workspace_id: The workspace. By default all users share the workspace `default`.
            client: An open `AsyncReMe` or `ReMe` in place of a URL; it is never closed here.
            kinds: What to look for: `personal`, `task`, `tool`, `conversation`, or single kinds.
            top_k: How many documents to give at most, by default 5; `invoke(query, k=…)` changes it for one call.
            k: Another name of `top_k`, as in LangChain's retrievers.
            search_kwargs: `{"k": 4}`, another form of `top_k`, as in LangChain's vector stores.
            min_relevance: The chance that anything fits the query, 0 to 1, below which nothing is found.
            filters: Only what passes these filters is found; see `TurnOptions`.
            on_error: If memory fails, `log` gives no documents, `raise` raises the error.
            patience: How many seconds to wait before memory counts as failed.
            options: `user_id`, `agent_id` and `run_id`, which limit what is found to their memories, and the options of
                `BaseRetriever`.

        Raises:
            InputError: An option is unknown, or a value does not fit.
        """
        scope: Scope = {name: options.pop(name) for name in SCOPES if name in options}  # type: ignore[assignment]  # `SCOPES` are its names
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
        return [as_document(hit) for hit in hits[:k]]

    async def aclose(self) -> None:
        """Close the connection if it was opened here."""
        await self._turn.aclose()


def _limit_of(search_kwargs: Mapping[str, Any], **limits: int | None) -> int:
    """How many documents are wanted, by any of the three names."""
    if not isinstance(search_kwargs, Mapping):
        raise InputError(f"search_kwargs is a dict such as {{'k': 4}}, not {search_kwargs!r:.60}")
    refuse_unknown(search_kwargs.keys() - {"k"}, known=("k",))
    given = {name: value for name, value in (*limits.items(), *search_kwargs.items()) if value is not None}
    if len(given) > 1:
        raise InputError("top_k and k are the same; give one")
    for name, value in given.items():
        return check_count(name, value)
    return _TOP_K
