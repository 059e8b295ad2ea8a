"""ReMe core as the long-term memory of LangChain and LangGraph agents.

`ReMeMiddleware` recalls before each turn of an agent and records after it. `ReMeStore` is LangGraph's store,
`ReMeRetriever` a retriever, `ReMeChatMessageHistory` a chat history, and `memory_tools` are tools for the agent itself.
"""

from reme_langchain.history import ReMeChatMessageHistory
from reme_langchain.middleware import ReMeMiddleware
from reme_langchain.retriever import ReMeRetriever
from reme_langchain.store import ReMeStore
from reme_langchain.tools import ReMeTool, memory_tools

__all__ = ["ReMeChatMessageHistory", "ReMeMiddleware", "ReMeRetriever", "ReMeStore", "ReMeTool", "memory_tools"]
