"""Models: protocols for chat, embedding and reranking, and their providers."""

from __future__ import annotations

from reme_core.models.base import ChatModel, Completion, Conversation, Embedder, ModelCall, OnCall, Reranker, Tool
from reme_core.models.registry import chat_model, embedder, embedder_by_name, offline_reason, reranker

__all__ = [
    "ChatModel",
    "Completion",
    "Conversation",
    "Embedder",
    "ModelCall",
    "OnCall",
    "Reranker",
    "Tool",
    "chat_model",
    "embedder",
    "embedder_by_name",
    "offline_reason",
    "reranker",
]
