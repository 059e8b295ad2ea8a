"""Long-term memory for LangChain and LangGraph agents, on your own Postgres."""

from reme_langchain.store import ReMeStore

__all__ = ["ReMeStore"]
