"""`ReMeMiddleware`: long-term memory for LangChain's `create_agent`.

What is known is recalled once, before the agent begins, and is shown to the model in each call of the turn, beside the
user's last message. It stands neither in the state nor in what is streamed. What is new is recorded after the agent.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final, NotRequired, Unpack

from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import PrivateStateAttr, ToolCallRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command

from reme_core.errors import InputError
from reme_core.turn import (
    Client,
    Closing,
    CountTokens,
    ReMeLike,
    ToolRun,
    TurnMemory,
    TurnOptions,
    check_count_tokens,
    check_flag,
    observe_call,
    refuse_unknown,
    stable_id,
)
from reme_core.types import Message, new_id
from reme_langchain.convert import as_chat, from_langchain
from reme_langchain.note_in_prompt import PlacedNote, show_note
from reme_langchain.tools import memory_tools, window_tools
from reme_langchain.usage import areport_usage, report_usage
from reme_langchain.window import in_session, show_what_fits

Workspace = str | Callable[[Runtime[Any]], str]
"""A tenant, or what tells the tenant of a run, such as `lambda runtime: runtime.context.user_id`."""

_TENANTS: Final = 1_000  # whose delta and notes are kept in memory; a forgotten one costs a look into the database
_UNFINISHED: Final = 1_000  # turns that have begun and not ended


class MemoryState(AgentState[Any]):
    """The agent's state with the name of a run that belongs to no thread: private, and never checkpointed."""

    reme_run: NotRequired[Annotated[str, UntrackedValue, PrivateStateAttr]]


@dataclass(slots=True)
class _Turn:
    """One run of the agent: whose it is, and what was said before it and in it."""

    memory: TurnMemory
    turn_id: str
    session_id: str
    messages: list[Message]
    new: list[Message]
    """Those that may be new: all where ids last, else what came with this run."""
    note: str = ""


class ReMeMiddleware(AgentMiddleware[MemoryState, Any, Any], Closing):
    """Recalls before an agent runs and records after it; for `invoke`, `ainvoke` and both kinds of streams.

    ```python
    memory = ReMeMiddleware("postgresql://…", lambda runtime: runtime.context.user_id)
    agent = create_agent(model, tools, middleware=[memory], context_schema=Context)
    ```

    A run that is cancelled keeps the words that it was given. `aclose` delivers what waits and disconnects.

    Attributes:
        counts: What was done so far, for all tenants.
    """

    state_schema = MemoryState

    def __init__(
        self,
        database_url: ReMeLike = None,
        workspace_id: Workspace | None = None,
        *,
        client: Client | None = None,
        chat_model: BaseChatModel | None = None,
        recall: bool = True,
        tools: bool = False,
        count_tokens: CountTokens | None = None,
        name: str = "ReMeMiddleware",
        **options: Unpack[TurnOptions],
    ) -> None:
        """Say whose memory it is and how a run uses it.

        Args:
            database_url: A database URL or settings; None for what the environment says.
            workspace_id: The tenant, or a function that tells it from the run's `Runtime`. Default: `default`, which
                all share.
            client: An open `AsyncReMe` or `ReMe` in place of a URL; it is never closed here.
            chat_model: A model that reads conversations for memory, such as the agent's own. Default: what the settings
                name; without one, what people said is kept word for word.
            recall: Whether to recall before each turn; False leaves that to the tools.
            tools: Whether the agent may search and change its memory by tools.
            count_tokens: The model's own tokenizer, such as `model.get_num_tokens`, by which the option `window` is
                kept; default is an estimate. With a window, the agent gets tools to read what it does not show.
            name: Tells two of them in one agent apart.
            options: How a turn uses memory.

        Raises:
            InputError: There is no such option, or a value does not fit.
        """
        if "session_id" in options:
            raise InputError("a run's conversation is its thread: config={'configurable': {'thread_id': …}}")
        refuse_unknown(options.keys() - TurnOptions.__annotations__.keys(), "recall", "tools", "count_tokens", "name")
        check_count_tokens(count_tokens, options.get("window"))
        super().__init__()
        self._name = name
        self._recall = check_flag("recall", recall)
        named = "default" if callable(workspace_id) else workspace_id  # of a function's, only others are used
        chat = as_chat(chat_model) if chat_model is not None else None
        self._memory = TurnMemory(database_url, named, client=client, chat=chat, **options)
        self._workspace = self._memory.workspace_id if workspace_id is None else workspace_id
        self.counts = self._memory.counts
        self._count_tokens = count_tokens
        given = memory_tools(self._memory, self._current_memory) if check_flag("tools", tools) else []
        self.tools = [*given, *window_tools(self._memory, self._current_memory)]
        self._tenants: OrderedDict[str, TurnMemory] = OrderedDict({self._memory.workspace_id: self._memory})
        self._unfinished: OrderedDict[str, _Turn] = OrderedDict()

    @property
    def name(self) -> str:
        """Its name in the agent's graph."""
        return self._name

    async def aclose(self) -> None:
        """Record what was said in runs that never came to their end, deliver what waits, and disconnect."""
        self._give_up(list(self._unfinished))
        await self._memory.aclose()

    def close(self) -> None:
        """`aclose` for code that does not await."""
        self._give_up(list(self._unfinished))
        self._memory.close()

    async def abefore_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Recall for the run that begins."""
        begun = _name_run(state)
        await self._begin(self._turn({**state, **begun}, runtime))
        return begun or None

    def before_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Recall for the run that begins."""
        begun = _name_run(state)
        self._memory.call(self._begin, self._turn({**state, **begun}, runtime))
        return begun or None

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Show the model what fits its window, and the note."""
        turn = self._unfinished.get(_turn_id(request.state))
        if turn is None:  # resumed after an interrupt, maybe in another process
            turn = await self._begin(self._turn(request.state, request.runtime))
        with self._record_if_broken_off(request.state):
            return await handler(self._with_note(await self._fit(request, turn), turn))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Show the model what fits its window, and the note."""
        turn = self._unfinished.get(_turn_id(request.state))
        if turn is None:
            turn = self._memory.call(self._begin, self._turn(request.state, request.runtime))
        with self._record_if_broken_off(request.state):
            return handler(self._with_note(self._memory.call(self._fit, request, turn), turn))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """Record the call in tool memory, and what was said if it is cancelled."""
        with self._record_if_broken_off(request.state), self._observe(request) as run, _in_session(request):
            result = await handler(request)
            _report_outcome(run, result)
            return result

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Record the call in tool memory, and what was said if it is interrupted."""
        with self._record_if_broken_off(request.state), self._observe(request) as run, _in_session(request):
            result = handler(request)
            _report_outcome(run, result)
            return result

    async def aafter_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Record what is new."""
        turn = self._end(state, runtime)
        await turn.memory.record(turn.new, turn.turn_id, session_id=turn.session_id)
        await areport_usage(turn.memory.take_usage())
        return None

    def after_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Record what is new."""
        turn = self._end(state, runtime)
        self._memory.call(turn.memory.record, turn.new, turn.turn_id, session_id=turn.session_id)
        report_usage(turn.memory.take_usage())
        return None

    async def _begin(self, turn: _Turn) -> _Turn:
        self._unfinished.pop(turn.turn_id, None)
        same = [name for name, begun in self._unfinished.items() if begun.session_id == turn.session_id != ""]
        self._give_up(same)
        self._unfinished[turn.turn_id] = turn
        self._give_up(list(self._unfinished)[:-_UNFINISHED])
        if self._recall:
            turn.note = (await turn.memory.begin(turn.messages, turn.turn_id, session_id=turn.session_id)).text
        return turn

    def _turn(self, state: Any, runtime: Runtime[Any]) -> _Turn:
        session_id = _session_id(state)
        heard: Sequence[AnyMessage] = state["messages"]
        # With a checkpointer, a message keeps its id for ever; without one, the application may give the whole history
        # anew each time, and LangGraph new ids to it.
        lasting = bool(_thread_id() and _configurable().get("__pregel_checkpointer"))
        messages = from_langchain(heard, session_id)
        new = messages if lasting else from_langchain(heard[_start_of_run(heard) :], session_id)
        return _Turn(self._memory_of(runtime), _turn_id(state), session_id, messages, new)

    def _end(self, state: MemoryState, runtime: Runtime[Any]) -> _Turn:
        turn = self._turn(state, runtime)
        self._unfinished.pop(turn.turn_id, None)
        return turn

    def _memory_of(self, runtime: Runtime[Any]) -> TurnMemory:
        """The memory of a run's tenant."""
        if isinstance(self._workspace, str):
            return self._memory
        workspace = self._workspace(runtime)
        if not isinstance(workspace, str):
            raise InputError(f"workspace_id gave {workspace!r} for a run; it has to give the name of its tenant")
        memory = self._tenants.get(workspace)
        if memory is None:
            memory = self._tenants[workspace] = self._memory.for_workspace(workspace)
        self._tenants.move_to_end(workspace)
        if len(self._tenants) > _TENANTS:
            self._tenants.popitem(last=False)
        return memory

    def _current_memory(self) -> TurnMemory:
        return self._memory if isinstance(self._workspace, str) else self._memory_of(get_runtime())

    def _observe(self, request: ToolCallRequest) -> AbstractContextManager[ToolRun]:
        call = request.tool_call
        asked = next((m.id for m in reversed(request.state["messages"]) if isinstance(m, AIMessage)), "")
        place = (_session_id(request.state), asked, call["id"])
        return observe_call(self._current_memory(), call["name"], call["args"], *place, interrupts=(GraphBubbleUp,))

    @contextmanager
    def _record_if_broken_off(self, state: Any) -> Iterator[None]:
        """Record what the user said if the run ends within this block, for example by a cancellation."""
        try:
            yield
        except BaseException:
            self._give_up([_turn_id(state)])
            raise

    def _give_up(self, turn_ids: Iterable[str]) -> None:
        for turn_id in turn_ids:
            turn = self._unfinished.pop(turn_id, None)
            if turn is not None:
                words = [message for message in turn.new if message.role == "user"]
                turn.memory.record_soon(words, turn_id, session_id=turn.session_id)

    async def _fit(self, request: ModelRequest[Any], turn: _Turn) -> ModelRequest[Any]:
        return await show_what_fits(request, turn.memory, turn.session_id, self._count_tokens)

    def _with_note(self, request: ModelRequest[Any], turn: _Turn) -> ModelRequest[Any]:
        return show_note(request, PlacedNote(turn.note, turn.memory.position, self.name)) if turn.note else request


def _report_outcome(run: ToolRun, result: ToolMessage | Command[Any]) -> None:
    """Set the outcome of a call; a tool that returns a command may have put its message into that."""
    answers: Any = [result]
    if isinstance(result, Command):
        update = result.update
        answers = update.get("messages", []) if isinstance(update, dict) else []
    message = next((message for message in answers if isinstance(message, ToolMessage)), None)
    run.finish(str(message.text) if message else "", success=message.status != "error" if message else True)


def _in_session(request: ToolCallRequest) -> AbstractContextManager[None]:
    return in_session(_session_id(request.state))


def _configurable() -> dict[str, Any]:
    return get_config().get("configurable") or {}


def _thread_id() -> str:
    return str(_configurable().get("thread_id") or "")


def _name_run(state: Any) -> dict[str, Any]:
    """What of the state names a run without a thread, if that is not there yet."""
    return {} if _session_id(state) else {"reme_run": new_id()}


def _session_id(state: Any) -> str:
    """The conversation: the thread, or, since ids count within one only, this run."""
    return _thread_id() or state.get("reme_run") or ""


def _start_of_run(messages: Sequence[AnyMessage]) -> int:
    """The index at which the last run begins: the first of the user's messages right before its answer."""
    start = _last_question(messages)
    while start > 0 and isinstance(messages[start - 1], HumanMessage):
        start -= 1
    return max(start, 0)


def _last_question(messages: Sequence[AnyMessage]) -> int:
    """The index of the user's last message; -1 if there is none."""
    return max((place for place, message in enumerate(messages) if isinstance(message, HumanMessage)), default=-1)


def _turn_id(state: Any) -> str:
    """What the user asked in which conversation: a question that was edited begins another turn."""
    messages: Sequence[AnyMessage] = state["messages"]
    place = _last_question(messages)
    return stable_id(_session_id(state), *((messages[place].id, str(messages[place].text)) if place >= 0 else ()))
