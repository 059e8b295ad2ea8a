"""Calls of tools, heard of where LlamaIndex tells its tracers of them, and told to the memory of the run.

An agent tells its memory nothing of how its tools fare: some leave it out of what they put, and none says what a call
took or whether it failed. Its instrumentation is told all of it, whatever the agent.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Iterator
from functools import cache
from typing import Any, Protocol, runtime_checkable

from llama_index.core.agent.workflow import ToolCallResult
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.memory import Memory
from llama_index.core.workflow import Context
from llama_index_instrumentation import get_dispatcher
from pydantic import PrivateAttr

from reme_core.turn import TurnMemory
from reme_core.turn_calls import finished

log = logging.getLogger(__name__)


@runtime_checkable
class Listening(Protocol):
    """What has a long-term memory and knows where in a conversation it stands."""

    @property
    def turn(self) -> TurnMemory:
        """The long-term memory."""

    @property
    def place(self) -> tuple[str, str]:
        """The conversation and the turn."""


class ToolSpans(BaseSpanHandler[BaseSpan]):
    """Hears of the step in which an agent calls a tool; it keeps no spans."""

    _begun: dict[str, float] = PrivateAttr(default_factory=dict)
    _telling: set[asyncio.Task[None]] = PrivateAttr(default_factory=set)

    def span_enter(self, id_: str, *args: Any, **kwargs: Any) -> None:
        """Note when a call begins."""
        if ".call_tool-" in id_:
            self._begun[id_] = time.perf_counter()

    def span_exit(
        self, id_: str, bound_args: inspect.BoundArguments, instance: Any = None, result: Any = None, **kwargs: Any
    ) -> None:
        """Tell the memory of the run how a call went."""
        begun, context = self._begun.pop(id_, None), bound_args.arguments.get("ctx")
        if begun is not None and isinstance(result, ToolCallResult) and isinstance(context, Context):
            task = asyncio.get_running_loop().create_task(_tell(context, result, time.perf_counter() - begun))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    def span_drop(self, id_: str, *args: Any, **kwargs: Any) -> None:
        """Forget a call that was broken off."""
        self._begun.pop(id_, None)

    def new_span(self, *args: Any, **kwargs: Any) -> None:
        """No span is kept."""

    def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> None:
        """No span is kept."""

    def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> None:
        """No span is kept."""


@cache
def listen_to_tools() -> None:
    """Begin to hear of all agents' tools in this process; which memory is told, their runs say."""
    get_dispatcher().add_span_handler(ToolSpans())


async def _tell(context: Context, result: ToolCallResult, seconds: float) -> None:
    output = result.tool_output
    for memory in _memories(await context.store.get("memory", default=None)):
        place = (*memory.place, result.tool_id)
        call = finished(result.tool_name, result.tool_kwargs, output.content, not output.is_error, *place)
        memory.turn.record_calls([call.model_copy(update={"time_cost": seconds})])


def _memories(memory: Any) -> Iterator[Listening]:
    if isinstance(memory, Listening):
        yield memory
    if isinstance(memory, Memory):
        yield from (block for block in memory.memory_blocks if isinstance(block, Listening))
