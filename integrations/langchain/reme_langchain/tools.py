"""The memory tools as LangChain's, for agents that tend their memory themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.tools import BaseTool
from pydantic import PrivateAttr

from reme_core.turn import TurnMemory
from reme_core.turn_tools import MemoryTools, arguments, described


class ReMeTool(BaseTool):
    """One of `search_memory`, `add_memory`, `update_memory` and `forget_memory`."""

    _turn: Callable[[], TurnMemory] = PrivateAttr()

    def __init__(
        self, name: str, turn: TurnMemory, whose: Callable[[], TurnMemory] | None = None, **options: Any
    ) -> None:
        """Make the tool of that name.

        Args:
            name: One of the four.
            turn: The memory it works on.
            whose: Tells, whenever the tool is called, which memory it works on instead: that of the run's tenant.
            options: Everything else that `BaseTool` takes.
        """
        function = getattr(MemoryTools(turn), name)
        super().__init__(
            name=name, description=described(function).description, args_schema=arguments(function), **options
        )
        self._turn = whose or (lambda: turn)

    def _run(self, **given: Any) -> str:
        turn = self._turn()
        answer: str = turn.call(getattr(MemoryTools(turn), self.name), **given)
        return answer

    async def _arun(self, **given: Any) -> str:
        answer: str = await getattr(MemoryTools(self._turn()), self.name)(**given)
        return answer


def memory_tools(turn: TurnMemory, whose: Callable[[], TurnMemory] | None = None) -> list[BaseTool]:
    """The four tools on one memory; see `ReMeTool`.

    ```python
    agent = create_agent(model, memory_tools(TurnMemory("postgresql://…", "alice")))
    ```
    """
    return [ReMeTool(tool.__name__, turn, whose) for tool in MemoryTools(turn).all()]
