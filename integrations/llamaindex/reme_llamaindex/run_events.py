"""What LlamaIndex's instrumentation tells of runs: calls of tools, which are recorded, and of models, which get notes.

Agents do not put all of their tool calls into their memory, and never how long a call took or whether it failed; and
what they give their model they also stream to front ends. The instrumentation sees each call, for every kind of agent.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from llama_index.core.agent.workflow import BaseWorkflowAgent, ToolCallResult
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.llms import LLM
from llama_index.core.memory import Memory
from llama_index.core.workflow import Context
from llama_index_instrumentation import get_dispatcher
from pydantic import PrivateAttr

from reme_core.turn import TurnMemory, tool_call_result
from reme_llamaindex.noted_message import show_notes

log = logging.getLogger(__name__)

_agent: ContextVar[str] = ContextVar("reme_llamaindex_agent", default="")


@runtime_checkable
class ToolListener(Protocol):
    """Has a long-term memory, and knows its place in the conversation."""

    @property
    def turn(self) -> TurnMemory:
        """The long-term memory."""

    @property
    def place(self) -> tuple[str, str]:
        """The conversation and the turn."""


class RunSpans(BaseSpanHandler[BaseSpan]):
    """Observes the steps in which agents call tools and models; it stores no spans."""

    _begun: dict[str, float] = PrivateAttr(default_factory=dict)
    _agents: WeakKeyDictionary[Any, str] = PrivateAttr(default_factory=WeakKeyDictionary)  # by the store of a run
    _tasks: set[asyncio.Task[None]] = PrivateAttr(default_factory=set)

    def span_enter(
        self, id_: str, bound_args: inspect.BoundArguments, instance: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        """Show a model the note; remember when a tool's call began, and which agent takes a step."""
        if isinstance(instance, LLM) and isinstance(prompt := bound_args.arguments.get("messages"), list):
            show_notes(prompt)
        if ".call_tool-" in id_:
            self._begun[id_] = time.perf_counter()
        if agent := self._agent_of(bound_args, instance):
            _agent.set(agent)  # for this step alone, which is a task with a context of its own

    def _agent_of(self, bound_args: inspect.BoundArguments, instance: Any) -> str | None:
        """The agent that takes a step; of a step that does not name it, the one of the step before in the same run."""
        if isinstance(instance, BaseWorkflowAgent):  # which is on its own, in no `AgentWorkflow`
            return instance.name
        context = bound_args.arguments.get("ctx")
        named: str | None = getattr(bound_args.arguments.get("ev"), "current_agent_name", None)
        if not isinstance(context, Context):
            return named
        if named:
            self._agents[context.store] = named
        return self._agents.get(context.store)

    def span_exit(
        self, id_: str, bound_args: inspect.BoundArguments, instance: Any = None, result: Any = None, **kwargs: Any
    ) -> None:
        """Record in the memory of the run how a call went."""
        begun, context = self._begun.pop(id_, None), bound_args.arguments.get("ctx")
        if begun is not None and isinstance(result, ToolCallResult) and isinstance(context, Context):
            task = asyncio.get_running_loop().create_task(_report(context, result, time.perf_counter() - begun))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def span_drop(self, id_: str, *args: Any, **kwargs: Any) -> None:
        """Forget a call that was cancelled."""
        self._begun.pop(id_, None)

    def new_span(self, *args: Any, **kwargs: Any) -> None:
        """No span is stored."""

    def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> None:
        """No span is stored."""

    def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> None:
        """No span is stored."""


def running_agent() -> str:
    """The name of the agent whose step is running; empty outside of one."""
    return _agent.get()


@cache
def listen_to_runs() -> None:
    """Begin to observe all agents in this process; a run says which memory its calls belong to."""
    get_dispatcher().add_span_handler(RunSpans())


async def _report(context: Context, result: ToolCallResult, seconds: float) -> None:
    output = result.tool_output
    for memory in _memories(await context.store.get("memory", default=None)):
        place = (*memory.place, result.tool_id)
        call = tool_call_result(result.tool_name, result.tool_kwargs, output.content, not output.is_error, *place)
        memory.turn.record_calls([call.model_copy(update={"time_cost": seconds})])


def _memories(memory: Any) -> Iterator[ToolListener]:
    if isinstance(memory, ToolListener):
        yield memory
    if isinstance(memory, Memory):
        yield from (block for block in memory.memory_blocks if isinstance(block, ToolListener))
