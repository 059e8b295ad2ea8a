"""Reranking at any `/rerank` endpoint like Cohere's and Jina's, or by a chat model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from pydantic import BaseModel, Field

from reme_core.errors import ModelAnswerError, ModelRefusedError
from reme_core.models.base import LEAST_CHARACTERS, TOO_MUCH, ChatModel, RemoteModel

_CHAT_CHARACTERS: Final = 1_000
"""How much of one document a chat model is shown."""


class HttpReranker(RemoteModel):
    """A rerank model behind `POST {base_url}/rerank` (Cohere, Jina, vLLM, Infinity, TEI and others)."""

    provider: ClassVar[str] = "cohere"
    path: ClassVar[str] = "/rerank"
    batch_limit: ClassVar[int] = sys.maxsize

    _field: str = "documents"
    """The field of the documents; of TEI, which refuses the usual one, `texts`."""

    async def rank(self, query: str, documents: Sequence[str]) -> list[tuple[int, float]]:
        """Rank documents, in several requests if they are too many for one; see `Reranker.rank`."""
        # A score depends on its own document alone, so scores of several requests can be compared.
        ranked: list[tuple[int, float]] = []
        for start in range(0, len(documents), self.batch_limit):
            part = documents[start : start + self.batch_limit]
            ranked += [(start + index, score) for index, score in await self._rank_part(query, part)]
        return sorted(ranked, key=lambda pair: (-pair[1], pair[0]))

    async def _rank_part(self, query: str, documents: Sequence[str]) -> list[tuple[int, float]]:
        """Rank documents; what is too much for the server is sent in halves, and of one document the first."""
        try:
            with self._report("rerank") as usage:
                answer = await self._endpoint.post(self._model, self.path, self._body(query, documents))
                answer = {"results": answer} if isinstance(answer, list) else answer  # as TEI has it
                usage.prompt_tokens = _total_tokens(answer)
                return self._read(answer, len(documents))
        except ModelRefusedError as refusal:
            if self._field != "texts" and "missing field `texts`" in str(refusal):
                self._field = "texts"
                return await self._rank_part(query, documents)
            if not TOO_MUCH.search(str(refusal)) or (len(documents) == 1 and len(documents[0]) < LEAST_CHARACTERS):
                raise
        if len(documents) == 1:
            return await self._rank_part(query, [documents[0][: len(documents[0]) // 2]])
        middle = len(documents) // 2
        first = await self._rank_part(query, documents[:middle])
        return first + [(middle + index, score) for index, score in await self._rank_part(query, documents[middle:])]

    def _body(self, query: str, documents: Sequence[str]) -> dict[str, Any]:
        own = {"model": self._model, "query": query, self._field: documents, "top_n": len(documents)}
        return {**self._params, **own}

    def _read(self, answer: dict[str, Any], count: int) -> list[tuple[int, float]]:
        """Read (index, score) pairs from `results: [{index, relevance_score}]`; the score may be called `score` too.

        Raises:
            ModelAnswerError: The answer has another form, or an index is not below `count` or comes twice.
        """
        try:
            results = [
                (int(item["index"]), float(item["relevance_score"] if "relevance_score" in item else item["score"]))
                for item in answer["results"]
            ]
        except (KeyError, TypeError, ValueError):
            raise ModelAnswerError(
                f"{self._model} gave no list of results with index and relevance_score; check that base_url is a rerank"
                " endpoint",
                raw=str(answer),
            ) from None
        indices = {index for index, _ in results}
        if len(indices) != len(results) or not all(0 <= index < count for index in indices):
            raise ModelAnswerError(
                f"{self._model} ranked documents that it was not given, or one of them twice", raw=str(answer)
            )
        return results


class _Ranking(BaseModel):
    ranked_indices: list[int] = Field(description="Numbers of the documents, the most useful first")


class ChatReranker:
    """A chat model that orders documents.

    Documents that its answer leaves out follow the others, in their own order. The scores only give the order: they
    fall evenly from 1 for the first to 1/n for the last.
    """

    def __init__(self, chat: ChatModel) -> None:
        self.name = chat.name
        self._chat = chat

    async def rank(self, query: str, documents: Sequence[str]) -> list[tuple[int, float]]:
        """Rank documents; see `Reranker.rank`."""
        if not documents:
            return []
        listed = "\n".join(f"[{index}] {text[:_CHAT_CHARACTERS]}" for index, text in enumerate(documents))
        request = (
            "Order the numbered documents by how much they help with the query: relevance first, then likeness of the "
            "situation, then how directly one can act on them. Leave out what does not help. Answer with a JSON object "
            f'{{"ranked_indices": [numbers, best first]}}.\n\nQuery: {query}\n\nDocuments:\n{listed}'
        )
        ranking = await self._chat.complete_as([{"role": "user", "content": request}], _Ranking, purpose="rerank")
        ranked = [index for index in ranking.ranked_indices if 0 <= index < len(documents)]
        order = list(dict.fromkeys([*ranked, *range(len(documents))]))
        return [(index, 1 - place / len(order)) for place, index in enumerate(order)]

    async def aclose(self) -> None:
        """Release the chat model's connections."""
        await self._chat.aclose()


def _total_tokens(answer: dict[str, Any]) -> int:
    """The tokens that an answer says it took; 0 if it gives no number."""
    usage = answer.get("usage")
    tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
    return tokens if isinstance(tokens, int) else 0
