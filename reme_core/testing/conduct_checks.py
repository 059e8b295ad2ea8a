"""Checks of how an adapter treats its application: connections, options, JSON, traces and token counts."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import json
from collections.abc import Iterator
from contextvars import Token
from importlib import import_module
from pathlib import Path
from typing import Final

from opentelemetry import context, trace

from reme_core.errors import InputError
from reme_core.testing.checks import QUESTION, STATEMENT, check
from reme_core.testing.driver import Capability
from reme_core.testing.model import COMPLETION_TOKENS, PROMPT_TOKENS
from reme_core.testing.report import Rule
from reme_core.testing.stage import SUMMARY_TOKENS, Stage, expect


@check(Rule.OWNERSHIP)
async def _what_was_given_open_stays_open(stage: Stage) -> None:
    conversation, _ = await stage.talk()
    await conversation.say(STATEMENT)
    await conversation.aclose()
    expect(not stage.memory.connection.is_closed, "the adapter closed a memory that it had not opened")
    await stage.memory.recall(stage.workspace, QUESTION, kind="conversation")


@check(Rule.OWNERSHIP)
async def _what_it_opened_is_closed(stage: Stage) -> None:
    conversation, _ = await stage.talk_through_gate()
    await conversation.say(STATEMENT)
    expect(stage.gate.connections, "the adapter did not use the database that it was given")
    await conversation.aclose()
    for _ in range(100):
        if not stage.gate.connections:
            return
        await asyncio.sleep(0.02)
    expect(False, f"{stage.gate.connections} connections are open after closing")


_MISTAKEN: Final = (
    ("topk", "top_k"), ("tenant", "workspace_id"), ("dsn", "database_url"), ("reme", "client"), ("timeout", "patience"),
    ("max_tokens", "token_budget"), ("score_threshold", "min_relevance"),
)  # fmt: skip
_MEANINGLESS: Final = (
    ("top_k", 0), ("top_k", 2.5), ("workspace_id", ""), ("kinds", ("dream",)), ("filters", {"color": "red"}),
    ("filters", {"subject": 3}), ("min_relevance", "0.5"), ("patience", float("nan")), ("spool", "disk"),
    ("chat_model", "gpt-4.1-mini"),
)  # fmt: skip


@check(Rule.OPTIONS)
async def _an_unknown_option_is_refused(stage: Stage) -> None:
    for wrong, right in _MISTAKEN:
        try:
            await stage.talk(**{wrong: 3})
        except InputError as error:
            expect(repr(right) in str(error), f"the error for {wrong}=3 does not name {right}: {error}")
        else:
            expect(False, f"{wrong}=3 does nothing, and there was no error")


@check(Rule.OPTIONS)
async def _a_value_that_means_nothing_is_refused(stage: Stage) -> None:
    for name, value in _MEANINGLESS:
        try:
            await stage.talk(**{name: value})
        except InputError:
            continue
        expect(False, f"{name}={value!r} means nothing, and there was no error")


@check(Rule.PLAIN_JSON, Capability.EXPORT)
async def _state_and_events_are_json(stage: Stage) -> None:
    await stage.tell(STATEMENT)
    conversation, _ = await stage.talk_through_gate()
    await conversation.say(QUESTION)
    try:
        json.dumps(conversation.export(), allow_nan=False)
    except (TypeError, ValueError) as error:
        expect(False, f"the framework's state and events are not JSON: {error}")


@check(Rule.TRACING)
async def _only_the_api_is_imported(stage: Stage) -> None:
    package = import_module(stage.driver.package)
    places = list(getattr(package, "__path__", None) or [package.__file__ or ""])  # it may be a single file
    names = {name for place in places for name in await asyncio.to_thread(_imports, Path(place))}
    bad = sorted(name for name in names if name.startswith("opentelemetry.sdk"))
    expect(not bad, f"it imports {', '.join(bad)}; the application chooses the SDK")


def _imports(place: Path) -> set[str]:
    names = set()
    for path in [place] if place.is_file() else place.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@check(Rule.TRACING)
async def _recall_belongs_to_the_callers_trace(stage: Stage) -> None:
    conversation, _ = await stage.talk()
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    caller = trace.NonRecordingSpan(trace.SpanContext(0xABCDEF, 0xABC, is_remote=False, trace_flags=flags))
    with trace.use_span(caller):
        await conversation.say(QUESTION)
    expect(stage.watch.traces == [caller.get_span_context().trace_id], "the recall ran outside of the caller's trace")


@check(Rule.TRACING, Capability.STREAM)
async def _no_span_stays_current_between_events(stage: Stage) -> None:
    conversation, _ = await stage.talk()
    with _contexts_attached_by("reme_core", stage.driver.package, type(conversation).__module__) as ours:
        async for event in conversation.stream(QUESTION):
            held = any(context.get_current() is one for one in ours)
            expect(not held, f"at the event {type(event).__name__} a span of the adapter is current for the caller")


@contextlib.contextmanager
def _contexts_attached_by(*packages: str) -> Iterator[list[context.Context]]:
    """Yield a list of the OpenTelemetry contexts that code of these packages makes current in this block."""
    ours: list[context.Context] = []
    attach = context.attach

    def attach_and_note(new: context.Context) -> Token[context.Context]:
        frame = inspect.currentframe()
        while frame is not None and _is_between(frame.f_globals["__name__"]):
            frame = frame.f_back
        name = frame.f_globals["__name__"] if frame is not None else ""
        if any(name == package or name.startswith(f"{package}.") for package in packages):
            ours.append(new)
        return attach(new)

    context.attach = attach_and_note  # type: ignore[assignment]  # the parameter has another name
    try:
        yield ours
    finally:
        context.attach = attach


def _is_between(module: str) -> bool:
    # These modules stand on the call stack between the code that opens a span and `context.attach`.
    return module == __name__ or module.partition(".")[0] in ("opentelemetry", "contextlib")


@check(Rule.TOKENS, Capability.USAGE)
async def _summaries_are_counted(stage: Stage) -> None:
    conversation, _ = await stage.talk()
    await conversation.say(STATEMENT)
    prompt, completion = conversation.usage()
    wanted = (PROMPT_TOKENS + SUMMARY_TOKENS[0], COMPLETION_TOKENS + SUMMARY_TOKENS[1])
    expect(
        (prompt, completion) == wanted,
        f"the answer and the summary took {wanted} tokens; the framework reports {(prompt, completion)}",
    )
