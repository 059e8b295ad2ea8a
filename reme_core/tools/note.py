"""Write guidance for a tool from its statistics and calls, by rules. Every sentence of it is shown by some call."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from reme_core.prompts import Language, phrase
from reme_core.prompts.transcript import condense
from reme_core.store.tool_calls import Call, ToolStatistics
from reme_core.text.secrets import without_named

_MAX_ERRORS: Final = 3
_MAX_FIXES: Final = 2  # the latest ones; chosen, not measured, to keep the guidance short


def situation(tool: str, calls: Sequence[Call], language: Language) -> str:
    """When the guidance helps: before a call of the tool, with the input of its last call as an example."""
    worked = [call for call, error in calls if not error] or [call for call, _ in calls]
    text = phrase("tool_when", language, tool=tool)
    return f"{text}: {format_input(worked[-1].input)}" if worked and worked[-1].input else text


def guidance(stats: ToolStatistics, calls: Sequence[Call], language: Language) -> str:
    """The guidance of a tool: its success rate, required arguments, errors, fixes, an example, time and tokens."""
    lines = [phrase("tool_record", language, tool=stats.tool_name, successes=stats.successes, calls=stats.calls)]
    lines += [phrase("tool_required", language, names=names) for names in _required_arguments(calls)]
    errors = Counter(error for _, error in calls if error).most_common(_MAX_ERRORS)
    if errors:
        listed = "; ".join(f"{error.rstrip('.。')} ({count}×)" for error, count in errors)
        lines.append(phrase("tool_errors", language, errors=listed))
    lines += _fixes(calls, language)
    worked = [call for call, error in calls if not error]
    if worked and worked[-1].input:
        lines.append(phrase("tool_example", language, arguments=format_input(worked[-1].input)))
    if stats.time_p50 is not None:
        worst = stats.time_p95 if stats.time_p95 is not None else stats.time_p50
        lines.append(phrase("tool_cost", language, time=_seconds(stats.time_p50), worst=_seconds(worst)))
    if stats.tokens_p50 is not None:
        lines.append(phrase("tool_tokens", language, tokens=f"{stats.tokens_p50:.0f}"))
    return "\n".join(lines)


def format_input(arguments: Any, longest: int = 200) -> str:
    """The input of a call in one line, with secrets hidden: what is learned from one caller is told to others."""
    shown = without_named(arguments)
    return condense(shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False, sort_keys=True), longest)


def _seconds(value: float) -> str:
    # Two digits, but never as a power of ten: "1.2e+02 s".
    return f"{value:.0f}" if value >= 10 else f"{round(value, 3):.2g}"


def _required_arguments(calls: Sequence[Call]) -> list[str]:
    """The names of arguments that no call worked without, joined in one text; empty if no failed call lacked one."""
    # An argument that every call had, the failed ones too, may be required or not.
    worked = [set(call.input) for call, error in calls if not error and isinstance(call.input, dict)]
    failed = [set(call.input) for call, error in calls if error and isinstance(call.input, dict)]
    if not (worked and failed):
        return []
    names = sorted(name for name in set.intersection(*worked) if any(name not in given for given in failed))
    return [", ".join(names)] if names else []


def _fixes(calls: Sequence[Call], language: Language) -> list[str]:
    """The newest failed calls, each with a successful one with another input among the three calls after it."""
    fixes = []
    for place, (call, error) in enumerate(calls):
        if not error:
            continue
        then = next((later for later, problem in calls[place + 1 : place + 4] if not problem), None)
        if then is not None and then.input != call.input:
            failed, worked = format_input(call.input), format_input(then.input)
            fixes.append(phrase("tool_fix", language, failed=failed, error=error.rstrip(".。"), worked=worked))
    return list(dict.fromkeys(fixes))[-_MAX_FIXES:]
