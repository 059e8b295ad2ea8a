"""The memory tools as tools of AutoGen."""

from __future__ import annotations

from typing import Any, Self

from autogen_core import CancellationToken, Component, ComponentModel
from autogen_core.tools import BaseTool
from pydantic import BaseModel

from reme_autogen.memory import ReMeMemory, cancellable, load_memory
from reme_core.errors import ConfigurationError
from reme_core.turn import MemoryTool, MemoryTools, WindowTools, arguments_model, tool_schema


class ReMeToolConfig(BaseModel):
    """The name of a tool, and its memory."""

    name: str
    memory: ComponentModel


class ReMeTool(BaseTool[BaseModel, Any], Component[ReMeToolConfig]):
    """One of the memory tools; it is dumped and loaded with the agent."""

    component_type = "tool"
    component_config_schema = ReMeToolConfig
    component_provider_override = "reme_autogen.ReMeTool"

    def __init__(self, name: str, memory: ReMeMemory) -> None:
        """Make a tool by its name: one of those in `all` or `of_window`.

        Raises:
            ConfigurationError: No tool has this name.
        """
        tools = _functions(memory)
        if name not in tools:
            raise ConfigurationError(f"there is no memory tool {name!r}; there are {', '.join(tools)}")
        super().__init__(arguments_model(tools[name]), str, name, tool_schema(tools[name]).description)
        self._function, self._memory = tools[name], memory

    def share(self, memory: ReMeMemory) -> None:
        """Work with this memory, if the tool's own is one like it; then there is one connection, and one to close."""
        if self._memory.dump_component() == memory.dump_component():
            self._function, self._memory = _functions(memory)[self.name], memory

    @classmethod
    def all(cls, memory: ReMeMemory) -> list[Self]:
        """`search_memory`, `add_memory`, `update_memory` and `forget_memory` for one memory."""
        return [cls(tool.__name__, memory) for tool in MemoryTools(memory.turn).all()]

    @classmethod
    def of_window(cls, memory: ReMeMemory) -> list[Self]:
        """The tools that search and read what left the agent's window; none if the memory has no `window`."""
        return [cls(tool.__name__, memory) for tool in WindowTools(memory.turn).all()]

    async def run(self, args: BaseModel, cancellation_token: CancellationToken) -> str:
        """Call the tool."""
        return await cancellable(self._function(**args.model_dump()), cancellation_token)

    def _to_config(self) -> ReMeToolConfig:
        return ReMeToolConfig(name=self.name, memory=self._memory.dump_component())

    @classmethod
    def _from_config(cls, config: ReMeToolConfig) -> Self:
        return cls(config.name, load_memory(config.memory, "ReMeTool"))


def _functions(memory: ReMeMemory) -> dict[str, MemoryTool]:
    return {tool.__name__: tool for tool in [*MemoryTools(memory.turn).all(), *WindowTools(memory.turn).all()]}
