"""Holds the adapter for AgentScope 1 against the rules; run by a Python that has that version (see the test beside).

python agentscope1_run.py <database URL>
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import Msg, TextBlock, ToolUseBlock
from agentscope.model import ChatModelBase, ChatResponse
from agentscope.tool import Toolkit, ToolResponse
from reme_agentscope import ReMeLongTermMemory

from reme_core.errors import InputError
from reme_core.testing import AGENT, Capability, Conversation, Driver, ScriptedModel, clock, validate
from reme_core.types import new_id


class FakeModel(ChatModelBase):
    def __init__(self, model: ScriptedModel) -> None:
        super().__init__("fake", False)
        self.scripted = model
        self.tools: list[str] = []

    async def __call__(self, messages: list[dict[str, Any]], tools: Any = None, *args: Any, **options: Any) -> Any:
        self.tools = [tool["function"]["name"] for tool in tools or []]
        reply = await self.scripted.answer([(m["role"], _text(m)) for m in messages])
        if reply.tool:
            call = ToolUseBlock(type="tool_use", id=reply.call_id, name=reply.tool, input=json.loads(reply.arguments))
            return ChatResponse(content=[call])
        return ChatResponse(content=[TextBlock(type="text", text=reply.text)])


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def tell_time(city: str = "here") -> ToolResponse:
    """Tell the time of day in a city."""
    return ToolResponse(content=[TextBlock(type="text", text=clock(city))])


class AgentScope1Conversation(Conversation):
    def __init__(self, agent: ReActAgent, memory: ReMeLongTermMemory) -> None:
        self.agent, self.memory = agent, memory

    async def say(self, text: str) -> str:
        turn = asyncio.ensure_future(self.agent(Msg("user", text, "user")))
        try:
            return (await asyncio.shield(turn)).get_text_content()
        except asyncio.CancelledError:
            await self.agent.interrupt()  # what a user of AgentScope 1 does to end a reply
            await turn
            raise

    def export(self) -> Any:
        return self.agent.state_dict()

    async def aclose(self) -> None:
        await self.memory.aclose()


class AgentScope1Driver(Driver):
    name = "AgentScope 1"
    package = "reme_agentscope"
    capabilities = frozenset({Capability.TOOLS, Capability.EXPORT, Capability.NAMES})
    mode = "static_control"

    async def start(self, model: ScriptedModel, options: dict[str, Any]) -> AgentScope1Conversation:
        memory = ReMeLongTermMemory(**options)
        toolkit = Toolkit()
        toolkit.register_tool_function(tell_time, func_name="clock")
        agent = ReActAgent(
            AGENT,
            "You are helpful.",
            FakeModel(model),
            OpenAIChatFormatter(),
            toolkit=toolkit,
            long_term_memory=memory,
            long_term_memory_mode=self.mode,
        )
        agent.set_console_output_enabled(False)
        return AgentScope1Conversation(agent, memory)


async def tools_are_offered_and_work(url: str) -> None:
    """In the mode `both` the agent stores a fact by a tool, and another one finds it by a tool."""
    workspace, model, driver = f"tools-{new_id()}", ScriptedModel(), AgentScope1Driver()
    driver.mode = "both"
    options = {"database_url": url, "workspace_id": workspace, "write": "awaited", "spool": "memory"}
    first = await driver.start(model, options)
    model.call("record_to_memory", thinking="it lasts", content=["Rex is a dachshund.", "Rex lives in Lisbon."])
    await first.say("Please remember my dog.")
    assert {"record_to_memory", "retrieve_from_memory"} <= set(first.agent.model.tools)
    schemas = {tool["function"]["name"]: tool["function"] for tool in first.agent.toolkit.get_json_schemas()}
    assert set(schemas["record_to_memory"]["parameters"]["properties"]) == {"thinking", "content"}
    assert "lasting facts" in schemas["record_to_memory"]["description"]
    await first.aclose()
    second = await driver.start(model, options)
    model.call("retrieve_from_memory", keywords=["dachshund", "Lisbon"])
    await second.say("What do you know?")
    assert "Rex is a dachshund." in model.last_prompt
    assert "Rex lives in Lisbon." in model.last_prompt
    model.call("record_to_memory", thinking="it lasts", content="Rex barks.")  # no list, as some models give it
    await second.say("Remember that he barks.")
    known = [memory.content for memory in await second.memory.turn.reme.memories.list(workspace)]
    assert "Rex barks." in known and "R" not in known
    await second.aclose()


async def the_agents_model_reads(url: str) -> None:
    """A conversation is read by the model of the agent."""
    workspace, script = f"read-{new_id()}", ScriptedModel()
    options = {"database_url": url, "workspace_id": workspace, "write": "awaited", "spool": "memory"}
    conversation = await AgentScope1Driver().start(script, {**options, "chat_model": FakeModel(script)})
    statement = "The user's dog Rex lives in Lisbon."
    operation = {"op": "add", "evidence": [1], "statement": statement, "value": "Lisbon", "thing": "Rex"}
    script.say("ok")  # to the turn; on a slow machine the reading begins before the turn has ended here
    script.say(json.dumps({"operations": [operation]}))
    await conversation.say("My dog Rex lives in Lisbon.")
    reme = conversation.memory.turn.reme
    await reme.summarise(workspace)
    known = [memory.content for memory in await reme.memories.list(workspace)]
    assert known == [statement], known
    await conversation.aclose()


async def interrupted_replies_are_left_out(url: str) -> None:
    """What the agent says about an interruption was never meant, and is not remembered."""
    workspace, model = f"interrupted-{new_id()}", ScriptedModel()
    options = {"database_url": url, "workspace_id": workspace, "write": "awaited", "spool": "memory"}
    conversation = await AgentScope1Driver().start(model, options)
    model.hold()
    turn = asyncio.ensure_future(conversation.say("Tell me everything about dogs."))
    await model.answering.wait()
    turn.cancel()
    await asyncio.wait([turn])
    await conversation.say("In short, please.")
    statement = "select role, content from reme.message order by document_id"
    reme = conversation.memory.turn.reme
    rows = await reme.connection.run(lambda engine: engine.database.fetch(workspace, statement))
    assert rows == [("user", "Tell me everything about dogs."), ("user", "In short, please."), ("assistant", "ok")], (
        rows
    )
    await conversation.aclose()


def what_it_cannot_do_is_refused(url: str) -> None:
    """Options that would do nothing with AgentScope 1 are errors."""
    for name, value in (("position", "system"), ("window", 1_000), ("topk", 3)):
        try:
            ReMeLongTermMemory(url, "alice", **{name: value})
        except InputError:
            continue
        raise AssertionError(f"{name}={value!r} does nothing, and there was no error")


async def main(url: str) -> int:
    what_it_cannot_do_is_refused(url)
    await the_agents_model_reads(url)  # first: its model reads for all workspaces, and later others wait too
    report = await validate(AgentScope1Driver(), database_url=url, conversations=10)
    print(report)
    await tools_are_offered_and_work(url)
    await interrupted_replies_are_left_out(url)
    return 0 if report else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
