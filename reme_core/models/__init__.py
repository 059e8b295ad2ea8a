"""Models: protocols for chat, embedding and reranking, and their providers."""

from __future__ import annotations

from reme_core.models.base import (
    ChatModel,
    Completion,
    Embedder,
    InputType,
    ModelCall,
    OnCall,
    Reranker,
    Tool,
    Vectors,
)
from reme_core.models.registry import chat_model, embedder, embedder_by_name, offline_reason, reranker

__all__ = [
    "ChatModel",
    "Completion",
    "Embedder",
    "InputType",
    "ModelCall",
    "OnCall",
    "Reranker",
    "Tool",
    "Vectors",
    "chat_model",
    "embedder",
    "embedder_by_name",
    "offline_reason",
    "reranker",
]
