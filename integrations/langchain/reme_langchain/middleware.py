"""`ReMeMiddleware`: long-term memory for LangChain's `create_agent`.

A run recalls once, before the agent begins. The model is shown the note in each call of the run, beside the user's last
message; the note is neither in the state nor in streamed events. The new messages are recorded after the agent.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Unpack

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command

from reme_core.errors import InputError
from reme_core.turn import (
    ASKER,
    NOTE_METADATA,
    SESSION,
    Asker,
    Client,
    Closing,
    CountTokens,
    ReMeLike,
    ToolRun,
    TurnMemory,
    TurnOptions,
    check_count_tokens,
    check_flag,
    fit_messages,
    observe_call,
    refuse_unknown,
)
from reme_core.types import new_id
from reme_langchain.convert import as_chat, from_langchain, to_message, with_words
from reme_langchain.note_in_prompt import PlacedNote, show_note
from reme_langchain.runs import (
    MemoryState,
    Turn,
    configurable,
    name_run,
    place_of,
    run_id,
    session_of,
    start_of_run,
    thread_id,
    turn_id_of,
)
from reme_langchain.tools import memory_tools, window_tools
from reme_langchain.usage import report_usage

Workspace = str | Callable[[Runtime[Any]], str]
"""A workspace, or a function from a run to its workspace, such as `lambda runtime: runtime.context.user_id`."""

_WORKSPACES: Final = 1_000  # whose `TurnMemory` is kept; for another one, the database finds what was recorded before
_UNFINISHED: Final = 1_000  # turns that have begun and not ended; the oldest one beyond these is given up


class ReMeMiddleware(AgentMiddleware[MemoryState, Any, Any], Closing):
    """Recalls before an agent runs and records after it, in `invoke`, `ainvoke`, `stream` and `astream`.

    ```python
    memory = ReMeMiddleware("postgresql://…", lambda runtime: runtime.context.user_id)
    agent = create_agent(model, tools, middleware=[memory], context_schema=Context)
    ```

    If a run is cancelled, the user's words are recorded. `aclose` delivers what waits and disconnects.

    Attributes:
        counts: What it has done so far, in all workspaces together.
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
        """Choose the workspace, and how a run uses its memory.

        Args:
            database_url: A database URL or settings; None for the settings of the environment.
            workspace_id: The workspace, or a function that returns it for a run's `Runtime`. By default all users
                share the workspace `default`.
            client: An open `AsyncReMe` or `ReMe` in place of a URL; it is never closed here.
            chat_model: The model that reads conversations for memory, such as the agent's own; by default the one in
                the settings. Without any, people's statements are kept word for word.
            recall: Whether to recall before each turn; with False, only the tools recall.
            tools: Whether the agent gets the memory tools.
            count_tokens: The model's own tokenizer for the option `window`, such as `model.get_num_tokens`; by default
                an estimate. With a window, the agent gets tools to read what was left out.
            name: A name that distinguishes two middlewares of one agent.
            options: How a turn uses memory; see `TurnOptions`.

        Raises:
            InputError: An option is unknown, or a value does not fit.
        """
        if "session_id" in options:
            raise InputError("a run's conversation is its thread: config={'configurable': {'thread_id': …}}")
        refuse_unknown(options.keys() - TurnOptions.__annotations__.keys(), "recall", "tools", "count_tokens", "name")
        check_count_tokens(count_tokens, options.get("window"))
        super().__init__()
        self._name = name
        self._recall = check_flag("recall", recall)
        named = "default" if callable(workspace_id) else workspace_id  # with a function, `default` is never used
        chat = as_chat(chat_model) if chat_model is not None else None
        self._memory = TurnMemory(database_url, named, client=client, chat=chat, **options)
        self._workspace = self._memory.workspace_id if workspace_id is None else workspace_id
        self.counts = self._memory.counts
        self._count_tokens = count_tokens
        given = memory_tools(self._memory, self._current_memory) if check_flag("tools", tools) else []
        self.tools = [*given, *window_tools(self._memory, self._current_memory)]
        self._memories: OrderedDict[str, TurnMemory] = OrderedDict({self._memory.workspace_id: self._memory})
        self._unfinished: OrderedDict[str, Turn] = OrderedDict()  # by the ids of their runs

    @property
    def name(self) -> str:
        """The name in the agent's graph."""
        return self._name

    async def aclose(self) -> None:
        """Record the user's words of unfinished runs, deliver what waits, and disconnect."""
        self._give_up(list(self._unfinished.values()))
        await self._memory.aclose()

    async def abefore_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Recall for the run that begins."""
        begun = name_run(state)
        await self._begin(self._turn({**state, **begun}, runtime))
        return begun

    def before_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Recall for the run that begins."""
        begun = name_run(state)
        self._memory.call(self._begin, self._turn({**state, **begun}, runtime))
        return begun

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Show the model what fits its window, and the note."""
        turn = self._unfinished_turn(request.state)
        if turn is None:  # the run was resumed after an interrupt, perhaps in another process
            turn = await self._begin(self._turn(request.state, request.runtime))
        with self._record_if_broken_off(turn):
            return await handler(self._with_note(await self._fit(request, turn), turn))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Show the model what fits its window, and the note."""
        turn = self._unfinished_turn(request.state)
        if turn is None:
            turn = self._memory.call(self._begin, self._turn(request.state, request.runtime))
        with self._record_if_broken_off(turn):
            fitting = request if turn.memory.window is None else self._memory.call(self._fit, request, turn)
            return handler(self._with_note(fitting, turn))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """Record the call in tool memory; if it is cancelled, record the user's words."""
        turn = self._unfinished_turn(request.state)
        with self._record_if_broken_off(turn), self._observe(request) as run, _in_session(request):
            result = await handler(request)
            _report_outcome(run, result, turn)
            return result

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Record the call in tool memory; if it is interrupted, record the user's words."""
        turn = self._unfinished_turn(request.state)
        with self._record_if_broken_off(turn), self._observe(request) as run, _in_session(request):
            result = handler(request)
            _report_outcome(run, result, turn)
            return result

    async def aafter_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Record what is new."""
        await self._record(self._end(state, runtime))
        return None

    def after_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Record what is new."""
        self._memory.call(self._record, self._end(state, runtime))
        return None

    async def _begin(self, turn: Turn) -> Turn:
        # Runs of other threads begin and end meanwhile.
        for earlier in [begun for begun in list(self._unfinished.values()) if begun.place == turn.place]:
            if earlier.turn_id == turn.turn_id:
                self._unfinished.pop(earlier.run_id, None)  # this run records the same words
            else:
                self._give_up([earlier])
        self._unfinished[turn.run_id] = turn
        self._give_up(list(self._unfinished.values())[:-_UNFINISHED])
        if self._recall:
            seen = [*from_langchain(turn.before, turn.session_id), *turn.new]
            with self._record_if_broken_off(turn):
                turn.note = (await turn.memory.begin(seen, turn.turn_id, session_id=turn.session_id)).text
        return turn

    def _unfinished_turn(self, state: Any) -> Turn | None:
        """The turn of this run, if it has begun here and not ended; it hears the messages of the state."""
        turn = self._unfinished.get(run_id(state, self._current_memory()))
        if turn is not None:
            turn.hear(state["messages"])
        return turn

    def _turn(self, state: Any, runtime: Runtime[Any]) -> Turn:
        memory = self._memory_of(runtime)
        heard: Sequence[AnyMessage] = state["messages"]
        # With a checkpointer, messages keep their ids. Without one, the application may give the whole history at each
        # run, and LangGraph then gives it new ids.
        lasting = bool(thread_id() and configurable().get("__pregel_checkpointer"))
        start = 0 if lasting else start_of_run(heard)
        turn = Turn(memory, run_id(state, memory), place_of(state, memory), turn_id_of(state), heard[:start])
        turn.hear(heard)
        return turn

    def _end(self, state: MemoryState, runtime: Runtime[Any]) -> Turn:
        turn = self._unfinished_turn(state) or self._turn(state, runtime)
        self._unfinished.pop(turn.run_id, None)
        return turn

    async def _record(self, turn: Turn) -> None:
        await turn.memory.record(turn.new, turn.turn_id, session_id=turn.session_id)
        await report_usage(turn.memory.take_usage())

    def _memory_of(self, runtime: Runtime[Any]) -> TurnMemory:
        if isinstance(self._workspace, str):
            return self._memory
        workspace = self._workspace(runtime)
        if not isinstance(workspace, str):
            raise InputError(f"workspace_id returned {workspace!r} for a run; it must return the name of a workspace")
        memory = self._memories.pop(workspace, None) or self._memory.for_workspace(workspace)
        self._memories[workspace] = memory  # at the end: what was used longest ago goes first
        if len(self._memories) > _WORKSPACES:
            self._memories.popitem(last=False)
        return memory

    def _current_memory(self) -> TurnMemory:
        return self._memory if isinstance(self._workspace, str) else self._memory_of(get_runtime())

    def _observe(self, request: ToolCallRequest) -> AbstractContextManager[ToolRun]:
        call = request.tool_call
        asked = next((m.id for m in reversed(request.state["messages"]) if isinstance(m, AIMessage)), "")
        place = (session_of(request.state), asked, call["id"])
        return observe_call(self._current_memory(), call["name"], call["args"], *place, interrupts=(GraphBubbleUp,))

    @contextmanager
    def _record_if_broken_off(self, turn: Turn | None) -> Iterator[None]:
        """Record the user's words if an exception, such as a cancellation, leaves this block."""
        try:
            yield
        except BaseException:
            self._give_up([turn] if turn is not None else [])
            raise

    def _give_up(self, turns: Iterable[Turn]) -> None:
        for turn in turns:
            if self._unfinished.pop(turn.run_id, None) is turn:
                words = [message for message in turn.new if message.role == "user"]
                turn.memory.record_soon(words, turn.turn_id, session_id=turn.session_id)

    async def _fit(self, request: ModelRequest[Any], turn: Turn) -> ModelRequest[Any]:
        """The request with what fits the window; the agent's state keeps all messages."""
        fitting = await fit_messages(
            turn.memory,
            request.messages,
            turn.session_id,
            parts_of=lambda message: [to_message(message, turn.session_id)],
            with_parts=lambda message, parts: with_words(message, parts[0].content),
            summary=lambda text: HumanMessage(text, additional_kwargs=dict(NOTE_METADATA)),
            count_tokens=self._count_tokens,
        )
        return request if fitting is request.messages else request.override(messages=fitting)

    def _with_note(self, request: ModelRequest[Any], turn: Turn) -> ModelRequest[Any]:
        return show_note(request, PlacedNote(turn.note, turn.memory.position, self.name)) if turn.note else request


def _report_outcome(run: ToolRun, result: ToolMessage | Command[Any], turn: Turn | None) -> None:
    """Set the outcome of a call, and let the turn hear it. If a tool returns a command, its message may be in it."""
    answers: Any = [result]
    if isinstance(result, Command):
        update = result.update
        answers = update.get("messages", []) if isinstance(update, dict) else []
    message = next((message for message in answers if isinstance(message, ToolMessage)), None)
    run.finish(str(message.text) if message else "", success=message.status != "error" if message else True)
    if turn is not None and message is not None:
        message.id = message.id or new_id()  # as LangGraph would give it one
        turn.answers[message.tool_call_id] = message


@contextmanager
def _in_session(request: ToolCallRequest) -> Iterator[None]:
    """Let the tool know the session, and an agent that it runs know who asks."""
    name = get_config().get("metadata", {}).get("lc_agent_name") or "agent"
    asker = ASKER.set(Asker(name, frozenset(message.id or "" for message in request.state["messages"])))
    session = SESSION.set(session_of(request.state))
    try:
        yield
    finally:
        SESSION.reset(session)
        ASKER.reset(asker)
