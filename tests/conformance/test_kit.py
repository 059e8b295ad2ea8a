"""The adapter kit passes an adapter that keeps the rules, and catches one that breaks each of them."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace

from reme_core import testing
from reme_core.errors import DatabaseError
from reme_core.testing import (
    AGENT,
    COMPLETION_TOKENS,
    PROMPT_TOKENS,
    Capability,
    Conversation,
    Driver,
    Rule,
    ScriptedModel,
    clock,
    tool_checks,
    validate,
)
from reme_core.testing.checks import CHECKS
from reme_core.testing.model import Reply
from reme_core.turn import ASKER, Asker, Note, TurnMemory, TurnOptions, asking_agent, observe_call, tool_call_result
from reme_core.types import Message, ToolCall, new_id


class PlainConversation(Conversation):
    """An agent without a framework: a history, a model, a memory; `fault` names the one thing it does wrong."""

    def __init__(self, model: ScriptedModel, options: dict[str, Any], fault: str) -> None:
        self.model, self.fault, self.options = model, fault, options
        if fault == "shares a workspace":
            options = options | {"workspace_id": "everybody"}
        if fault == "forgets whose it is":
            options = {name: value for name, value in options.items() if name != "user_id"}
        if fault == "forgets which run it is":
            options = {name: value for name, value in options.items() if name != "run_id"}
        if fault == "swallows options":
            options = {name: value for name, value in options.items() if name in TurnOptions.__annotations__}
            options["database_url"] = self.options.get("database_url")
        if fault == "hides errors":
            options = options | {"on_error": "log"}
        if fault == "fails turns":
            options = options | {"on_error": "raise"}
        if fault == "forgets what it missed":
            options = options | {"spool": "memory"}
        self.turn = TurnMemory(**options)
        self.history: list[Message] = []
        self.done: list[Message] = []
        self.tokens = (0, 0)
        self.is_told_otherwise = False
        self.session = new_id()
        self.loop = asyncio.get_running_loop()

    async def say(self, text: str, message_id: str = "") -> str:
        author = "" if self.fault == "takes tasks for the user's" else asking_agent()
        question = Message(content=text, message_id=message_id or new_id(), author=author)
        self.history.append(question)
        try:
            answer = await self._answer(question)
        except BaseException as error:
            is_lost = self.fault == "loses what no model saw" and not self.model.prompts
            is_lost |= self.fault == "keeps words of cancelled turns only" and isinstance(error, Exception)
            if self.fault != "loses what is cancelled" and not is_lost:
                self.turn.record_soon([question], question.message_id)
            raise
        reply = Message(role="assistant", content=answer, author="" if self.fault == "forgets who spoke" else AGENT)
        self.history.append(reply)
        await self._record(question, reply)
        spent = self.turn.take_usage()
        own = (PROMPT_TOKENS, COMPLETION_TOKENS)
        summary = (0, 0) if self.fault == "hides tokens" else (spent.prompt_tokens, spent.completion_tokens)
        self.tokens = (own[0] + summary[0], own[1] + summary[1])
        return answer

    async def _answer(self, question: Message) -> str:
        asked = [*self.history[:-1], question] if self.fault != "forgets the question" else []
        while True:
            turn_id = new_id() if self.fault == "recalls for each call" else question.message_id
            if self.fault == "keeps the note of a cancelled turn":
                turn_id = f"{self.session}/{[m.role for m in self.history].count('assistant')}"
            if self.fault == "leaves the loop" and asyncio.get_running_loop() is not self.loop:
                return "ok"
            if self.fault == "loses the trace":
                with trace.use_span(trace.INVALID_SPAN):
                    note = await self.turn.begin(asked, turn_id)
            elif self.fault == "blocks the loop":
                note = self.turn.call(self.turn.begin, asked, turn_id)
            elif self.fault == "hides errors of recalls":
                note = Note()
                with contextlib.suppress(DatabaseError):
                    note = await self.turn.begin(asked, turn_id)
            else:
                note = await self.turn.begin(asked, turn_id)
            self.note = note
            if self.fault == "shows the note once" and self.done:
                note = Note()
            prompt = [("system", "You are helpful."), *((m.role, m.content) for m in self.history)]
            if note and self.fault == "system message in mid-history":
                prompt.insert(len(prompt) - 1, ("system", note.text))
            elif note and self.fault == "piles up":
                self.history.insert(len(self.history) - 1, note.as_message())
                prompt.insert(len(prompt) - 1, ("user", note.text))
            elif note and (self.turn.position == "system") != (self.fault == "ignores the position"):
                prompt[0] = ("system", f"{prompt[0][1]}\n\n{note.text}")
            elif note:
                place = max(place for place, (role, _) in enumerate(prompt) if role == "user")
                prompt[place] = ("user", f"{note.text}\n\n{prompt[place][1]}")
            reply = await self.model.answer(prompt)
            if not reply.tool:
                return reply.text
            assert reply.tool == "clock"
            calls = [ToolCall(id=one.call_id, name=one.tool, arguments=one.arguments) for one in reply.calls]
            self.done.append(Message(role="assistant", author=AGENT, tool_calls=calls))
            for one in reply.calls:
                call_id = reply.call_id if self.fault == "mixes up calls made at once" else one.call_id
                self.done.append(Message(role="tool", content=self._call(one, question), tool_call_id=call_id))
                self.history.append(self.done[-1])

    def _call(self, reply: Reply, question: Message) -> str:
        if self.fault == "hides tool calls":
            return clock(**json.loads(reply.arguments))
        with observe_call(self.turn, reply.tool, reply.arguments, question.message_id) as running:
            told = clock(**json.loads(reply.arguments))
            running.finish(told, success=True)
        if self.fault == "counts tool calls again":
            self.turn.record_calls([tool_call_result(reply.tool, reply.arguments, told, True, new_id())])
        return told

    async def _record(self, question: Message, reply: Message) -> None:
        done, self.done = self.done, []
        new = [question, *([] if self.fault == "loses tools" else done), reply]
        if self.fault == "loses empty results":
            new = [m for m in new if m.content or m.tool_calls]
        if self.fault == "writes everything again":
            new = [m.model_copy(update={"message_id": new_id()}) for m in self.history]
        if self.fault == "trims what was typed":
            new = [m.model_copy(update={"content": m.content.partition("<memory_note>")[0].strip()}) for m in new]
        if self.fault == "loses arguments":
            new = [
                m.model_copy(update={"tool_calls": [ToolCall(id=c.id, name=c.name) for c in m.tool_calls]}) for m in new
            ]
        if self.fault == "loses whose result it is":
            new = [m.model_copy(update={"tool_call_id": ""}) for m in new]
        if self.fault == "takes now for long ago":
            new = [m.model_copy(update={"sent_at": datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)}) for m in new]
        if self.fault == "begins anew at each turn":
            self.session = new_id()
        if self.fault == "takes words for ids":
            new = [m.model_copy(update={"message_id": m.content}) for m in new]
        if self.fault == "writes its notes":
            new = [Message(content=self.note.text.replace("<", "(")), *new]
        if self.fault not in ("forgets what it streams", "forgets what it blocks for") or not self.is_told_otherwise:
            await self.turn.record(new, question.message_id, session_id=self.session)
        if self.fault == "waits for tool memory":
            while done and not self.turn.counts.tool_calls:
                await asyncio.sleep(0.01)
        if self.fault == "writes twice":
            await self.turn.record([Message(content="by the way")], new_id())

    async def show(self, text: str, image: bytes) -> str:
        return await self.say(f"{text}\n<image>" if self.fault == "marks images" else text)

    async def send(self, text: str, message_id: str) -> str:
        within = "" if self.fault == "mixes up equal ids" else self.session
        return await self.say(text, f"{within}/{message_id}")

    async def take_task(self, task: str, asker: str) -> None:
        token = ASKER.set(Asker(asker))
        await self.say(task)
        ASKER.reset(token)

    async def resume(self) -> None:
        await self.turn.aclose()
        self.turn = TurnMemory(**self.options)
        if self.fault == "takes what goes on for another conversation":
            self.session = new_id()
        if self.fault == "writes again what goes on":
            self.done = [message.model_copy(update={"message_id": new_id()}) for message in self.history]

    async def reset(self) -> None:
        if self.fault != "forgets to begin anew":
            self.session = new_id()
        self.history = []

    async def edit(self, text: str) -> None:
        place = max(place for place, message in enumerate(self.history) if message.role == "user")
        self.history[place] = self.history[place].model_copy(update={"content": text})
        if self.fault != "loses edits":
            await self.turn.record([self.history[place]], session_id=self.session)

    def say_sync(self, text: str) -> str:
        if self.fault == "has no synchronous calls":
            raise NotImplementedError("await say")
        self.is_told_otherwise = True
        return self.turn.call(self.say, text)

    async def stream(self, text: str) -> AsyncIterator[str]:
        if self.fault == "holds a span":
            with trace.get_tracer("plain").start_as_current_span("turn"):
                yield "begun"
        self.is_told_otherwise = True
        yield await self.say(text)
        if self.fault == "streams its note":
            yield self.note.text

    def usage(self) -> tuple[int, int]:
        return self.tokens

    def export(self) -> Any:
        hits = [{"content": hit.content, "score": hit.parts.final} for hit in self.note.hits]
        return {"hits": hits, "at": datetime.datetime.now()} if self.fault == "exports a datetime" else hits

    async def aclose(self) -> None:
        if self.fault == "leaves connections open":
            return
        await self.turn.aclose()
        if self.fault == "closes what was given" and "client" in self.options:
            await self.options["client"].aclose()


class PlainDriver(Driver):
    name = "plain"
    package = "reme_core.testing"
    capabilities = frozenset(Capability)

    def __init__(self, fault: str = "") -> None:
        self.fault = fault

    async def start(self, model: ScriptedModel, options: dict[str, Any]) -> PlainConversation:
        return PlainConversation(model, options, self.fault)


GOES_ON = "a_conversation_that_goes_on_in_another_process_is_not_written_again"
FAULTS = {
    "forgets the question": "known_in_another_conversation",
    "keeps the note of a cancelled turn": "a_turn_after_a_cancelled_one_has_a_note_of_its_own",
    "begins anew at each turn": "a_conversation_is_one_session_and_was_held_now",
    "takes now for long ago": "a_conversation_is_one_session_and_was_held_now",
    "mixes up equal ids": "equal_ids_in_two_conversations_are_two_messages",
    "takes what goes on for another conversation": GOES_ON,
    "writes again what goes on": GOES_ON,
    "mixes up calls made at once": "calls_that_are_made_at_once_are_each_kept_with_its_result",
    "forgets to begin anew": "what_is_said_after_a_reset_is_another_conversation",
    "shares a workspace": "unknown_in_another_workspace",
    "forgets whose it is": "known_to_its_user_agent_and_run_only",
    "forgets which run it is": "known_to_its_user_agent_and_run_only",
    "leaves the loop": "works_without_a_loop",
    "has no synchronous calls": "works_blocking_a_running_loop",
    "recalls for each call": "one_recall_in_a_turn_with_tools",
    "shows the note once": "one_recall_in_a_turn_with_tools",
    "writes twice": "one_recall_and_one_record_a_turn",
    "system message in mid-history": "the_note_is_no_system_message_in_mid_history",
    "piles up": "notes_do_not_pile_up",
    "ignores the position": "the_note_stands_in_the_system_prompt_if_asked_for",
    "streams its note": "the_note_is_in_no_event",
    "writes everything again": "each_message_is_written_once",
    "takes words for ids": "what_is_said_twice_is_written_twice",
    "trims what was typed": "what_is_typed_is_written_as_it_was_typed",
    "writes its notes": "notes_are_not_written",
    "forgets who spoke": "an_answer_has_its_agent_as_author",
    "takes tasks for the user's": "a_task_has_the_agent_that_gives_it_as_author",
    "loses tools": "calls_of_tools_and_their_results_are_written",
    "loses arguments": "calls_of_tools_and_their_results_are_written",
    "loses whose result it is": "calls_of_tools_and_their_results_are_written",
    "forgets what it streams": "a_streamed_turn_is_written",
    "forgets what it blocks for": "works_without_a_loop",
    "loses empty results": "generated_conversations_are_written_word_for_word",
    "marks images": "generated_conversations_are_written_word_for_word",
    "loses edits": "generated_conversations_are_written_word_for_word",
    "loses what is cancelled": "a_turn_cancelled_at_the_model_keeps_the_users_words",
    "keeps words of cancelled turns only": "a_turn_whose_model_fails_keeps_the_users_words",
    "blocks the loop": "a_turn_cancelled_while_it_recalls_keeps_the_users_words",
    "loses what no model saw": "a_turn_cancelled_while_it_recalls_keeps_the_users_words",
    "fails turns": "a_dead_database_does_not_end_the_turn",
    "hides errors": "a_dead_database_ends_the_turn_if_asked",
    "hides errors of recalls": "a_recall_without_a_database_ends_the_turn_if_asked",
    "swallows options": "an_unknown_option_is_refused",
    "closes what was given": "what_was_given_open_stays_open",
    "leaves connections open": "what_it_opened_is_closed",
    "exports a datetime": "state_and_events_are_json",
    "loses the trace": "recall_belongs_to_the_callers_trace",
    "holds a span": "no_span_stays_current_between_events",
    "hides tokens": "summaries_are_counted",
    "hides tool calls": "each_call_is_counted_once_and_a_failure_as_one",
    "waits for tool memory": "a_call_does_not_wait_for_tool_memory",
    "counts tool calls again": "a_call_is_kept_while_the_database_is_away",
}
"""What an adapter may do wrong, and the check that catches it."""


async def test_an_adapter_that_keeps_the_rules_passes(database_url: str) -> None:
    report = await validate(PlainDriver(), database_url=database_url)
    assert report, str(report)
    assert {result.rule for result in report.results} == set(Rule)
    assert all(result.outcome == "passed" for result in report.results), str(report)


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_adapter_that_breaks_a_rule_is_caught(
    database_url: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = next(check for check in CHECKS if check.name == FAULTS[fault])
    monkeypatch.setattr(testing, "CHECKS", [check])
    monkeypatch.setattr(tool_checks, "_PATIENCE", 5.0)
    report = await validate(PlainDriver(fault), database_url=database_url)
    assert not report
    assert [failure.check for failure in report.failures] == [FAULTS[fault]], str(report)
    assert check.rule.value in str(report)


def test_every_rule_has_an_adapter_that_breaks_it() -> None:
    assert {check.rule for check in CHECKS if check.name in FAULTS.values()} == set(Rule)


async def test_an_adapter_that_chooses_the_sdk_is_caught(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "adapter_with_sdk"
    package.mkdir()
    (package / "__init__.py").write_text("if False:\n    from opentelemetry.sdk import trace\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    driver = PlainDriver()
    monkeypatch.setattr(PlainDriver, "package", package.name)
    report = await validate(driver, database_url=database_url, rules=[Rule.TRACING])
    assert [result.check for result in report.failures] == ["only_the_api_is_imported"]
    with contextlib.suppress(KeyError):
        del sys.modules[package.name]


async def test_what_a_framework_cannot_do_is_passed_over(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlainDriver, "capabilities", frozenset())
    report = await validate(PlainDriver(), database_url=database_url, rules=[Rule.TOKENS, Rule.PLAIN_JSON])
    assert report
    assert {result.outcome for result in report.results} == {"skipped"}
    assert "no usage" in str(report)
