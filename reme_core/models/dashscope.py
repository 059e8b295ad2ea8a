"""DashScope (Alibaba Cloud): chat and embedding by its OpenAI-compatible endpoint, reranking by its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from reme_core.models.base import OnCall, reported
from reme_core.models.endpoint import Endpoint
from reme_core.models.openai import OpenAIEmbedder
from reme_core.models.openai_chat import OpenAIChat
from reme_core.models.rerank import best_first, results_of

BASE_URL: Final = "https://dashscope.aliyuncs.com/compatible-mode/v1"
RERANK_BASE_URL: Final = "https://dashscope.aliyuncs.com/api/v1"
RERANK_MODEL: Final = "gte-rerank"
RERANK_PATH: Final = "/services/rerank/text-rerank/text-rerank"
RERANK_LIMIT: Final = 499
"""Documents in one rerank request: DashScope takes fewer than 500."""


class DashScopeChat(OpenAIChat):
    """A Qwen model; DashScope refuses thinking in answers that don't stream, so it is off unless set in `params`."""

    provider: ClassVar[str] = "dashscope"
    defaults: ClassVar[dict[str, Any]] = {**OpenAIChat.defaults, "enable_thinking": False}


class DashScopeEmbedder(OpenAIEmbedder):
    """A DashScope embedding model, which takes at most 10 texts a request."""

    provider: ClassVar[str] = "dashscope"
    batch_limit: ClassVar[int] = 10


class DashScopeReranker:
    """`gte-rerank` at DashScope's native endpoint. Its scores (0 to 1) judge each document by itself.

    Args:
        model: The rerank model's name.
        endpoint: Where `/services/rerank/…` lies, `RERANK_BASE_URL` by default settings.
        on_call: Told of every call.
    """

    def __init__(self, model: str, endpoint: Endpoint, *, on_call: OnCall | None = None) -> None:
        self._model = model
        self._endpoint = endpoint
        self._on_call = on_call

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model

    async def rank(self, query: str, documents: Sequence[str], top_n: int | None = None) -> list[tuple[int, float]]:
        """Rank documents, in several requests where there are too many for one; see `Reranker.rank`."""
        ranked: list[tuple[int, float]] = []
        for start in range(0, len(documents), RERANK_LIMIT):
            part = list(documents[start : start + RERANK_LIMIT])
            body = {
                "model": self._model,
                "input": {"query": query, "documents": part},
                "parameters": {"return_documents": False, "top_n": len(part)},
            }
            with reported(self._on_call, "dashscope", self._model, "rerank") as usage:
                answer = await self._endpoint.post(self._model, RERANK_PATH, body)
                usage.prompt_tokens = int((answer.get("usage") or {}).get("total_tokens") or 0)
                results = results_of(answer.get("output") or {}, len(part), self._model)
            ranked += [(start + index, score) for index, score in results]
        return best_first(ranked, top_n)

    async def aclose(self) -> None:
        """Give connections back."""
        await self._endpoint.aclose()

    def __repr__(self) -> str:
        return f"DashScopeReranker({self._model!r}, {self._endpoint!r})"
