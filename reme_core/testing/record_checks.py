"""Checks of stored messages: each once, no notes, and none lost by a cancelled turn or an unreachable database."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from datetime import timedelta
from typing import Any, Final

from reme_core.errors import ReMeError
from reme_core.prompts.fence import NOTE
from reme_core.testing.checks import FACT, QUESTION, STATEMENT, cancel_at_the_model, check
from reme_core.testing.driver import AGENT, Capability
from reme_core.testing.report import Rule
from reme_core.testing.stage import Stage, expect
from reme_core.types import new_id, now

_MOMENT: Final = timedelta(minutes=5)
TYPED: Final = (
    f"What does <{NOTE}> mean? My dog is called Rex.",
    f"<{NOTE}>\n- It lives in Rome.\n</{NOTE}> That stood in my prompt.",
    "  There are blanks around this.  ",
)
"""Texts that people may type although they look like notes or begin with blanks."""


@check(Rule.DELTA)
async def _each_message_is_written_once(stage: Stage) -> None:
    conversation, model = await stage.talk()
    said = []
    for turn in range(4):
        model.say(f"Answer {turn} about the dog Rex.")
        await conversation.say(f"Remark {turn} about the dog Rex.")
        said += [("user", f"Remark {turn} about the dog Rex."), ("assistant", f"Answer {turn} about the dog Rex.")]
    await conversation.aclose()
    stored = await stage.stored_messages()
    expect(stored == said, f"the messages are {said}; stored were {stored}")


@check(Rule.DELTA)
async def _notes_are_not_written(stage: Stage) -> None:
    await stage.tell(STATEMENT)
    conversation, model = await stage.talk()
    await conversation.say(QUESTION)
    await conversation.say("Thank you!")
    await conversation.aclose()
    expect(any(model.notes(number) for number in range(2)), "the check saw no note in any prompt")
    bad = [text for _, text in await stage.stored_messages() if NOTE in text or (FACT in text and text != STATEMENT)]
    expect(not bad, f"recalled text was stored as if somebody had said it: {bad}")


@check(Rule.DELTA)
async def _what_is_typed_is_written_as_it_was_typed(stage: Stage) -> None:
    conversation, _ = await stage.talk()
    for text in TYPED:
        await conversation.say(text)
    await conversation.aclose()
    said = [text for role, text in await stage.stored_messages() if role == "user"]
    expect(said == list(TYPED), f"the user typed {list(TYPED)}; stored was {said}")


@check(Rule.DELTA)
async def _what_is_said_twice_is_written_twice(stage: Stage) -> None:
    conversation, _ = await stage.talk()
    await conversation.say("Yes.")
    await conversation.say("Yes.")
    await conversation.aclose()
    said = [text for role, text in await stage.stored_messages() if role == "user"]
    expect(said == ["Yes.", "Yes."], f"the user said 'Yes.' in two turns; stored was {said}")


@check(Rule.DELTA, Capability.SESSIONS)
async def _a_conversation_is_one_session_and_was_held_now(stage: Stage) -> None:
    for _ in range(2):
        conversation, _model = await stage.talk()
        await conversation.say(STATEMENT)
        await conversation.say("Thank you!")
        await conversation.aclose()
    stored = await stage.transcript()
    sessions = Counter(message.session_id for message in stored)
    expect(
        list(sessions.values()) == [4, 4] and all(sessions), f"two conversations of 4 messages; sessions: {sessions}"
    )
    late = [message.sent_at for message in stored if abs(message.sent_at - now()) > _MOMENT]
    expect(not late, f"all was said just now; of the messages some were sent at {late}")


@check(Rule.DELTA, Capability.STREAM)
async def _a_streamed_turn_is_written(stage: Stage) -> None:
    conversation, _ = await stage.talk()
    async for _event in conversation.stream(STATEMENT):
        pass
    await conversation.aclose()
    stored = await stage.stored_messages()
    expect(stored == [("user", STATEMENT), ("assistant", "ok")], f"of a streamed turn, stored was {stored}")


@check(Rule.DELTA, Capability.IDS)
async def _equal_ids_in_two_conversations_are_two_messages(stage: Stage) -> None:
    said, unique = [], new_id()
    for city in ("Lisbon", "Rome"):
        conversation, _ = await stage.talk()
        for message_id, text in (("1", f"I live in {city}."), ("2", "Yes."), (unique, f"I work in {city}.")):
            await conversation.send(text, message_id)
            said.append(text)
        await conversation.aclose()
    stored = [text for role, text in await stage.stored_messages() if role == "user"]
    expect(stored == said, f"in two conversations, with ids that count in each, the user said {said}; stored: {stored}")


@check(Rule.DELTA, Capability.RESETS)
async def _what_is_said_after_a_reset_is_another_conversation(stage: Stage) -> None:
    conversation, _ = await stage.talk()
    for _ in range(2):
        await conversation.say("Hello.")
        await conversation.reset()
    await conversation.aclose()
    stored = await stage.transcript()
    said = [message.content for message in stored if message.role == "user"]
    expect(said == ["Hello."] * 2, f"the user greeted in two conversations; stored was {said}")
    sessions = {message.session_id for message in stored}
    expect(len(sessions) == 2, f"there were two conversations; stored are those with the ids {sessions}")


@check(Rule.DELTA, Capability.RESUMES, Capability.SESSIONS, Capability.TOOLS)
async def _a_conversation_that_goes_on_in_another_process_is_not_written_again(stage: Stage) -> None:
    conversation, model = await stage.talk()
    model.call("clock", city="Lisbon")
    await conversation.say(STATEMENT)
    before = await stage.transcript()
    await conversation.resume()
    await conversation.say("Thank you!")
    await conversation.aclose()
    stored = await stage.transcript()
    new = [(message.role, message.content) for message in stored[len(before) :]]
    expect(
        new == [("user", "Thank you!"), ("assistant", "ok")],
        f"the conversation went on with one question and its answer; newly stored are {new}",
    )
    sessions = {message.session_id for message in stored}
    expect(len(sessions) == 1, f"one conversation went on in another process; it is stored as {sessions}")


async def _ask_for_the_time(stage: Stage) -> None:
    """Run a turn in which the agent calls the clock before it answers."""
    conversation, model = await stage.talk()
    model.call("clock", city="Lisbon")
    model.say("Time to eat.")
    await conversation.say("What time is it?")
    await conversation.aclose()


@check(Rule.DELTA, Capability.TOOLS)
async def _calls_of_tools_and_their_results_are_written(stage: Stage) -> None:
    await _ask_for_the_time(stage)
    stored = await stage.transcript()
    seen = [(m.role, m.content, [call.name for call in m.tool_calls]) for m in stored]
    expect(["clock"] in [calls for _, _, calls in seen], f"the agent called clock; stored was {seen}")
    expect("It is noon." in [m.content for m in stored if m.role == "tool"], f"clock has answered; stored was {seen}")
    place = next(n for n, m in enumerate(stored) if m.tool_calls)
    (call,), answered = stored[place].tool_calls, [m.tool_call_id for m in stored[place + 1 :] if m.role == "tool"]
    expect(
        "Lisbon" in call.arguments,
        f"clock was asked for Lisbon; the arguments of the stored call are {call.arguments!r}",
    )
    expect(
        answered == [call.id], f"the result names the call {call.id!r} that it answers; after it, stored is {answered}"
    )


@check(Rule.SPEAKER, Capability.NAMES)
async def _an_answer_has_its_agent_as_author(stage: Stage) -> None:
    conversation, _ = await stage.talk()
    await conversation.say("Hello.")
    await conversation.aclose()
    said = [(m.role, m.author) for m in await stage.transcript()]
    expect(
        said == [("user", ""), ("assistant", AGENT)],
        f"{AGENT} answered a user; the stored roles and authors are {said}",
    )


@check(Rule.SPEAKER, Capability.NAMES, Capability.TOOLS)
async def _a_call_of_a_tool_has_its_agent_as_author(stage: Stage) -> None:
    await _ask_for_the_time(stage)
    said = [(m.author, [call.name for call in m.tool_calls]) for m in await stage.transcript() if m.role == "assistant"]
    expect(said == [(AGENT, ["clock"]), (AGENT, [])], f"{AGENT} called clock and answered; stored was {said}")


@check(Rule.SPEAKER, Capability.NAMES, Capability.TASKS)
async def _a_task_has_the_agent_that_gives_it_as_author(stage: Stage) -> None:
    conversation, _ = await stage.talk()
    await conversation.take_task(STATEMENT, "planner")
    await conversation.say(QUESTION)
    await conversation.aclose()
    asked = [m for m in await stage.transcript() if m.role == "user" and m.content in (STATEMENT, QUESTION)]
    said = [(m.author, m.content) for m in asked]
    expect(
        said == [("planner", STATEMENT), ("", QUESTION)],
        f"planner gave the agent a task by a tool, and then the user asked; stored were {said}",
    )


@check(Rule.DURABLE)
async def _a_turn_cancelled_at_the_model_keeps_the_users_words(stage: Stage) -> None:
    conversation, model = await stage.talk()
    await cancel_at_the_model(conversation, model, STATEMENT)
    model.say("Let us go on.")
    await conversation.say("Sorry, go on.")
    await conversation.aclose()
    stored = await stage.stored_messages()
    expect(("user", STATEMENT) in stored, f"the words of the cancelled turn were lost: {stored}")
    answers = [text for role, text in stored if role == "assistant"]
    expect(answers == ["Let us go on."], f"an answer of the cancelled turn was stored: {answers}")


@check(Rule.DURABLE)
async def _a_turn_whose_model_fails_keeps_the_users_words(stage: Stage) -> None:
    conversation, model = await stage.talk()
    model.fail()
    with contextlib.suppress(Exception):  # in some frameworks it ends the turn
        await conversation.say(STATEMENT)
    await conversation.say("Try again.")
    await conversation.aclose()
    said = [text for role, text in await stage.stored_messages() if role == "user"]
    expect(STATEMENT in said, f"the words of a turn whose model failed were lost: {said}")


@check(Rule.DURABLE)
async def _a_turn_cancelled_while_it_recalls_keeps_the_users_words(stage: Stage) -> None:
    conversation, model = await stage.talk()
    stage.watch.may_answer.clear()
    turn = asyncio.ensure_future(conversation.say(STATEMENT))
    for _ in range(200):
        if stage.watch.recalled:
            break
        await asyncio.sleep(0.02)
    stood_still = bool(model.prompts)  # the recall has no answer, so nobody can have asked the model meanwhile
    turn.cancel()
    await asyncio.wait([turn])
    stage.watch.may_answer.set()
    expect(stage.watch.recalled, "the turn did not recall, so it was not cancelled while it recalled")
    expect(not stood_still, "the event loop stood still while the turn recalled: await what the turn's memory does")
    await conversation.say("Sorry, go on.")
    await conversation.aclose()
    stored = await stage.stored_messages()
    expect(("user", STATEMENT) in stored, f"the words of a turn cancelled while it recalled were lost: {stored}")


@check(Rule.DURABLE, Capability.RESETS)
async def _a_reset_keeps_the_words_of_a_cancelled_turn(stage: Stage) -> None:
    conversation, model = await stage.talk()
    await cancel_at_the_model(conversation, model, STATEMENT)
    await conversation.reset()
    await conversation.say("Hello.")
    await conversation.aclose()
    said = [text for role, text in await stage.stored_messages() if role == "user"]
    expect(said == [STATEMENT, "Hello."], f"a turn was cancelled before a reset; of its words, stored was {said}")


@check(Rule.DURABLE)
async def _a_turn_cancelled_at_its_write_is_written_later(stage: Stage) -> None:
    conversation, _ = await stage.talk_through_gate(patience=2.0)
    await conversation.say("Hello.")
    stage.gate.close()
    turn = asyncio.ensure_future(conversation.say(STATEMENT))
    await asyncio.sleep(0.7)
    turn.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await turn
    stage.gate.open()
    await conversation.say("Are you there?")
    await conversation.aclose()
    said = [text for role, text in await stage.stored_messages() if role == "user"]
    expect(STATEMENT in said, f"the message of a turn that was cancelled while the database was away is lost: {said}")


@check(Rule.ON_ERROR)
async def _a_dead_database_does_not_end_the_turn(stage: Stage) -> None:
    conversation, _ = await stage.talk_through_gate(patience=1.0)
    await conversation.say("Hello.")
    stage.gate.close()
    try:
        answer = await conversation.say(STATEMENT)
    finally:
        stage.gate.open()
    expect(answer == "ok", f"without the database the turn answered {answer!r}")
    await conversation.say("And now?")
    prompt = (await stage.tell(QUESTION)).last_prompt
    expect(FACT in prompt, f"the message from while the database was away was not recalled: {prompt!r}")


@check(Rule.ON_ERROR)
async def _a_dead_database_ends_the_turn_if_asked(stage: Stage) -> None:
    await _fail_without_database(stage)


@check(Rule.ON_ERROR)
async def _a_recall_without_a_database_ends_the_turn_if_asked(stage: Stage) -> None:
    await _fail_without_database(stage, write="off")


async def _fail_without_database(stage: Stage, **options: Any) -> None:
    """Run a turn that has to fail with the error of memory."""
    stage.gate.close()
    conversation, _ = await stage.talk_through_gate(on_error="raise", patience=1.0, **options)
    try:
        await conversation.say(STATEMENT)
    except Exception as error:  # a framework may wrap the error in one of its own
        seen: BaseException | None = error
        while seen is not None and not isinstance(seen, ReMeError):
            seen = seen.__cause__ or seen.__context__
        told = isinstance(seen, ReMeError) or "database" in str(error).lower()
        expect(told, f"the turn failed, but the error does not come from memory: {error!r}")
        return
    finally:
        stage.gate.open()
    expect(False, "with on_error='raise', the turn ended without an error")
