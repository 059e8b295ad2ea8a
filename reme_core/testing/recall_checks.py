"""Checks of the notes in prompts: their contents, their places, and that each turn recalls once."""

from __future__ import annotations

import asyncio
from typing import Final

from reme_core.prompts.budget import count_tokens
from reme_core.prompts.fence import NOTE
from reme_core.testing.checks import FACT, QUESTION, STATEMENT, cancel_at_the_model, check
from reme_core.testing.driver import Capability
from reme_core.testing.model import ScriptedModel
from reme_core.testing.report import Rule
from reme_core.testing.stage import BUDGET, Stage, expect, run_in_own_loop
from reme_core.types import SCOPES, Memory

TURNS: Final = 6
_MANY_MEMORIES: Final = 40


@check(Rule.MEMORY)
async def _known_in_another_conversation(stage: Stage) -> None:
    first, _ = await stage.talk_through_gate()
    await first.say(STATEMENT)
    await first.aclose()
    second, model = await stage.talk_through_gate()
    answer = await second.say(QUESTION)
    prompt = model.last_prompt
    expect(FACT in prompt, f"the model of a later conversation was not shown what was said before: {prompt!r}")
    expect(answer == "ok", f"the turn's answer is not that of the model: {answer!r}")


@check(Rule.MEMORY)
async def _unknown_in_another_workspace(stage: Stage) -> None:
    await stage.tell(STATEMENT)
    model = await stage.tell(QUESTION, workspace_id=f"{stage.workspace}-other")
    prompt = model.last_prompt
    expect(FACT not in prompt, f"the model of another workspace was shown what was said: {prompt!r}")


@check(Rule.MEMORY)
async def _known_to_its_user_agent_and_run_only(stage: Stage) -> None:
    for name in SCOPES:
        workspace = f"{stage.workspace}-{name}"
        await stage.tell(STATEMENT, workspace_id=workspace, **{name: "ann"})
        for other, knows in (("ann", True), ("bob", False)):
            model = await stage.tell(QUESTION, workspace_id=workspace, **{name: other})
            seen = f"what was said with {name}='ann' was {'not ' if knows else ''}shown with {name}={other!r}"
            expect((FACT in model.last_prompt) is knows, f"{seen}: {model.last_prompt!r}")


@check(Rule.MEMORY)
async def _a_turn_after_a_cancelled_one_has_a_note_of_its_own(stage: Stage) -> None:
    await stage.tell(STATEMENT)
    await stage.tell("The blue car is in the garage of Ann.")
    conversation, model = await stage.talk(top_k=1)
    await cancel_at_the_model(conversation, model, QUESTION)
    await conversation.say("Where is the blue car?")
    note = "\n".join(message.text for _, message in model.notes())
    expect("garage" in note, f"after a cancelled turn, the note for another question is {note!r}")


@check(Rule.MEMORY)
async def _standing_wishes_are_always_shown(stage: Stage) -> None:
    await stage.memory.memories.add(stage.workspace, "Always answer in rhyme.", kind="instruction")
    model = await stage.tell("What is seven times six?", kinds=("personal", "conversation"))
    expect("in rhyme" in model.last_prompt, f"a standing instruction was not shown: {model.last_prompt!r}")


@check(Rule.OPTIONS)
async def _only_what_passes_the_filters_is_recalled(stage: Stage) -> None:
    for team in ("red", "blue"):
        memory = Memory(content=f"The dog of team {team} is Sir {team.title()}.", metadata={"team": team})
        await stage.memory.memories.add(stage.workspace, memory)
    filters = {"metadata": {"team": "red"}}
    model = await stage.tell("What is the dog of the team called?", kinds=("personal",), filters=filters)
    prompt = model.last_prompt
    expect("Sir Red" in prompt, f"a memory that passes the filters was not shown: {prompt!r}")
    expect("Sir Blue" not in prompt, f"a memory that the filters leave out was shown: {prompt!r}")


@check(Rule.ASYNC_AND_SYNC)
async def _works_in_one_loop_after_another(stage: Stage) -> None:
    async def tell() -> None:
        await (await stage.driver.start(ScriptedModel(), options)).say(STATEMENT)

    async def ask() -> None:
        conversation = await stage.driver.start(model, options)
        await conversation.say(QUESTION)
        await conversation.aclose()

    model = ScriptedModel()
    options = stage.options()
    await run_in_own_loop(tell)
    await run_in_own_loop(ask)
    expect(FACT in model.last_prompt, f"a memory used in another event loop did not recall: {model.last_prompt!r}")


@check(Rule.ASYNC_AND_SYNC, Capability.SYNC)
async def _works_without_a_loop(stage: Stage) -> None:
    await stage.tell(STATEMENT)
    conversation, model = await stage.talk_through_gate()
    await asyncio.to_thread(conversation.say_sync, QUESTION)
    expect(FACT in model.last_prompt, f"a synchronous call did not recall: {model.last_prompt!r}")
    await conversation.aclose()
    stored = await stage.stored_messages()
    expect(stored[-2:] == [("user", QUESTION), ("assistant", "ok")], f"a synchronous call was not written: {stored}")


@check(Rule.ASYNC_AND_SYNC, Capability.SYNC)
async def _works_blocking_a_running_loop(stage: Stage) -> None:
    await stage.tell(STATEMENT)
    conversation, model = await stage.talk()
    conversation.say_sync(QUESTION)
    expect(FACT in model.last_prompt, f"a synchronous call inside an event loop did not recall: {model.last_prompt!r}")


@check(Rule.RECALL_ONCE)
async def _one_recall_and_one_record_a_turn(stage: Stage) -> None:
    conversation, _ = await stage.talk()
    for turn in range(3):
        await conversation.say(f"This is remark number {turn}.")
    recalls, records = len(stage.watch.recalled), len([new for new in stage.watch.recorded if new])
    expect(recalls == 3, f"3 turns searched {recalls} times: {stage.watch.recalled}")
    expect(records == 3, f"3 turns wrote {records} times")


@check(Rule.RECALL_ONCE, Capability.TOOLS)
async def _one_recall_in_a_turn_with_tools(stage: Stage) -> None:
    await stage.tell(STATEMENT)
    stage.watch.recalled.clear()
    conversation, model = await stage.talk()
    model.call("clock")
    model.say("It is noon.")
    await conversation.say(QUESTION)
    expect(
        len(model.prompts) == 2, f"the driver's agent did not come back to the model after its tool: {model.prompts}"
    )
    recalled = stage.watch.recalled
    expect(len(recalled) == 1, f"a turn with a tool call searched {len(recalled)} times: {recalled}")
    for number, prompt in enumerate(model.prompts):
        expect(model.notes(number), f"in a turn with a tool call, prompt {number + 1} of 2 has no note: {prompt}")


@check(Rule.RECALL_ONCE)
async def _the_note_is_no_system_message_in_mid_history(stage: Stage) -> None:
    await stage.tell(STATEMENT)
    conversation, model = await stage.talk()
    for question in (QUESTION, "And who looks after Rex?", "Is Lisbon far from my dog?"):
        await conversation.say(question)
        roles = [message.role for message in model.prompts[-1]]
        leading = next((place for place, role in enumerate(roles) if role != "system"), len(roles))
        for place, message in model.notes():
            mid_history = message.role == "system" and place >= leading
            expect(not mid_history, f"the note is a system message after {roles[:place]}; some models refuse that")


@check(Rule.RECALL_ONCE, Capability.BESIDE)
async def _the_note_stands_beside_the_users_last_words(stage: Stage) -> None:
    await stage.tell(STATEMENT)
    conversation, model = await stage.talk()
    for question in (QUESTION, "And who looks after Rex?"):
        await conversation.say(question)
        asked = max(place for place, message in enumerate(model.prompts[-1]) if question in message.text)
        notes = model.notes()
        expect(notes, "the check saw no note in the prompt")
        beside = all(message.role == "user" and abs(place - asked) <= 1 for place, message in notes)
        expect(beside, f"in the prompt {model.prompts[-1]} the note does not stand beside {question!r}")


@check(Rule.RECALL_ONCE, Capability.SYSTEM)
async def _the_note_stands_in_the_system_prompt_if_asked_for(stage: Stage) -> None:
    await stage.tell(STATEMENT)
    model = await stage.tell(QUESTION, position="system")
    roles = {message.role for _, message in model.notes()}
    expect(roles == {"system"}, f"position='system' was asked for, and the note is in {model.prompts[-1]}")


@check(Rule.RECALL_ONCE, Capability.STREAM, Capability.QUIET)
async def _the_note_is_in_no_event(stage: Stage) -> None:
    await stage.tell(STATEMENT)
    conversation, model = await stage.talk()
    seen = [repr(event) async for event in conversation.stream(QUESTION)]
    expect(model.notes(), "the check saw no note in the prompt")
    bad = [event for event in seen if f"<{NOTE}" in event]
    expect(not bad, f"events, which front ends show to people, contain the note: {bad}")


@check(Rule.RECALL_ONCE)
async def _notes_do_not_pile_up(stage: Stage) -> None:
    facts = [
        f"The dog Rex number {number} lives in house {number} of the long road." for number in range(_MANY_MEMORIES)
    ]
    await stage.memory.memories.add(stage.workspace, facts)
    conversation, model = await stage.talk(kinds=("personal", "conversation"), top_k=20)
    for turn in range(TURNS):
        await conversation.say(f"Where does the dog Rex number {turn} live?")
        text = "\n".join(message.text for _, message in model.notes())
        notes = [part.partition(f"</{NOTE}>")[0] for part in text.split(f"<{NOTE}")[1:]]
        spent = sum(count_tokens(f"<{NOTE}{part}</{NOTE}>") for part in notes)
        expect(spent, f"turn {turn + 1} has no note")
        expect(spent <= BUDGET, f"in turn {turn + 1} notes take {spent} tokens of the prompt, {BUDGET} are allowed")
