"""The window of a turn's model: adapters show the model what fits, and give it tools to read the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from itertools import groupby
from typing import Final, TypeVar

from opentelemetry import trace

from reme_core.text.chat_format import MessageLike
from reme_core.turn.connections import report_failure, within
from reme_core.turn.memory import TurnMemory
from reme_core.turn.memory_tools import MemoryTool, answer_model
from reme_core.types import Message
from reme_core.working.answers import MOST_FOUND, MOST_READ, grep_answer, read_answer
from reme_core.working.api import Fitted
from reme_core.working.window import CountTokens

SESSION: Final[ContextVar[str]] = ContextVar("reme_session", default="")
"""The id of the running agent's conversation, for the tools that it calls; adapters set it."""

tracer = trace.get_tracer("reme_core")
Own = TypeVar("Own")


async def fit_window(
    turn: TurnMemory, messages: Sequence[MessageLike], session_id: str, *, count_tokens: CountTokens | None = None
) -> Fitted | None:
    """Fit a conversation, whole or as it was fitted before, into the turn's `window`.

    Returns:
        The messages to show. None if all are to be shown: no window is set, or memory failed and `on_error` is `log`.

    Raises:
        ReMeError: Memory failed, and `on_error` is `raise`.
    """
    if turn.window is None:
        return None
    turn.lend_loop()
    patience = turn.patience + turn.settings.working.patience
    with tracer.start_as_current_span("reme.fit", attributes={"reme.workspace": turn.workspace_id}) as span:
        try:
            async with within(patience):
                return await turn.reme.working.fit(
                    turn.workspace_id, messages, window=turn.window, session_id=session_id, count_tokens=count_tokens
                )
        except Exception as error:  # any error: a long prompt is better than no turn, and it is reported
            turn.counts.failures += 1
            report_failure(span, error, "a conversation is shown in full")
            if turn.on_error == "raise":
                raise
    return None


async def fit_messages(
    turn: TurnMemory,
    given: list[Own],
    session_id: str,
    *,
    parts_of: Callable[[Own], Sequence[Message]],
    with_parts: Callable[[Own, dict[int, Message]], Own],
    summary: Callable[[str], Own],
    count_tokens: CountTokens | None = None,
) -> list[Own]:
    """The messages of a framework that fit the turn's `window`; the same list if all are to be shown.

    Args:
        turn: The memory.
        given: The conversation, in the framework's own messages.
        session_id: The id of the conversation.
        parts_of: What a message is to memory: at least one part.
        with_parts: Makes a message anew of those of its parts that stay, by their numbers; some are shortened.
        summary: Makes a message of the summary of those that are left out.
        count_tokens: The model's own tokenizer.

    Raises:
        ReMeError: Memory failed, and `on_error` is `raise`.
    """
    if turn.window is None:
        return given
    parts = [list(parts_of(message)) for message in given]
    places = [(place, number) for place, of_one in enumerate(parts) for number in range(len(of_one))]
    fitted = await fit_window(
        turn, [part for of_one in parts for part in of_one], session_id, count_tokens=count_tokens
    )
    if fitted is None:
        return given
    shown: list[Own] = []
    pairs = zip(fitted.places, fitted.messages, strict=True)
    # No cut separates a call from its results, so the results of one message stay or leave together.
    for place, group in groupby(pairs, key=lambda pair: places[pair[0]][0] if pair[0] >= 0 else -1):
        kept = list(group)
        if place < 0:
            shown.append(summary(kept[0][1].content))
            continue
        left = {places[index][1]: part for index, part in kept}
        is_whole = len(left) == len(parts[place]) and all(part is parts[place][n] for n, part in left.items())
        shown.append(given[place] if is_whole else with_parts(given[place], left))
    return shown


class WindowTools:
    """Two tools by which an agent searches what left the window of its conversation, and reads it.

    By a handle, an agent can search and read whatever left a window in its workspace: agents hand each other texts with
    handles. A handle cannot be guessed, and no search without one leaves the conversation.
    """

    def __init__(self, turn: TurnMemory, session: Callable[[], str] = SESSION.get) -> None:
        """Make the tools for a memory; `session` gives the id of the conversation that calls a tool."""
        self._turn = turn
        self._session = session

    def all(self) -> list[MemoryTool]:
        """The tools; none if no window is set."""
        return [self.grep_working_memory, self.read_working_memory] if self._turn.window is not None else []

    @answer_model
    async def grep_working_memory(self, pattern: str, handle: str = "") -> str:
        """Search long tool outputs and earlier turns that are no longer shown in full, line by line.

        Args:
            pattern: Words of the line, or a regular expression; upper and lower case are the same.
            handle: One output or summary, by its handle. Leave it empty to search all of this conversation.
        """
        turn = self._turn
        where = {"session_id": self._session(), "handle": handle.strip(" []\"'")}
        found = await turn.reme.working.grep(turn.workspace_id, pattern, limit=MOST_FOUND, **where)
        return grep_answer(found, MOST_FOUND)

    @answer_model
    async def read_working_memory(self, handle: str, offset: int = 0) -> str:
        """Read a long tool output, or earlier turns, of which only parts are shown.

        Args:
            handle: The handle that stands where it was.
            offset: The character to begin at, as grep_working_memory and the last reading told it.
        """
        turn = self._turn
        name = handle.strip(" []\"'")
        return read_answer(await turn.reme.working.read(turn.workspace_id, name, offset=offset, size=MOST_READ))
