"""The memory tools as LlamaIndex's, for agents that tend their memory themselves."""

from __future__ import annotations

from functools import partial

from llama_index.core.tools import BaseTool, FunctionTool

from reme_core.turn import MemoryTools, TurnMemory, arguments_model, tool_schema


def memory_tools(turn: TurnMemory) -> list[BaseTool]:
    """`search_memory`, `add_memory`, `update_memory` and `forget_memory` on one memory."""
    return [
        FunctionTool.from_defaults(
            fn=partial(turn.call, tool),
            async_fn=tool,
            name=tool.__name__,
            description=tool_schema(tool).description,
            fn_schema=arguments_model(tool),
        )
        for tool in MemoryTools(turn).all()
    ]
