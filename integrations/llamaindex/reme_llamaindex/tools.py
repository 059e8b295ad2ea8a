"""The memory tools as tools of LlamaIndex."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from llama_index.core.tools import BaseTool, FunctionTool

from reme_core.turn import MemoryTool, MemoryTools, TurnMemory, WindowTools, arguments_model, tool_schema


def memory_tools(turn: TurnMemory) -> list[BaseTool]:
    """`search_memory`, `add_memory`, `update_memory` and `forget_memory` for one memory."""
    return _as_tools(turn, MemoryTools(turn).all())


def window_tools(turn: TurnMemory, session: Callable[[], str]) -> list[BaseTool]:
    """The tools that search and read what left the window; none if no window is set."""
    return _as_tools(turn, WindowTools(turn, session).all())


def _as_tools(turn: TurnMemory, functions: Sequence[MemoryTool]) -> list[BaseTool]:
    return [
        FunctionTool.from_defaults(
            fn=partial(turn.call, tool),
            async_fn=tool,
            name=tool.__name__,
            description=tool_schema(tool).description,
            fn_schema=arguments_model(tool),
        )
        for tool in functions
    ]
