"""The memory tools: functions by which an agent searches and changes its memory itself, in every framework.

Frameworks make the tool schema of their names, docstrings and annotations, so these are written for the model. Errors
are given to the model as text, because in most frameworks a tool that raises ends the turn.
"""

from __future__ import annotations

import functools
import inspect
import logging
import re
from collections.abc import Callable, Coroutine
from typing import Any, Final, ParamSpec

from pydantic import BaseModel, Field, ValidationError, create_model, validate_call

from reme_core.errors import ConflictError, InputError, NotFoundError
from reme_core.given import zone_of
from reme_core.marks import forgotten_note
from reme_core.models.base import Tool
from reme_core.prompts import language_for
from reme_core.prompts.fence import as_text, note
from reme_core.prompts.note import dates_of
from reme_core.prompts.transcript import shown_name
from reme_core.store.change import Change, Close
from reme_core.store.filters import Filters
from reme_core.turn.connections import within
from reme_core.turn.memory import TurnMemory
from reme_core.types import Kind, Memory

log = logging.getLogger(__name__)
Given = ParamSpec("Given")

MemoryTool = Callable[..., Coroutine[Any, Any, str]]
"""A coroutine function with plain typed arguments, which returns text for the model."""

MOST_FOUND: Final = 20
"""How many memories one search gives at most."""

ACTOR: Final = "agent"
"""The actor in the history of memories that a tool changed."""

TOOLS_HINT: Final = (
    "You have a long-term memory of earlier conversations. Search it with search_memory before you answer what may "
    "depend on them. Store lasting facts, wishes and lessons with add_memory, correct them with update_memory, and "
    "remove with forget_memory what is to be forgotten."
)
"""A part of the system prompt, which tells an agent to use the tools."""


class ToolFailure(str):
    """The answer of a memory tool that failed."""


def answer_model(tool: Callable[Given, Coroutine[Any, Any, str]]) -> Callable[Given, Coroutine[Any, Any, str]]:
    """A tool that tells the model why it failed; if memory failed and `on_error` is `raise`, it raises the error."""
    checked = validate_call(tool)  # not every framework checks what its model gives

    @functools.wraps(tool)
    async def answer(*args: Given.args, **kwargs: Given.kwargs) -> str:
        tools: Any = args[0]
        given: Any = {name: value for name, value in kwargs.items() if value is not None}  # null: it is left out
        try:
            async with within(tools._turn.patience):
                return await checked(*args, **given)
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            return ToolFailure(f"That did not work: {problems}")
        except (InputError, NotFoundError, ConflictError) as error:  # the model asked for what cannot be
            return ToolFailure(f"That did not work: {error}")
        except Exception as error:  # any error: a turn without memory is better than none
            if tools._turn.on_error == "raise":
                raise
            log.warning("a memory tool failed: %s", error)
            return ToolFailure("Memory cannot be reached right now; go on without it.")

    return answer


class MemoryTools:
    """Four tools for the memory of one workspace: search, add, update and forget."""

    def __init__(self, turn: TurnMemory) -> None:
        self._turn = turn

    def all(self) -> list[MemoryTool]:
        """The tools; the most used one comes first."""
        return [self.search_memory, self.add_memory, self.update_memory, self.forget_memory]

    @answer_model
    async def search_memory(self, query: str, limit: int = 5) -> str:
        """Search long-term memory for what was said or learned in earlier conversations.

        Use it before answering whatever may depend on that. Each found memory begins with its id in brackets.

        Args:
            query: What to look for, in plain words.
            limit: How many memories to give at most, and as many quotes of what was said, 1 to 20.
        """
        if not query.strip():  # a model that forgot the query should not take it that nothing is remembered
            raise InputError("the query is empty; say what to look for")
        hits = await self._turn.recall(query, limit=max(1, min(limit, MOST_FOUND)))
        if not hits:
            return "Nothing is remembered about this."
        language = language_for(query)
        zone = zone_of(self._turn.settings.timezone)
        lines = []
        for memory in (hit.memory for hit in hits):
            said = memory.kind == Kind.CONVERSATION  # the tools cannot change a message, so its id is not shown
            head = f"{shown_name(memory.author)} said: " if said else f"[{memory.memory_id}] "
            dates = dates_of(memory, language, zone)  # "I am here until tomorrow" is true on its day only
            lines.append(head + as_text(memory, language) + (f" ({dates})" if dates else ""))
        # Fenced like a note, so that it is not remembered once more when the conversation is recorded.
        return note("\n".join(lines), language)

    @answer_model
    async def add_memory(self, content: str, when_to_use: str = "") -> str:
        """Store one fact in long-term memory, so that it is known in later conversations.

        Use it for lasting facts about the user, their wishes, and lessons learned; not for small talk.

        Args:
            content: The fact as one full sentence that makes sense on its own.
            when_to_use: For a lesson: the situation in which it helps. Leave it empty for a fact.
        """
        lesson = Kind.TASK in self._turn.kinds and (when_to_use or Kind.CUSTOM not in self._turn.kinds)
        kind = Kind.TASK if lesson else Kind.CUSTOM
        memory = Memory(kind=kind, content=content, when_to_use=when_to_use, author=ACTOR, **self._turn.scope)
        [stored] = await self._turn.reme.memories.add(self._turn.workspace_id, memory, actor=ACTOR, reason="add_memory")
        if stored.seen_count > 1:
            return f"This is remembered already, as [{stored.memory_id}]."
        return f"Remembered as [{stored.memory_id}]."

    @answer_model
    async def update_memory(self, memory_id: str, content: str) -> str:
        """Correct a memory that search_memory found, when it is no longer true or was wrong.

        Args:
            memory_id: The id in brackets before the memory.
            content: The new wording, as one full sentence.
        """
        name = (await self._own(memory_id)).memory_id
        await self._turn.reme.memories.update(
            self._turn.workspace_id, name, content=content, actor=ACTOR, reason="update_memory"
        )
        return f"Updated [{name}]."

    @answer_model
    async def forget_memory(self, memory_id: str) -> str:
        """Forget a memory that search_memory found, when the user wants it forgotten.

        Args:
            memory_id: The id in brackets before the memory.
        """
        memory = await self._own(memory_id)
        change = Change(close=[Close(memory.memory_id, "expired")], annotate={memory.memory_id: forgotten_note(memory)})
        await self._turn.reme.memories.apply(self._turn.workspace_id, change, actor=ACTOR, reason="forget_memory")
        return f"Forgot [{memory.memory_id}]."

    async def _own(self, memory_id: str) -> Memory:
        """The memory of an id, which may be in brackets.

        Raises:
            NotFoundError: No active memory of the scope that is recalled has this id.
        """
        name = memory_id.strip(" []")
        # The model may have an id from anywhere, and an id names a memory of any scope in the workspace.
        filters = Filters.of(ids=[name], **self._turn.recalled_scope)
        found = await self._turn.reme.memories.list(self._turn.workspace_id, filters, limit=1)
        if not found:
            # Words that wait to be summarised are no memory yet, and the tool cannot tell which of them are meant.
            pause = self._turn.settings.worker.after_seconds
            raise NotFoundError(
                f"there is no memory [{name}]; search_memory gives the ids. What was said just now may become a memory "
                f"when nothing was said for {pause:g} seconds, and can be changed and forgotten from then on"
            )
        return found[0]


def arguments_model(tool: MemoryTool) -> type[BaseModel]:
    """The arguments of a tool as a Pydantic model, each with its description."""
    descriptions = dict(_ARGUMENT.findall(inspect.getdoc(tool) or ""))
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(tool, eval_str=True).parameters.items():
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (parameter.annotation, Field(default, description=descriptions.get(name, "")))
    return create_model(f"{tool.__name__}_arguments", **fields)


def tool_schema(tool: MemoryTool) -> Tool:
    """The name and description of a tool, and the JSON schema of its arguments."""
    text = (inspect.getdoc(tool) or "").partition("\nArgs:")[0]
    return Tool(tool.__name__, " ".join(text.split()), arguments_model(tool).model_json_schema())


_ARGUMENT: Final = re.compile(r"^    (\w+): (.+)$", re.MULTILINE)
