"""ReMe core as the long-term memory of AutoGen agents.

`ReMeAssistantAgent` recalls before each turn and records after it. `ReMeMemory` gives a stock `AssistantAgent` a memory
through its `memory=` list, and `ReMeModelContext` through its `model_context=`.
"""

from reme_autogen.agent import ReMeAssistantAgent
from reme_autogen.context import ReMeModelContext
from reme_autogen.memory import ReMeMemory, ReMeMemoryConfig
from reme_autogen.tools import ReMeTool

__all__ = ["ReMeAssistantAgent", "ReMeMemory", "ReMeMemoryConfig", "ReMeModelContext", "ReMeTool"]
