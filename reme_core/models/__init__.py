"""Models: protocols for chat, embedding and reranking, and their providers."""

from reme_core.models.base import ChatModel, Conversation, Embedder, ModelCall, Reranker, Tool

__all__ = ["ChatModel", "Conversation", "Embedder", "ModelCall", "Reranker", "Tool"]
