"""The memory tools as LangChain's, for agents that tend their memory themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.tools import BaseTool
from pydantic import PrivateAttr

from reme_core.errors import InputError
from reme_core.turn import MemoryTool, MemoryTools, TurnMemory, WindowTools, arguments_model, tool_schema
from reme_langchain.window import SESSION


class ReMeTool(BaseTool):
    """One of the four memory tools, or of the two that read what left a window."""

    _turn: Callable[[], TurnMemory] = PrivateAttr()

    def __init__(
        self, name: str, turn: TurnMemory, current: Callable[[], TurnMemory] | None = None, **options: Any
    ) -> None:
        """Make the tool of that name.

        Args:
            name: One of them.
            turn: The memory it works on.
            current: Gives, whenever the tool is called, the memory to work on instead: that of the run's tenant.
            options: Everything else that `BaseTool` takes.

        Raises:
            InputError: There is no such tool.
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
    """The four tools on one memory; see `ReMeTool`.

    ```python
    agent = create_agent(model, memory_tools(TurnMemory("postgresql://…", "alice")))
    ```
    """
    return [ReMeTool(tool.__name__, turn, current) for tool in MemoryTools(turn).all()]


def window_tools(turn: TurnMemory, current: Callable[[], TurnMemory] | None = None) -> list[BaseTool]:
    """The tools that find and read what left the window of an agent's conversation; none where no window is set."""
    return [ReMeTool(tool.__name__, turn, current) for tool in WindowTools(turn, SESSION.get).all()]


def _functions(turn: TurnMemory) -> dict[str, MemoryTool]:
    tools = [*MemoryTools(turn).all(), *WindowTools(turn, SESSION.get).all()]
    return {tool.__name__: tool for tool in tools}
