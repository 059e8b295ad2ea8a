"""ReMe core as the long-term memory of LlamaIndex agents.

`ReMeMemory` recalls before each turn and records after it; `ReMeMemoryBlock` gives a stock `Memory` what is known, and
`ConversationStore` a place for its messages that needs no closing. `show_notes` is for models of other kinds.
"""

from reme_llamaindex.block import ReMeMemoryBlock
from reme_llamaindex.memory import ReMeMemory
from reme_llamaindex.noted_message import show_notes
from reme_llamaindex.short_term import ConversationStore

__all__ = ["ConversationStore", "ReMeMemory", "ReMeMemoryBlock", "show_notes"]
