"""ReMe core as the long-term memory of LlamaIndex agents.

`ReMeMemory` recalls before each turn and records after it; `ReMeMemoryBlock` gives a stock `Memory` what is known.
"""

from reme_llamaindex.block import ReMeMemoryBlock
from reme_llamaindex.memory import ReMeMemory

__all__ = ["ReMeMemory", "ReMeMemoryBlock"]
