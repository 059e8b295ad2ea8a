"""The memory tools as tools of LangChain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.tools import BaseTool
from pydantic import PrivateAttr

from reme_core.errors import InputError
from reme_core.turn import MemoryTool, MemoryTools, TurnMemory, WindowTools, arguments_model, tool_schema


class ReMeTool(BaseTool):
    """One of the four memory tools, or of the two tools that read what left a window."""

    _turn: Callable[[], TurnMemory] = PrivateAttr()

    def __init__(
        self, name: str, turn: TurnMemory, current: Callable[[], TurnMemory] | None = None, **options: Any
    ) -> None:
        """Make a tool.

        Args:
            name: The name of the tool, such as `search_memory`.
            turn: The memory that it works on.
            current: Called at each call of the tool; returns the memory to use in place of `turn`.
            options: The other options of `BaseTool`.

        Raises:
            InputError: No tool has this name.
        """
        functions = _functions(turn)
        if name not in functions:
            raise InputError(f"there is no memory tool {name!r}; there are {', '.join(functions)}")
        function = functions[name]
        super().__init__(
            name=name, description=tool_schema(function).description, args_schema=arguments_model(function), **options
        )
        self._turn = current or (lambda: turn)

    def _run(self, **arguments: Any) -> str:
        turn = self._turn()
        answer: str = turn.call(_functions(turn)[self.name], **arguments)
        return answer

    async def _arun(self, **arguments: Any) -> str:
        answer: str = await _functions(self._turn())[self.name](**arguments)
        return answer


def memory_tools(turn: TurnMemory, current: Callable[[], TurnMemory] | None = None) -> list[BaseTool]:
    """The four memory tools for one memory; see `ReMeTool`.

    ```python
    agent = create_agent(model, memory_tools(TurnMemory("postgresql://…", "alice")))
    ```
    """
    return [ReMeTool(tool.__name__, turn, current) for tool in MemoryTools(turn).all()]


def window_tools(turn: TurnMemory, current: Callable[[], TurnMemory] | None = None) -> list[BaseTool]:
    """The tools that search and read what left an agent's window; none if no window is set."""
    return [ReMeTool(tool.__name__, turn, current) for tool in WindowTools(turn).all()]


def _functions(turn: TurnMemory) -> dict[str, MemoryTool]:
    tools = [*MemoryTools(turn).all(), *WindowTools(turn).all()]
    return {tool.__name__: tool for tool in tools}
