"""Memory in LangChain: the framework's own test suites, tenants, traces, and streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import RetrieversIntegrationTests, ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from langgraph.checkpoint.memory import InMemorySaver
from reme_langchain import ReMeChatMessageHistory, ReMeMiddleware, ReMeRetriever, ReMeTool, memory_tools

from reme_core import AsyncReMe, Memory, ReMe, Settings
from reme_core.errors import DatabaseUnavailableError, InputError
from reme_core.testing import ScriptedModel
from reme_core.turn import TurnMemory
from tests.integrations.inside import ASKED, TOLD, hold_up_recalls, stored, stored_rows
from tests.integrations.langchain_driver import LangChainConversation, ScriptedChat


@dataclass
class Context:
    user_id: str


class TestRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _remembering(self, settings: Settings) -> Iterator[None]:
        self.settings = settings
        self.made: list[ReMeRetriever] = []
        with ReMe(settings) as reme:
            reme.memories.add("alice", [f"Rex the dog likes toy number {number}." for number in range(6)])
        yield
        for retriever in self.made:  # else each waits at the very end, for a database that is gone by then
            retriever.close()

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        made = self.made

        class Noted(ReMeRetriever):
            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                made.append(self)

        return Noted

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"database_url": self.settings, "workspace_id": "alice"}

    @property
    def retriever_query_example(self) -> str:
        return "Which toys does Rex like?"


class _OnTools:
    @pytest.fixture(autouse=True)
    def _turn(self, settings: Settings) -> Iterator[None]:
        self.turn = TurnMemory(settings, "alice")
        yield
        self.turn.close()

    @property
    def tool_constructor(self) -> type[BaseTool]:
        return ReMeTool

    @property
    def tool_constructor_params(self) -> dict[str, Any]:
        return {"name": "add_memory", "turn": self.turn}

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"content": "Rex is a dog."}


class TestToolsUnit(_OnTools, ToolsUnitTests):
    pass


class TestToolsIntegration(_OnTools, ToolsIntegrationTests):
    pass


async def test_tools_tend_the_memory(settings: Settings) -> None:
    async with TurnMemory(settings, "alice") as turn:
        search, add, update, forget = memory_tools(turn)
        name = (await add.ainvoke({"content": "Rex lives in Lisbon."})).partition("[")[2].partition("]")[0]
        assert "Lisbon" in await search.ainvoke({"query": "Where does Rex live?"})
        await update.ainvoke({"memory_id": name, "content": "Rex lives in Porto."})
        found = search.invoke({"query": "Where does Rex live?"})  # the same without awaiting, inside a loop
        assert "Porto" in found
        assert "Lisbon" not in found
        await forget.ainvoke({"memory_id": name})
        assert "Porto" not in await search.ainvoke({"query": "Where does Rex live?"})


async def test_tenants_of_one_agent_are_kept_apart(settings: Settings) -> None:
    model = ScriptedModel()
    async with ReMeMiddleware(settings, lambda runtime: runtime.context.user_id, write="awaited", tools=True) as memory:
        agent: Any = create_agent(ScriptedChat(model), middleware=[memory], context_schema=Context)

        async def say(user: str, text: str) -> str:
            await agent.ainvoke({"messages": [HumanMessage(text)]}, context=Context(user))
            return model.last_prompt

        await say("alice", TOLD)
        assert "Lisbon" in await say("alice", ASKED)
        assert "Lisbon" not in await say("bob", ASKED)
        model.call("search_memory", query="Rex Lisbon")
        assert "Lisbon" not in await say("bob", "Search for it.")
        model.call("search_memory", query="Rex Lisbon")
        assert "Lisbon" in await say("alice", "Search for it.")
        with pytest.raises(InputError, match="name of a workspace"):
            await say(None, ASKED)  # type: ignore[arg-type]
        assert memory.counts.recalls == 5


async def test_a_broken_off_stream_keeps_the_users_words(settings: Settings) -> None:
    async with ReMeMiddleware(settings, "alice") as memory:
        agent: Any = create_agent(ScriptedChat(ScriptedModel()), middleware=[memory])
        async for _ in agent.astream({"messages": [HumanMessage(TOLD)]}, stream_mode="updates"):
            break
    async with AsyncReMe(settings) as reme:
        assert (await reme.recall("alice", ASKED, kind="conversation")).hits[0].content == TOLD


async def test_the_note_follows_any_form_of_system_message_where_it_is_wanted_there(settings: Settings) -> None:
    blocks = SystemMessage(content=[{"type": "text", "text": "Be brief."}])
    async with ReMeMiddleware(settings, "alice", write="awaited", position="system") as memory:
        await LangChainConversation(ScriptedModel(), memory).say(TOLD)
        for given in (None, "Be brief.", blocks):
            model = ScriptedModel()
            agent: Any = create_agent(ScriptedChat(model), system_prompt=given, middleware=[memory])
            await agent.ainvoke({"messages": [HumanMessage(ASKED)]})
            role, text = model.prompts[-1][0].role, model.prompts[-1][0].text
            assert role == "system"
            assert "Lisbon" in text
            assert text.startswith("Be brief." if given else "<memory_note>")
            assert model.prompts[-1][-1].text == ASKED


async def test_threads_and_ids_that_look_alike_together_are_not_mixed_up(settings: Settings, reme: AsyncReMe) -> None:
    async with ReMeMiddleware(settings, "alice", write="awaited") as memory:
        agent: Any = create_agent(ScriptedChat(ScriptedModel()), middleware=[memory], checkpointer=InMemorySaver())
        for thread, message_id, said in (("a/b", "c", TOLD), ("a", "b/c", ASKED)):
            config = {"configurable": {"thread_id": thread}}
            await agent.ainvoke({"messages": [HumanMessage(said, id=message_id)]}, config)
    assert [(await reme.messages("alice", thread))[0].content for thread in ("a/b", "a")] == [TOLD, ASKED]


async def test_a_history_given_back_to_its_agent_is_not_recorded_once_more(settings: Settings, reme: AsyncReMe) -> None:
    thread: Any = {"configurable": {"thread_id": "a/b"}}
    async with ReMeMiddleware(client=reme, workspace_id="alice", write="awaited") as memory:
        for _ in range(2):  # the second agent does not know what the first one heard, as after a restart
            agent: Any = create_agent(ScriptedChat(ScriptedModel()), middleware=[memory], checkpointer=InMemorySaver())
            with ReMeChatMessageHistory("a/b", client=reme, workspace_id="alice") as history:
                before = await history.aget_messages()
            await agent.ainvoke({"messages": [*before, HumanMessage(TOLD)]}, thread)
    assert (await stored(reme)).count(TOLD) == 2


async def test_two_in_one_agent_have_names_and_memories_of_their_own(settings: Settings) -> None:
    model = ScriptedModel()
    ours = ReMeMiddleware(settings, "team", name="team", write="off")
    mine = ReMeMiddleware(settings, "alice", name="mine", write="awaited", kinds=["conversation"])
    async with ours, mine, AsyncReMe(settings) as reme:
        await reme.memories.add("team", "The office of the team is in Berlin.")
        await LangChainConversation(ScriptedModel(), mine).say(TOLD)
        agent: Any = create_agent(ScriptedChat(model), middleware=[ours, mine])
        await agent.ainvoke({"messages": [HumanMessage("Where do Rex, the dog, and the team's office live?")]})
        assert "Berlin" in model.last_prompt
        assert "Lisbon" in model.last_prompt


async def test_two_memories_of_an_agent_are_of_one_run_also_if_the_application_names_messages(
    reme: AsyncReMe, model: ScriptedModel
) -> None:
    memories = [ReMeMiddleware(reme, name, name=name, write="awaited") for name in ("team", "alice")]
    agent: Any = create_agent(ScriptedChat(model), [], middleware=memories)
    await agent.ainvoke({"messages": [HumanMessage(TOLD, id="1")]})
    for memory in memories:
        await memory.aclose()
        assert memory.counts.recalls == 1
    assert [await stored(reme, name) for name in ("team", "alice")] == [[TOLD, "ok"]] * 2


async def test_spans_stand_within_the_callers(settings: Settings) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with ReMeMiddleware(settings, "alice", write="awaited") as memory:
        conversation = LangChainConversation(ScriptedModel(), memory)
        with trace.get_tracer("app").start_as_current_span("request") as request:
            await conversation.say(TOLD)
            await asyncio.to_thread(conversation.say_sync, ASKED)
    spans = [span for span in exporter.get_finished_spans() if span.name.startswith("reme.")]
    assert [span.name for span in spans if span.name in ("reme.recall", "reme.record")] == [
        "reme.recall",
        "reme.record",
    ] * 2
    trace_id = request.get_span_context().trace_id
    assert {span.context.trace_id for span in spans} == {trace_id}


async def test_retrieves_memories_and_messages_in_turn_or_nothing_where_memory_is_away(settings: Settings) -> None:
    async with AsyncReMe(settings) as reme, ReMeRetriever(reme, "alice", k=2) as retriever:
        await reme.memories.add("alice", Memory(kind="custom", content="Rex is a dog.", metadata={"n": 1}))
        async with ReMeMiddleware(reme, "alice", write="awaited") as memory:
            await LangChainConversation(ScriptedModel(), memory).say(TOLD)
        found = await retriever.ainvoke("Rex the dog")
        assert [document.metadata["kind"] for document in found] == ["custom", "conversation"]
        assert found[0].metadata["n"] == 1
        json.dumps([document.metadata for document in found])
    nowhere = "postgresql://reme@127.0.0.1:9/none"
    assert await ReMeRetriever(nowhere, "alice").ainvoke("Rex") == []
    with pytest.raises(DatabaseUnavailableError):
        await ReMeRetriever(nowhere, "alice", on_error="raise").ainvoke("Rex")


async def test_a_retriever_finds_as_many_as_wanted_of_whom_is_named(reme: AsyncReMe) -> None:
    for user in ("ann", "bob"):
        await reme.memories.add("alice", [f"{user}'s dog is Rex {n}." for n in range(3)], user_id=user)
    for limit in ({"top_k": 2}, {"k": 2}, {"search_kwargs": {"k": 2}}):
        options: Any = {"user_id": "ann", **limit}
        found = [document.page_content for document in ReMeRetriever(reme, "alice", **options).invoke("Rex the dog")]
        assert len(found) == 2
        assert all(text.startswith("ann's") for text in found)


async def test_a_retriever_gives_nothing_that_is_unlikely_to_fit(reme: AsyncReMe) -> None:
    await reme.memories.add("alice", [TOLD])
    assert await ReMeRetriever(reme, "alice").ainvoke("Which bus goes to the airport?")
    assert not await ReMeRetriever(reme, "alice", min_relevance=0.9).ainvoke("Which bus goes to the airport?")


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        ({"top_k": 3, "k": 3}, "top_k and k are the same"),
        ({"search_kwargs": {"score_threshold": 0.5}}, "'score_threshold'; there are k"),
        ({"search_kwargs": 5}, "search_kwargs is a dict"),
        ({"limit": 3}, "'top_k'"),
        ({"kind": "personal"}, "'kinds'"),
        ({"tenant": "alice"}, "'workspace_id'"),
        ({"filters": {"color": "red"}}, "there are .*metadata"),
        ({"k": 0}, "1 or more"),
        ({"k": "3"}, "1 or more"),
        ({"workspace_id": ""}, "cannot name a workspace"),
    ],
)
async def test_a_retriever_refuses_what_means_nothing(settings: Settings, arguments: Any, right: str) -> None:
    with pytest.raises(InputError, match=right):
        ReMeRetriever(settings, **arguments)
    async with ReMeRetriever(settings, "alice") as retriever:
        with pytest.raises(InputError, match="1 or more"):
            await retriever.ainvoke("Rex", k=0)


async def test_a_history_gives_back_what_was_added_and_is_remembered(settings: Settings) -> None:
    said = [
        HumanMessage(TOLD, name="ada", id="1"),
        AIMessage("", tool_calls=[{"name": "clock", "args": {"zone": "UTC"}, "id": "c"}], additional_kwargs={"x": 1}),
        AIMessage(content=[{"type": "text", "text": "I see."}]),
        HumanMessage("Yes."),
        HumanMessage("Yes."),
    ]
    history = ReMeChatMessageHistory("monday", settings, "alice")
    await history.aadd_messages(said[:2])
    history.add_messages(said[2:])
    assert [m.model_dump() for m in await history.aget_messages()] == [m.model_dump() for m in said]
    assert history.messages == await history.aget_messages()
    other = ReMeChatMessageHistory("tuesday", settings, "alice")
    assert await other.aget_messages() == []
    async with AsyncReMe(settings) as reme:
        assert (await reme.recall("alice", ASKED, kind="conversation")).hits[0].content == TOLD
    await history.aclear()
    assert await history.aget_messages() == []
    await history.aadd_messages(said[:1])
    assert [m.content for m in await history.aget_messages()] == [TOLD]
    await history.aclose()
    await other.aclose()


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_history_serves_a_runnable(settings: Settings) -> None:
    from langchain_core.runnables.history import RunnableWithMessageHistory

    seen: list[list[str]] = []

    def answer(messages: list[Any]) -> AIMessage:
        seen.append([str(m.text) for m in messages])
        return AIMessage(f"answer {len(seen)}")

    history = ReMeChatMessageHistory("monday", settings, "alice")
    chain = RunnableWithMessageHistory(RunnableLambda(answer), lambda session_id: history)
    config: Any = {"configurable": {"session_id": "monday"}}
    await chain.ainvoke([HumanMessage("one")], config)
    await chain.ainvoke([HumanMessage("two")], config)
    assert seen == [["one"], ["one", "answer 1", "two"]]
    await history.aclose()


async def test_a_run_that_ends_while_it_recalls_records_the_users_words(
    reme: AsyncReMe, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    recalling = await hold_up_recalls(reme, monkeypatch)
    memory = ReMeMiddleware(reme, "alice", on_error="raise", patience=1.0)
    agent = create_agent(ScriptedChat(model), middleware=[memory])
    run = asyncio.ensure_future(agent.ainvoke({"messages": [HumanMessage(TOLD)]}))
    await asyncio.to_thread(recalling.wait, 20)
    run.cancel()
    await asyncio.wait([run])
    with pytest.raises(DatabaseUnavailableError, match="did not answer within 1 seconds"):
        agent.invoke({"messages": [HumanMessage(ASKED)]})
    for _ in range(100):  # both are delivered in the background
        if len(said := await stored_rows(reme)) == 2:
            break
        await asyncio.sleep(0.05)
    assert sorted(said) == sorted([("user", TOLD), ("user", ASKED)])
