"""DashScope (Alibaba Cloud): chat and embedding at its OpenAI-compatible endpoint, reranking at its native one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from reme_core.models.openai import OpenAIEmbedder
from reme_core.models.openai_chat import OpenAIChat
from reme_core.models.rerank import HttpReranker

_COMPATIBLE: Final = "https://dashscope.aliyuncs.com/compatible-mode/v1"


class DashScopeChat(OpenAIChat):
    """A Qwen model; it does not think unless `params` has `enable_thinking`."""

    provider: ClassVar[str] = "dashscope"
    base_url: ClassVar[str] = _COMPATIBLE
    # DashScope refuses thinking in answers that are not streamed.
    defaults: ClassVar[dict[str, Any]] = {**OpenAIChat.defaults, "enable_thinking": False}


class DashScopeEmbedder(OpenAIEmbedder):
    """A DashScope embedding model, which accepts at most 10 texts in a request."""

    provider: ClassVar[str] = "dashscope"
    base_url: ClassVar[str] = _COMPATIBLE
    batch_limit: ClassVar[int] = 10


class DashScopeReranker(HttpReranker):
    """`gte-rerank` at DashScope's native endpoint, which accepts fewer than 500 documents. Its scores are 0 to 1."""

    provider: ClassVar[str] = "dashscope"
    base_url: ClassVar[str] = "https://dashscope.aliyuncs.com/api/v1"
    path: ClassVar[str] = "/services/rerank/text-rerank/text-rerank"
    batch_limit: ClassVar[int] = 499

    def _body(self, query: str, documents: Sequence[str]) -> dict[str, Any]:
        return {
            "model": self._model,
            "input": {"query": query, "documents": documents},
            "parameters": {**self._params, "return_documents": False, "top_n": len(documents)},
        }

    def _read(self, answer: dict[str, Any], count: int) -> list[tuple[int, float]]:
        return super()._read(answer.get("output") or {}, count)
