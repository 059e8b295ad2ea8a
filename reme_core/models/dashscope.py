"""DashScope (Alibaba Cloud): chat and embedding at its OpenAI-compatible endpoint, reranking at its native one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from reme_core.models.base import OnCall, report_call
from reme_core.models.endpoint import Endpoint
from reme_core.models.openai import OpenAIEmbedder
from reme_core.models.openai_chat import OpenAIChat
from reme_core.models.rerank import parse_results, sort_by_score, total_tokens

BASE_URL: Final = "https://dashscope.aliyuncs.com/compatible-mode/v1"
RERANK_BASE_URL: Final = "https://dashscope.aliyuncs.com/api/v1"
RERANK_MODEL: Final = "gte-rerank"
RERANK_PATH: Final = "/services/rerank/text-rerank/text-rerank"
RERANK_LIMIT: Final = 499
"""Documents in one rerank request."""  # DashScope accepts fewer than 500


class DashScopeChat(OpenAIChat):
    """A Qwen model; it does not think unless `params` has `enable_thinking`."""

    provider: ClassVar[str] = "dashscope"
    # DashScope refuses thinking in answers that are not streamed.
    defaults: ClassVar[dict[str, Any]] = {**OpenAIChat.defaults, "enable_thinking": False}


class DashScopeEmbedder(OpenAIEmbedder):
    """A DashScope embedding model, which accepts at most 10 texts in a request."""

    provider: ClassVar[str] = "dashscope"
    batch_limit: ClassVar[int] = 10


class DashScopeReranker:
    """`gte-rerank` at DashScope's native endpoint. Its scores are 0 to 1.

    Args:
        model: The rerank model's name.
        endpoint: The address before `/services/rerank/…`; `RERANK_BASE_URL` unless configured otherwise.
        on_call: Receives every call.
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
        """Rank documents, in several requests if they are too many for one; see `Reranker.rank`."""
        # A score depends on its own document alone, so scores of several requests can be compared.
        ranked: list[tuple[int, float]] = []
        for start in range(0, len(documents), RERANK_LIMIT):
            part = list(documents[start : start + RERANK_LIMIT])
            body = {
                "model": self._model,
                "input": {"query": query, "documents": part},
                "parameters": {"return_documents": False, "top_n": len(part)},
            }
            with report_call(self._on_call, "dashscope", self._model, "rerank") as usage:
                answer = await self._endpoint.post(self._model, RERANK_PATH, body)
                usage.prompt_tokens = total_tokens(answer)
                results = parse_results(answer.get("output") or {}, len(part), self._model)
            ranked += [(start + index, score) for index, score in results]
        return sort_by_score(ranked, top_n)

    async def aclose(self) -> None:
        """Release the connections."""
        await self._endpoint.aclose()

    def __repr__(self) -> str:
        return f"DashScopeReranker({self._model!r}, {self._endpoint!r})"
