"""Checks of tool memory: whether the framework's tool calls are recorded, with their failures."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Final

from reme_core.store.tool_calls import ToolStatistics
from reme_core.testing.checks import check
from reme_core.testing.driver import Capability, Conversation
from reme_core.testing.model import ScriptedModel
from reme_core.testing.report import Rule
from reme_core.testing.stage import Stage, expect

KINDS: Final = ("conversation", "tool")
_PATIENCE: Final = 20.0


@check(Rule.TOOLS, Capability.TOOLS)
async def _each_call_is_counted_once_and_a_failure_as_one(stage: Stage) -> None:
    conversation, model = await stage.talk(kinds=KINDS)
    await _ask_the_time(model, conversation, "Lisbon")
    await _ask_the_time(model, conversation, "Atlantis")
    await conversation.say("Thank you!")  # with it, some frameworks pass all earlier messages again
    await conversation.aclose()
    tools = await _statistics(stage)
    expect([tool.tool_name for tool in tools] == ["clock"], f"the agent called clock; tool memory knows {tools}")
    clock = tools[0]
    seen = f"tool memory counts {clock.calls} calls of which {clock.successes} worked, and knows {clock.recent_errors}"
    expect((clock.calls, clock.successes) == (2, 1), f"of 2 calls of clock 1 failed; {seen}")
    expect("no clock in Atlantis" in " ".join(clock.recent_errors), f"the error of clock is missing; {seen}")


@check(Rule.TOOLS, Capability.TOOLS, Capability.PARALLEL)
async def _calls_that_are_made_at_once_are_each_kept_with_its_result(stage: Stage) -> None:
    conversation, model = await stage.talk(kinds=KINDS)
    told = {"Lisbon": "It is noon.", "Limbo": "", "Porto": "It is noon."}
    model.call_at_once("clock", *({"city": city} for city in told))
    await conversation.say("What time is it in three cities?")
    await conversation.say("Thank you!")  # as above
    await conversation.aclose()
    stored = await stage.transcript()
    results = [(message.tool_call_id, message.content) for message in stored if message.role == "tool"]
    calls = [call for message in stored for call in message.tool_calls]
    kept = {json.loads(call.arguments)["city"]: [text for name, text in results if name == call.id] for call in calls}
    expect(
        len(calls) == len(results) == 3, f"of 3 calls in one answer, {len(calls)} and {len(results)} results are stored"
    )
    expect(kept == {city: [text] for city, text in told.items()}, f"clock told {told}; the stored results are {kept}")
    counted = [tool.calls for tool in await _statistics(stage)]
    expect(counted == [3], f"clock was called 3 times in one answer; tool memory counts {counted}")


@check(Rule.TOOLS, Capability.TOOLS)
async def _no_call_is_kept_unless_asked_for(stage: Stage) -> None:
    conversation, model = await stage.talk()
    await _ask_the_time(model, conversation, "Lisbon")
    await conversation.aclose()
    tools = await _statistics(stage)
    expect(not tools, f"'tool' is not among the kinds, and tool memory knows {tools}")


@check(Rule.TOOLS, Capability.TOOLS)
async def _a_call_does_not_wait_for_tool_memory(stage: Stage) -> None:
    stage.watch.may_keep_calls.clear()
    conversation, model = await stage.talk(kinds=KINDS, write="background")
    try:
        async with asyncio.timeout(_PATIENCE):
            await _ask_the_time(model, conversation, "Lisbon")
    except TimeoutError:
        expect(False, "the turn waited until tool memory had recorded the call")
    finally:
        stage.watch.may_keep_calls.set()
    await conversation.aclose()
    tools = await _statistics(stage)
    expect(tools, "a call is lost that tool memory was slow to record")


@check(Rule.TOOLS, Capability.TOOLS)
async def _a_call_is_kept_while_the_database_is_away(stage: Stage) -> None:
    conversation, model = await stage.talk_through_gate(kinds=KINDS, patience=1.0)
    await conversation.say("Hello.")
    stage.gate.close()
    try:
        await _ask_the_time(model, conversation, "Lisbon")
    finally:
        stage.gate.open()
    await conversation.say("And now?")
    await conversation.say("Thank you!")
    await conversation.aclose()
    tools = await _statistics(stage)
    expect([tool.calls for tool in tools] == [1], f"a call was made while the database was away; known are {tools}")


async def _ask_the_time(model: ScriptedModel, conversation: Conversation, city: str) -> None:
    model.call("clock", city=city)
    with contextlib.suppress(ValueError):  # in some frameworks, what a tool raises ends the turn
        await conversation.say(f"What time is it in {city}?")


async def _statistics(stage: Stage) -> list[ToolStatistics]:
    return await stage.memory.tools.statistics(stage.workspace)
