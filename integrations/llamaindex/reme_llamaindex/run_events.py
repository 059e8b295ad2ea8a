"""Observes runs by LlamaIndex's instrumentation: it records tool calls, and shows notes to models.

Agents put only some of their tool calls into their memory, and never the duration or the failure of a call. They also
stream their prompts to front ends. The instrumentation sees each call of a tool or model, for every kind of agent.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from typing import Any, Final, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from llama_index.core.agent.workflow import BaseWorkflowAgent, ToolCallResult
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.llms import LLM
from llama_index.core.memory import Memory
from llama_index.core.prompts import ChatPromptTemplate
from llama_index.core.workflow import Context
from llama_index_instrumentation import get_dispatcher
from pydantic import PrivateAttr

from reme_core.turn import ASKER, Asker, TurnMemory, tool_call_result
from reme_llamaindex.noted_message import show_notes

log = logging.getLogger(__name__)

# Nothing public tells a run that begins from an application that serialises. Without it, each run has a copy.
_BEGINS_RUN: Final = getattr(getattr(Context, "_workflow_run", None), "__code__", None)
_agent: ContextVar[str] = ContextVar("reme_llamaindex_agent", default="")


@runtime_checkable
class ToolListener(Protocol):
    """A memory that tool calls are recorded in."""

    @property
    def turn(self) -> TurnMemory:
        """The long-term memory."""

    @property
    def place(self) -> tuple[str, str]:
        """The ids of the conversation and of the turn."""


class RunSpans(BaseSpanHandler[BaseSpan]):
    """Observes the steps in which agents call tools and models. It stores no spans."""

    _begun: dict[str, float] = PrivateAttr(default_factory=dict)
    _agents: WeakKeyDictionary[Any, str] = PrivateAttr(default_factory=WeakKeyDictionary)  # by the store of a run
    _tasks: set[asyncio.Task[None]] = PrivateAttr(default_factory=set)

    def span_enter(
        self, id_: str, bound_args: inspect.BoundArguments, instance: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        """Show a model the note; keep the begin of a tool call, and the agent of a step."""
        if isinstance(instance, LLM):
            _show_notes(instance, bound_args.arguments)
        if agent := self._agent_of(bound_args, instance):
            _agent.set(agent)  # for this step only: it is a task with its own context
        if ".call_tool-" in id_:
            self._begun[id_] = time.perf_counter()
            ASKER.set(Asker(_agent.get()))

    def _agent_of(self, bound_args: inspect.BoundArguments, instance: Any) -> str | None:
        """The agent of a step. If the step does not name it, this is the agent of the last step in the same run."""
        if isinstance(instance, BaseWorkflowAgent):  # an agent that runs without an `AgentWorkflow`
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
        """Record a finished tool call in the memory of its run."""
        begun, context = self._begun.pop(id_, None), bound_args.arguments.get("ctx")
        if begun is not None and isinstance(result, ToolCallResult) and isinstance(context, Context):
            task = asyncio.get_running_loop().create_task(_report(context, result, id_, time.perf_counter() - begun))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def span_drop(self, id_: str, *args: Any, **kwargs: Any) -> None:
        """Forget a cancelled call."""
        self._begun.pop(id_, None)

    def new_span(self, *args: Any, **kwargs: Any) -> None:
        """No span is stored."""

    def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> None:
        """No span is stored."""

    def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> None:
        """No span is stored."""


def is_run_begun() -> bool:
    """Whether this is called while LlamaIndex begins a run; it then copies the state of the `Context`."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not _BEGINS_RUN:
        frame = frame.f_back
    return frame is not None


def running_agent() -> str:
    """The name of the agent whose step is running; empty outside of a step."""
    return _agent.get()


@cache
def listen_to_runs() -> None:
    """Begin to observe all agents in this process. Calls are recorded in the memory of their run."""
    get_dispatcher().add_span_handler(RunSpans())


def _show_notes(llm: LLM, arguments: Mapping[str, Any]) -> None:
    """Put the notes into what a model is called with."""
    messages, template = arguments.get("messages"), arguments.get("prompt")
    if isinstance(messages, list):
        show_notes(messages)
    elif isinstance(template, ChatPromptTemplate) and not llm.metadata.is_chat_model:
        show_notes(template.message_templates)  # of them LlamaIndex makes the text that such a model completes


async def _report(context: Context, result: ToolCallResult, span: str, seconds: float) -> None:
    output = result.tool_output
    for memory in _memories(await context.store.get("memory", default=None)):
        place = (*memory.place, span)  # some models give all calls of a tool one id
        call = tool_call_result(result.tool_name, result.tool_kwargs, output.content, not output.is_error, *place)
        memory.turn.record_calls([call.model_copy(update={"time_cost": seconds})])


def _memories(memory: Any) -> Iterator[ToolListener]:
    if isinstance(memory, ToolListener):
        yield memory
    if isinstance(memory, Memory):
        yield from (block for block in memory.memory_blocks if isinstance(block, ToolListener))
