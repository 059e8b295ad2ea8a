"""Read from messages what an agent did: its tool calls, their results, and how errors were overcome."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final

from reme_core.flows.tool_output import error_in, is_output
from reme_core.prompts.transcript import calls_answered, condense
from reme_core.text.secrets import without_named
from reme_core.types import Message

_MAX_VALUE = 60  # characters
_MANY = 3  # equal calls with equal results: the agent goes in circles


@dataclass(frozen=True)
class Action:
    """One call of a tool; `error` is empty if it worked, or if its result is not known."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: str = ""
    error: str = ""
    code: str = ""
    """The Python in which it stands; the arguments of such a call are not read."""
    message_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fix:
    """A call that failed, the next call of the same tool that worked, and the calls between them that worked."""

    failed: Action
    worked: Action
    between: tuple[Action, ...]


def actions_of(messages: Sequence[Message]) -> list[Action]:
    """All tool calls, in order, each with its result.

    Reads OpenAI's form (`tool_calls` and messages of role `tool`) and Python written by agents: calls such as
    `apis.spotify.login(…)` in a fenced block, if the next message is the output of that code.
    """
    found: list[Action] = []
    place_of: dict[int, int] = {}  # by the identity of a call, the place of its action
    open_places: list[int] = []  # of calls without a result
    for message, answered, following in zip(messages, calls_answered(messages), [*messages[1:], None], strict=False):
        if message.tool_calls:
            for call in message.tool_calls:
                place_of[id(call)] = len(found)
                open_places.append(len(found))
                found.append(Action(call.name, _arguments(call.arguments), message_ids=(message.message_id,)))
        elif message.role == "tool":
            if answered is not None and message.tool_call_id:
                place = place_of[id(answered)]
            elif open_places:
                place = open_places[0]  # a result without a known id is of the first call that has none yet
            else:
                place = len(found)
                found.append(Action(message.author or "tool"))
            if place in open_places:
                open_places.remove(place)
            found[place] = _add_result(found[place], message)
        elif message.role == "assistant" and following is not None and _is_run_output(following):
            code = "\n".join(_BLOCK.findall(message.content))
            calls = [Action(name, code=code, message_ids=(message.message_id,)) for name in _calls_in(code)]
            # The output is of the whole block, and an error in it stopped the last call.
            found.extend(calls[:-1])
            found.extend(_add_result(call, following) for call in calls[-1:])
    return found


def fixes_of(actions: Sequence[Action]) -> list[Fix]:
    """Fixes, one for each tool and error: the last call that failed with it and the next one that worked."""
    found: dict[tuple[str, str], Fix] = {}
    for start, failed in enumerate(actions):
        if not failed.error:
            continue
        between: list[Action] = []
        for action in actions[start + 1 :]:
            if _are_parallel(action, failed):
                continue
            if action.tool == failed.tool:
                if not action.error:
                    found[failed.tool, failed.error] = Fix(failed, action, tuple(between))
                    break
            elif not action.error:
                between.append(action)
    return list(found.values())


def unresolved_errors(actions: Sequence[Action]) -> list[Action]:
    """Calls that failed, and after which no call of the same tool worked; one for each tool and error."""
    # Later calls overwrite earlier ones, so the last one of each tool stays.
    worked_last = {action.tool: (place, action) for place, action in enumerate(actions) if not action.error}
    open_ones = {}
    for place, action in enumerate(actions):
        last, worked = worked_last.get(action.tool, (-1, None))
        if action.error and (place > last or (worked is not None and _are_parallel(action, worked))):
            open_ones[action.tool, action.error] = action
    return list(open_ones.values())


def _are_parallel(one: Action, other: Action) -> bool:
    """Whether both calls stand in one message, so that neither was made in view of the other's result."""
    return bool(one.message_ids) and one.message_ids[:1] == other.message_ids[:1]


def repeated_calls(actions: Sequence[Action]) -> list[tuple[Action, int]]:
    """Calls made at least three times with the same arguments and the same result, each with how many times."""
    counts: dict[tuple[str, ...], list[Action]] = {}
    for action in actions:
        if action.result or not action.code:  # of the calls in a block only the last has a result that is known
            arguments = json.dumps(action.arguments, sort_keys=True, default=str)
            counts.setdefault((action.tool, action.code, arguments, action.result), []).append(action)
    return [(same[0], len(same)) for same in counts.values() if len(same) >= _MANY]


def path_of(actions: Iterable[Action]) -> list[str]:
    """The calls that worked, in order, as `tool(argument names)`; equal ones in a row are one, with their number.

    >>> path_of([Action("find", {"q": "x"}), Action("find", {"q": "y"}), Action("book")])
    ['find(q) ×2', 'book()']
    """
    written = [f"{action.tool}({', '.join(action.arguments)})" for action in actions if not action.error]
    runs = [(call, len(list(same))) for call, same in groupby(written)]
    return [call if count == 1 else f"{call} ×{count}" for call, count in runs]


def format_arguments(arguments: Mapping[str, Any], names: Iterable[str] | None = None) -> str:
    """Arguments as text, with secrets hidden and long values cut; those in `names`, or all of them.

    >>> format_arguments({"user": "ann", "password": "s3cret"})
    'user="ann", password=…'
    """
    chosen = set(arguments if names is None else names)
    told = {name: value for name, value in without_named(arguments).items() if name in chosen}
    return ", ".join(f"{name}={_format_value(value)}" for name, value in told.items())


def _format_value(value: Any) -> str:
    return "…" if value == "…" else condense(json.dumps(value, ensure_ascii=False, default=str), _MAX_VALUE)


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):  # the latter where it is nested a thousand deep
        return {"arguments": text}
    return value if isinstance(value, dict) else {"arguments": value}


def _add_result(action: Action, message: Message) -> Action:
    return replace(
        action,
        result="\n".join(filter(None, (action.result, message.content))),
        error=error_in(message.content),
        message_ids=(*action.message_ids, message.message_id),
    )


_BLOCK: Final = re.compile(r"```(?:python|py)?[^\S\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
_DOTTED_CALL: Final = re.compile(r"(?<![\w.])([A-Za-z_]\w*(?:\.\w+)+)\(")


def _is_run_output(message: Message) -> bool:
    return message.role in ("user", "system") and is_output(message.content)


def _calls_in(code: str) -> list[str]:
    # Calls of Python's own modules are no calls of tools.
    return [name for name in _DOTTED_CALL.findall(code) if not name.startswith(("print.", "json.", "re."))]
