"""The options that every adapter takes are those of `TurnMemory`."""

from __future__ import annotations

import inspect
from typing import get_type_hints

from reme_core.turn import OWN_TOOLS, MemoryTools, TurnMemory, TurnOptions


def test_they_have_the_names_and_types_of_the_parameters() -> None:
    parameters = inspect.signature(TurnMemory.__init__).parameters.values()
    hints = get_type_hints(TurnMemory.__init__)
    own = {p.name: hints[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert get_type_hints(TurnOptions) == own


def test_the_memory_tools_are_known_by_name() -> None:
    tools = [name for name in vars(MemoryTools) if not name.startswith("_") and name != "all"]
    assert set(tools) <= OWN_TOOLS
