"""ReMe core as the long-term memory of LlamaIndex agents.

`ReMeMemory` recalls before each turn and records after it. For LlamaIndex's own `Memory` there are `ReMeMemoryBlock`,
which recalls, and `ConversationStore`, a message store that needs no closing. `show_notes` puts notes into the prompts
of models that are not called through LlamaIndex.
"""

from reme_llamaindex.block import ReMeMemoryBlock
from reme_llamaindex.memory import ReMeMemory
from reme_llamaindex.noted_message import show_notes
from reme_llamaindex.short_term import ConversationStore

__all__ = ["ConversationStore", "ReMeMemory", "ReMeMemoryBlock", "show_notes"]
