"""How a turn uses memory, as the keyword arguments that every adapter takes and hands on to `TurnMemory`.

```python
def __init__(self, reme: ReMeLike = None, workspace_id: str = "default", **options: Unpack[TurnOptions]) -> None:
    self.turn = TurnMemory(reme, workspace_id, **options)
```
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from typing_extensions import TypedDict  # Pydantic wants this one before Python 3.12

from reme_core.turn.connections import ReMeLike

__all__ = ["OnError", "ReMeLike", "SpoolPlace", "TurnOptions", "Write"]

OnError = Literal["log", "raise"]
Write = Literal["background", "awaited", "off"]
SpoolPlace = Literal["file", "memory"] | Path


class TurnOptions(TypedDict, total=False):
    """Parameters of `TurnMemory`, which has their defaults."""

    kinds: Sequence[str]
    """What to recall: `personal`, `task`, `tool`, `conversation`, or single kinds. With `tool`, calls of tools are
    recorded too."""
    top_k: int
    """Memories, and as many messages, that a note holds at the most."""
    token_budget: int
    """Tokens that a note takes at the most."""
    on_error: OnError
    """`log` lets a turn go on without memory, `raise` lets it fail."""
    write: Write
    """When a turn is written: in the `background`, `awaited`, or `off`."""
    patience: float
    """Seconds that a turn waits for memory."""
    spool: SpoolPlace
    """Where turns wait that the database has not taken yet: a `file` of ours or a given one, or `memory` alone."""
