"""AutoGen agents with a memory: what is particular to AutoGen."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import MemoryQueryEvent, TextMessage, ToolCallSummaryMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.model_context import (
    BufferedChatCompletionContext,
    ChatCompletionContext,
)
from autogen_core.tools import FunctionTool
from pydantic import SecretStr
from reme_autogen import ReMeAssistantAgent, ReMeMemory, ReMeModelContext, ReMeTool

from reme_core import AsyncReMe
from reme_core.errors import ConfigurationError, InputError
from reme_core.settings import Settings
from reme_core.testing import Gate, ScriptedModel, clock
from reme_core.types import Message
from tests.integrations.autogen_driver import FakeClient, agent_of
from tests.integrations.inside import ASKED, TOLD, stored_rows

# --- the agent --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("session_id", [None, "s1"])
async def test_a_team_shares_one_memory_and_each_message_is_written_once(
    reme: AsyncReMe, model: ScriptedModel, session_id: str | None
) -> None:
    await ReMeMemory(reme, "alice").add(MemoryContent(content="Rex is a dachshund.", mime_type="text/plain"))
    for text in ("Let me think about Rex.", "Rex needs short walks."):
        model.say(text)
    team = RoundRobinGroupChat(
        [
            agent_of(model, ReMeMemory(reme, "alice", session_id=session_id, write="awaited"), name)
            for name in ("thinker", "writer")
        ],
        termination_condition=MaxMessageTermination(3),
    )
    result = await team.run(task="How far should Rex walk?")
    assert all("dachshund" in "".join(m.text for m in prompt) for prompt in model.prompts)
    assert len([m for m in result.messages if isinstance(m, MemoryQueryEvent)]) == 2
    rows = await stored_rows(reme, "role, author, content, session_id")
    assert [row[:3] for row in rows] == [
        ("user", "", "How far should Rex walk?"),
        ("assistant", "thinker", "Let me think about Rex."),
        ("assistant", "writer", "Rex needs short walks."),
    ]
    assert len({row[3] for row in rows}) == 1
    assert session_id in (None, rows[0][3])


async def test_a_message_that_two_agents_hear_is_recorded_in_the_conversation_of_each(
    reme: AsyncReMe, model: ScriptedModel
) -> None:
    memory = ReMeMemory(reme, "alice", write="awaited")
    task = TextMessage(content=TOLD, source="user")
    for name in ("thinker", "writer"):
        await agent_of(model, memory, name).run(task=task)
    rows = await stored_rows(reme, "session_id, author, content")
    assert [row[1:] for row in rows] == [("", TOLD), ("thinker", "ok"), ("", TOLD), ("writer", "ok")]
    assert rows[0][0] == rows[1][0] != rows[2][0] == rows[3][0]


@pytest.mark.parametrize("place", ["memory", "context", "agent"])
async def test_the_last_time_is_the_conversation_before_and_not_this_one(
    reme: AsyncReMe, model: ScriptedModel, place: str
) -> None:
    def begin() -> AssistantAgent:
        memory = ReMeMemory(reme, "alice", write="awaited", top_k=1, min_relevance=0.0)
        if place == "agent":
            return agent_of(model, memory)
        if place == "memory":
            return AssistantAgent("assistant", FakeClient(model), memory=[memory])
        return AssistantAgent("assistant", FakeClient(model), model_context=ReMeModelContext(memory))

    for told in ("Let us talk about the tides.", "The lighthouse wants painting."):
        await begin().run(task=told)
    agent = begin()
    await agent.run(task="Good morning!")
    await agent.run(task="What did we talk about last time we spoke?")
    assert "lighthouse" in model.last_prompt


async def test_the_stream_shows_what_was_recalled_and_is_recorded_before_its_response(
    reme: AsyncReMe, model: ScriptedModel
) -> None:
    memory = ReMeMemory(reme, "alice", write="awaited")
    await agent_of(model, memory).run(task=TOLD)
    agent = agent_of(model, memory, model_client_stream=True)
    events = [event async for event in agent.run_stream(task=ASKED)]
    recalled = next(event for event in events if isinstance(event, MemoryQueryEvent))
    assert TOLD in [content.content for content in recalled.content]
    assert ("user", ASKED) in await stored_rows(reme)


async def test_a_stream_that_is_left_early_keeps_the_users_words(reme: AsyncReMe, model: ScriptedModel) -> None:
    memory = ReMeMemory(reme, "alice", write="awaited")
    stream = agent_of(model, memory, model_client_stream=True).run_stream(task=TOLD)
    async for event in stream:
        if not isinstance(event, TextMessage):
            break
    await stream.aclose()
    await asyncio.sleep(0.1)  # AutoGen leaves its inner generators to the event loop to close
    await memory.close()
    assert ("user", TOLD) in await stored_rows(reme)


async def test_tool_calls_and_their_results_are_recorded(reme: AsyncReMe, model: ScriptedModel) -> None:
    model.call("clock")
    tools = [FunctionTool(clock, description="Tell the time of day.")]
    agent = agent_of(model, ReMeMemory(reme, "alice", write="awaited"), tools=tools)
    result = await agent.run(task="What time is it?")
    assert isinstance(result.messages[-1], ToolCallSummaryMessage)
    rows = await stored_rows(reme, "role, content, tool_calls -> 0 ->> 'name'")
    assert rows == [
        ("user", "What time is it?", None),
        ("assistant", "", "clock"),
        ("tool", "It is noon.", None),
        ("assistant", "It is noon.", None),
    ]


async def test_the_results_of_tools_are_recorded_if_the_model_fails_after_them(
    reme: AsyncReMe, model: ScriptedModel
) -> None:
    class Failing(FakeClient):
        async def create(self, *args: Any, **kwargs: Any) -> Any:
            if len(model.prompts) == 1:
                raise ConnectionError("gone")
            return await super().create(*args, **kwargs)

    tools = [FunctionTool(clock, description="Tell the time of day.")]
    memory = ReMeMemory(reme, "alice", kinds=["conversation", "tool"], write="awaited")
    agent = ReMeAssistantAgent("assistant", Failing(model), memory=[memory], tools=tools, reflect_on_tool_use=True)
    model.call("clock")
    with pytest.raises(ConnectionError):
        await agent.run(task="What time is it?")
    await memory.close()
    assert await stored_rows(reme) == [("user", "What time is it?"), ("assistant", ""), ("tool", "It is noon.")]
    assert [(fared.tool_name, fared.calls) for fared in await reme.tools.statistics("alice")] == [("clock", 1)]


@pytest.mark.parametrize("stock", [False, True])
async def test_notes_take_no_more_place_in_a_short_context_however_long_it_is_used(
    reme: AsyncReMe, model: ScriptedModel, stock: bool
) -> None:
    memory = ReMeMemory(reme, "alice", write="awaited")
    options: Any = {"memory": [memory], "model_context": BufferedChatCompletionContext(buffer_size=3)}
    kind = AssistantAgent if stock else ReMeAssistantAgent
    agent = kind("assistant", FakeClient(model), **options)
    for number in range(12):
        await agent.run(task=f"Remark {number} about my dog Rex.")
    assert [len(model.notes(number)) for number in range(12)][5:] == [1] * 7  # the first words are still in the context
    assert max(map(len, model.prompts)) <= 5
    kept = [m for m in (await agent.save_state())["llm_context"]["messages"] if "memory_note" in str(m["content"])]
    assert len(kept) <= int(stock)
    counts = memory.turn.counts
    assert (counts.recalls, counts.records, counts.messages) == (12, 12, 24)


# --- components -------------------------------------------------------------------------------------------------------


def test_a_loaded_memory_takes_out_the_secrets_that_the_dumped_one_took_out(settings: Settings) -> None:
    memory = ReMeMemory(settings.model_copy(update={"redact": ["email"]}), "alice")
    assert ReMeMemory.load_component(memory.dump_component()).turn.settings.redact == ["email"]
    assert copy.deepcopy(memory).turn.settings.redact == ["email"]


@pytest.mark.parametrize("as_json", [False, True])
async def test_an_agent_round_trips_with_its_memory_and_tools(
    reme: AsyncReMe, database_url: str, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    memory = ReMeMemory(
        SecretStr(database_url), "alice", kinds=["conversation"], top_k=7, token_budget=123, write="awaited"
    )
    agent = agent_of(model, memory, memory_tools=True, model_context=BufferedChatCompletionContext(buffer_size=4))
    dumped = agent.dump_component()
    assert dumped.provider == "reme_autogen.ReMeAssistantAgent"
    written = dumped.model_dump_json()
    assert database_url not in written
    assert "**********" in written
    if as_json:
        with pytest.raises(ConfigurationError, match="DATABASE_URL"):
            ReMeAssistantAgent.load_component(json.loads(written))
        monkeypatch.setenv("DATABASE_URL", database_url)
    loaded = AssistantAgent.load_component(json.loads(written) if as_json else dumped)
    assert type(loaded) is ReMeAssistantAgent
    assert loaded.dump_component().model_dump_json() == written
    assert isinstance(loaded.model_context, BufferedChatCompletionContext)
    await agent.run(task=TOLD)
    client = loaded._model_client
    assert isinstance(client, FakeClient)
    client.model.call("search_memory", query="Rex")
    await loaded.run(task=ASKED)
    assert "Lisbon" in client.model.last_prompt
    assert loaded._reme.turn.top_k == 7
    await agent.close()
    await loaded.close()


async def test_the_tools_of_a_loaded_agent_are_there_once_and_closed_with_it(gate: Gate, model: ScriptedModel) -> None:
    memory = ReMeMemory(gate.url, "alice", window=2_000)
    agent = agent_of(model, memory, memory_tools=True)
    loaded = ReMeAssistantAgent.load_component(agent.dump_component())
    given, again = [
        [tool["name"] for wb in one._workbench for tool in await wb.list_tools()] for one in (agent, loaded)
    ]
    assert len(given) == 6
    assert again == given
    client = loaded._model_client
    assert isinstance(client, FakeClient)
    client.model.call("search_memory", query="Rex")
    await loaded.run(task=ASKED)
    assert gate.connections
    await loaded.close()
    async with asyncio.timeout(5):
        while gate.connections:
            await asyncio.sleep(0.02)


async def test_a_context_round_trips_with_its_memory(database_url: str) -> None:
    inner = BufferedChatCompletionContext(buffer_size=4)
    context = ReMeModelContext(ReMeMemory(database_url, "alice", session_id="s1"), inner)
    loaded = ChatCompletionContext.load_component(context.dump_component())
    assert isinstance(loaded, ReMeModelContext)
    assert isinstance(loaded.inner, BufferedChatCompletionContext)
    assert loaded.memory.turn.workspace_id == "alice"
    assert loaded.dump_component() == context.dump_component()


async def test_an_agents_state_goes_on_in_another_agent_and_nothing_is_written_twice(
    reme: AsyncReMe, model: ScriptedModel
) -> None:
    first = agent_of(model, ReMeMemory(reme, "alice", write="awaited"))
    await first.run(task=TOLD)
    state = json.loads(json.dumps(await first.save_state()))
    second = agent_of(model, ReMeMemory(reme, "alice", write="awaited"))
    await second.load_state(state)
    await second.run(task=ASKED)
    assert [m.text for m in model.prompts[-1] if m.role == "assistant"] == ["ok"]
    sessions = await stored_rows(reme, "session_id, content")
    assert [content for _, content in sessions] == [TOLD, "ok", ASKED, "ok"]
    assert len({session for session, _ in sessions}) == 1
    await second.on_reset(CancellationToken())
    await second.run(task="Hello again.")
    assert len({session for session, _ in await stored_rows(reme, "session_id, content")}) == 2


@pytest.mark.parametrize("resets", [0, 1])
@pytest.mark.parametrize("session_id", [None, "s1"])
async def test_an_agent_of_a_loaded_team_that_had_not_spoken_goes_on_with_its_conversation(
    reme: AsyncReMe, model: ScriptedModel, session_id: str | None, resets: int
) -> None:
    def begin() -> RoundRobinGroupChat:
        memory = ReMeMemory(reme, "alice", session_id=session_id, write="awaited")
        agents = [agent_of(model, memory, name) for name in ("thinker", "writer")]
        return RoundRobinGroupChat(agents, termination_condition=MaxMessageTermination(2))

    team = begin()
    for _ in range(resets):
        await team.run(task="Before.")
        await team.reset()
    await team.run(task="One.")
    state = json.loads(json.dumps(await team.save_state()))
    team = begin()
    await team.load_state(state)
    await team.run(task="Two.")
    await team.reset()
    await team.run(task="Three.")
    rows = await stored_rows(reme, "session_id, content, author")
    assert [row[1:] for row in rows[2 * resets :]] == [
        ("One.", ""), ("ok", "thinker"), ("Two.", ""), ("ok", "writer"), ("Three.", ""), ("ok", "thinker"),
    ]  # fmt: skip
    assert [len({row[0] for row in part}) for part in (rows[-6:-2], rows[-2:], rows)] == [1, 1, 2 + resets]


async def test_an_agent_that_loads_the_state_of_a_fresh_one_begins_another_conversation(
    reme: AsyncReMe, model: ScriptedModel
) -> None:
    memory = ReMeMemory(reme, "alice", write="awaited")
    agent = agent_of(model, memory)
    await agent.run(task=TOLD)
    await agent.load_state(await agent_of(model, memory).save_state())
    await agent.run(task=ASKED)
    assert len({session for session, _ in await stored_rows(reme, "session_id, content")}) == 2


async def test_a_loaded_agent_goes_on_counting_the_conversations_of_its_session(
    reme: AsyncReMe, model: ScriptedModel
) -> None:
    first = agent_of(model, ReMeMemory(reme, "alice", session_id="s1", write="awaited"))
    await first.run(task="One.")
    await first.on_reset(CancellationToken())
    await first.run(task="Two.")
    second = agent_of(model, ReMeMemory(reme, "alice", session_id="s1", write="awaited"))
    await second.load_state(json.loads(json.dumps(await first.save_state())))
    await second.run(task="Two and a half.")
    await second.on_reset(CancellationToken())
    await second.run(task="Three.")
    said = [row for row in await stored_rows(reme, "session_id, content") if row[1] != "ok"]
    assert said == [("s1", "One."), ("s1#1", "Two."), ("s1#1", "Two and a half."), ("s1#2", "Three.")]


# --- the protocol -----------------------------------------------------------------------------------------------------


async def test_what_is_added_is_found_and_its_metadata_is_json(reme: AsyncReMe) -> None:
    memory = ReMeMemory(reme, "alice")
    content = MemoryContent(content="Rex is a dachshund.", mime_type=MemoryMimeType.TEXT, metadata={"n": 1.5})
    await memory.add(content)
    await memory.add(MemoryContent(content={"dog": "Rex", "age": 7}, mime_type="application/json"))
    await memory.add(
        MemoryContent(content="Answer in rhyme.", mime_type="text/plain", metadata={"kind": "instruction"})
    )
    found = (await memory.query("What is Rex?", limit=1)).results
    assert [one.content for one in found] == ["Rex is a dachshund."]
    assert found[0].metadata is not None
    assert found[0].metadata["n"] == 1.5
    assert json.dumps(found[0].metadata)
    told = (await memory.query(MemoryContent(content="How old?", mime_type="text/plain"))).results
    assert ({"dog": "Rex", "age": 7}, "application/json") in [(one.content, one.mime_type) for one in told]
    await reme.record("alice", [Message(content="Rex is asleep.")])
    assert len((await memory.query("What is Rex?", top_k=1)).results) == 1
    assert not (await memory.query("Which bus goes to the airport?", min_relevance=0.99)).results
    with pytest.raises(InputError, match="did you mean 'top_k'"):
        await memory.query("What is Rex?", topk=1)
    kinds = {m.content: str(m.kind) for m in await reme.memories.list("alice")}
    assert kinds["Answer in rhyme."] == "instruction"


async def test_what_is_added_is_of_whom_the_memory_is(reme: AsyncReMe) -> None:
    ann, bob = (ReMeMemory(reme, "alice", user_id=user) for user in ("ann", "bob"))
    for whose, memory in (("Ann", ann), ("Bob", bob)):
        await memory.add(MemoryContent(content=f"{whose} drinks tea.", mime_type="text/plain"))
    assert [one.content for one in (await ann.query("Who drinks tea?")).results] == ["Ann drinks tea."]
    await ann.clear()
    assert [memory.content for memory in await reme.memories.list("alice")] == ["Bob drinks tea."]


async def test_a_query_for_no_number_of_memories_is_refused(reme: AsyncReMe) -> None:
    for limit in (0, "3", 1.5):
        with pytest.raises(InputError, match="whole number"):
            await ReMeMemory(reme, "alice").query("Rex", top_k=limit)


async def test_a_query_for_two_numbers_of_memories_is_refused(reme: AsyncReMe) -> None:
    with pytest.raises(InputError, match="give one"):
        await ReMeMemory(reme, "alice").query("Rex", top_k=3, limit=5)


async def test_the_context_that_was_given_is_the_agents_own(reme: AsyncReMe, model: ScriptedModel) -> None:
    await ReMeMemory(reme, "alice").add(MemoryContent(content="Rex is a dachshund.", mime_type="text/plain"))
    given = BufferedChatCompletionContext(buffer_size=9)
    agent = agent_of(model, ReMeMemory(reme, "alice"), model_context=given)
    await agent.run(task=ASKED)
    assert agent.model_context is given
    assert model.notes()
    assert [message.content for message in await given.get_messages()] == [ASKED, "ok"]


async def test_what_is_no_memory_is_refused(reme: AsyncReMe) -> None:
    memory = ReMeMemory(reme, "alice")
    with pytest.raises(InputError, match="not bytes"):
        await memory.add(MemoryContent(content=b"\x00", mime_type="application/octet-stream"))
    with pytest.raises(InputError, match="no kind 'feeling'"):
        await memory.add(MemoryContent(content="x", mime_type="text/plain", metadata={"kind": "feeling"}))


async def test_clear_forgets_and_close_disconnects(settings: Settings, model: ScriptedModel) -> None:
    memory = ReMeMemory(settings, "alice", write="awaited")
    await agent_of(model, memory).run(task=TOLD)
    await memory.close()
    assert (await memory.query(ASKED)).results, "closing is no forgetting"
    await memory.clear()
    assert not (await memory.query(ASKED)).results
    await memory.close()


async def test_a_token_cancels_a_query(reme: AsyncReMe) -> None:
    token = CancellationToken()
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ReMeMemory(reme, "alice").query(ASKED, token)


async def test_an_agent_tends_its_memory_by_tools(reme: AsyncReMe, model: ScriptedModel) -> None:
    memory = ReMeMemory(reme, "alice", kinds=["personal"])
    agent = agent_of(model, memory, memory_tools=True, max_tool_iterations=2)
    model.call("add_memory", content="Rex is a dachshund.")
    await agent.run(task="Remember my dog.")
    [known] = await reme.memories.list("alice")
    model.call("update_memory", memory_id=known.memory_id, content="Rex is a poodle.")
    await agent.run(task="I was wrong.")
    assert (await reme.memories.get("alice", known.memory_id)).content == "Rex is a poodle."
    names = {tool.name: tool.schema for tool in ReMeTool.all(memory)}
    assert list(names) == ["search_memory", "add_memory", "update_memory", "forget_memory"]
    parameters: Any = names["search_memory"]["parameters"]
    assert parameters["required"] == ["query"]
    assert "plain words" in parameters["properties"]["query"]["description"]
    with pytest.raises(ConfigurationError, match="no memory tool"):
        ReMeTool("dream", memory)


async def test_what_memorys_tools_answer_is_recorded_by_nobody_who_hears_it(
    reme: AsyncReMe, model: ScriptedModel
) -> None:
    await reme.memories.add("alice", "Rex is a dachshund.")
    model.call("search_memory", query="Rex")  # by default a turn ends with what its tools gave
    memories = [ReMeMemory(reme, "alice", kinds=["personal"], write="awaited") for _ in range(2)]
    team = RoundRobinGroupChat(
        [
            agent_of(model, memory, name, memory_tools=True)
            for name, memory in zip(("finder", "writer"), memories, strict=True)
        ],
        termination_condition=MaxMessageTermination(3),
    )
    assert "dachshund" in (await team.run(task="What is Rex?")).messages[-2].to_text()  # type: ignore[union-attr]
    assert await stored_rows(reme, "author, content") == [("", "What is Rex?"), ("finder", ""), ("writer", "ok")]
