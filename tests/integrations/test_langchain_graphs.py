"""Memory in LangChain's agents beside others: other tenants, other middleware that shortens a run, other agents."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from reme_langchain import ReMeMiddleware

from reme_core import AsyncReMe
from reme_core.testing import ScriptedModel
from tests.integrations.inside import ASKED, fetch, stored_rows
from tests.integrations.langchain_driver import ScriptedChat


@dataclass
class Context:
    user_id: str


class _Meeting(ScriptedChat):
    """A model that answers once so many calls are under way."""

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        await self.meeting.wait()
        return await super()._agenerate(messages)

    meeting: Any = None


async def recorded(reme: AsyncReMe, workspace: str) -> list[tuple[str, str, str]]:
    """The messages of a workspace but those of `remember`, in order: session, role and words."""
    found = await stored_rows(reme, "session_id, role, content", workspace)
    return [tuple(row) for row in found if row[0] != "earlier"]


async def remember(reme: AsyncReMe, workspace: str, town: str) -> None:
    said = {"role": "user", "content": f"My dog Rex lives in {town}."}
    await reme.record(workspace, [said], session_id="earlier", wait=True)


async def test_tenants_with_the_same_thread_and_message_ids_are_kept_apart(reme: AsyncReMe) -> None:
    homes = {"alice": "Lisbon", "bob": "Tokyo"}
    model, meeting = ScriptedModel(), asyncio.Barrier(2)
    for workspace, town in homes.items():
        await remember(reme, workspace, town)
    memory = ReMeMiddleware(client=reme, workspace_id=lambda runtime: runtime.context.user_id)
    chat = _Meeting(model)
    chat.meeting = meeting
    agent: Any = create_agent(chat, middleware=[memory], context_schema=Context)
    asked = {"messages": [HumanMessage(ASKED, id="1")]}
    thread = {"configurable": {"thread_id": "main"}}
    await asyncio.gather(*(agent.ainvoke(asked, thread, context=Context(name)) for name in homes))
    await memory.aclose()
    shown = [" ".join(message.text for message in prompt) for prompt in model.prompts]
    assert sorted(("Lisbon" in text, "Tokyo" in text) for text in shown) == [(False, True), (True, False)]
    for name in homes:
        assert [words for _, _, words in await recorded(reme, name)][:1] == [ASKED]


@pytest.mark.parametrize("checkpointed", [True, False])
async def test_what_other_middleware_takes_out_of_a_run_is_recorded_once_and_the_note_stays(
    reme: AsyncReMe, checkpointed: bool
) -> None:
    @tool
    def clock(city: str) -> str:
        """The time in a city."""
        return f"noon in {city}"

    model, summaries = ScriptedModel(), ScriptedModel()
    for _ in range(2):
        summaries.say("A summary of it all")
    await remember(reme, "alice", "Lisbon")
    memory = ReMeMiddleware(client=reme, workspace_id="alice")
    summarise = SummarizationMiddleware(ScriptedChat(summaries), trigger=("messages", 4), keep=("messages", 1))
    agent: Any = create_agent(
        ScriptedChat(model),
        [clock],
        middleware=[memory, summarise],
        checkpointer=InMemorySaver() if checkpointed else None,
    )
    model.call("clock", city="Rome")
    model.call("clock", city="Oslo")
    model.say("It lives in Lisbon.")
    thread = {"configurable": {"thread_id": "t"}} if checkpointed else {}
    await agent.ainvoke({"messages": [HumanMessage(ASKED)]}, thread)
    assert all("lives in Lisbon" in " ".join(m.text for m in prompt) for prompt in model.prompts)
    assert len(model.prompts) == 3
    model.say("You are welcome.")
    await agent.ainvoke({"messages": [HumanMessage("thanks a lot")]}, thread)
    await memory.aclose()
    assert memory.counts.recalls == 2
    said = [(role, words) for _, role, words in await recorded(reme, "alice")]
    run = [("user", ASKED), ("assistant", ""), ("tool", "noon in Rome"), ("assistant", ""), ("tool", "noon in Oslo")]
    run += [("assistant", "It lives in Lisbon.")]
    assert said == [*run, ("user", "thanks a lot"), ("assistant", "You are welcome.")]


@pytest.mark.parametrize("thread", [{"configurable": {"thread_id": "t"}}, {}])
async def test_the_agents_of_one_graph_record_one_conversation(reme: AsyncReMe, thread: dict[str, Any]) -> None:
    model = ScriptedModel()
    memory = ReMeMiddleware(client=reme, workspace_id="alice")
    graph: Any = StateGraph(MessagesState)
    for name in ("first", "second"):
        graph.add_node(name, create_agent(ScriptedChat(model), middleware=[memory], name=name))
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    model.say("I ask my colleague.")
    model.say("I am the colleague.")
    await graph.compile().ainvoke({"messages": [HumanMessage(ASKED)]}, thread)
    await memory.aclose()
    said = await recorded(reme, "alice")
    assert [words for _, _, words in said] == [ASKED, "I ask my colleague.", "I am the colleague."]
    assert len({session for session, _, _ in said}) == 1


async def test_runs_that_share_their_first_message_are_conversations_of_their_own(reme: AsyncReMe) -> None:
    model, system = ScriptedModel(), SystemMessage("You are helpful.")
    memory = ReMeMiddleware(client=reme, workspace_id="alice")
    agent: Any = create_agent(ScriptedChat(model), middleware=[memory])
    questions = ["I am Ann, hello Rex.", "I am Bob, hello Daisy."]
    for question in questions:
        await agent.ainvoke({"messages": [system, HumanMessage(question)]})
    await memory.aclose()
    said = await recorded(reme, "alice")
    assert [words for _, role, words in said if role == "user"] == questions
    assert len({session for session, _, _ in said}) == 2


async def test_two_runs_at_once_in_one_thread_record_each_message_once_and_have_their_notes(reme: AsyncReMe) -> None:
    model = ScriptedModel()
    thread = {"configurable": {"thread_id": "t"}}
    before = [HumanMessage("A first question."), AIMessage("A first answer.")]
    await remember(reme, "alice", "Lisbon")
    memory = ReMeMiddleware(client=reme, workspace_id="alice")
    chat = _Meeting(model)
    chat.meeting = asyncio.Barrier(1)
    agent: Any = create_agent(chat, middleware=[memory])
    model.say("A first answer.")
    await agent.ainvoke({"messages": before[:1]}, thread)
    chat.meeting = asyncio.Barrier(2)
    questions = [ASKED, "Which city is my dog Rex in?"]
    given = [[m.model_copy(update={"id": None}) for m in before] for _ in questions]
    runs = [[*old, HumanMessage(question)] for old, question in zip(given, questions, strict=True)]
    await asyncio.gather(*(agent.ainvoke({"messages": messages}, thread) for messages in runs))
    await memory.aclose()
    assert ["Lisbon" in " ".join(m.text for m in prompt) for prompt in model.prompts[1:]] == [True, True]
    said = [words for _, role, words in await recorded(reme, "alice") if role == "user"]
    assert sorted(said) == sorted(["A first question.", *questions])


async def test_the_workspace_is_chosen_by_the_runtime_of_the_run(reme: AsyncReMe) -> None:
    @tool
    def clock(city: str) -> str:
        """The time in a city."""
        return f"noon in {city}"

    given: list[object] = []

    def workspace_of(runtime: Any) -> str:
        given.append(runtime)
        return "alice"

    model = ScriptedModel()
    memory = ReMeMiddleware(client=reme, workspace_id=workspace_of)
    agent: Any = create_agent(ScriptedChat(model), [clock], middleware=[memory])
    model.call("clock", city="Rome")
    model.say("At noon.")
    await agent.ainvoke({"messages": [HumanMessage("What time is it in Rome?")]})
    await memory.aclose()
    assert given and all(isinstance(runtime, Runtime) for runtime in given)


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("whole", [True, False])
async def test_a_task_that_an_agent_gives_by_a_tool_is_not_said_by_the_user(
    reme: AsyncReMe, asynchronous: bool, whole: bool
) -> None:
    model, task = ScriptedModel(), "I live in Paris with my dog Rex."

    def memory() -> ReMeMiddleware:
        return ReMeMiddleware(client=reme, workspace_id="alice", write="awaited")

    writer: Any = create_agent(ScriptedChat(ScriptedModel()), [], middleware=[memory()], name="writer")

    def given(task: str, runtime: ToolRuntime) -> dict[str, Any]:
        said = [one for one in runtime.state["messages"] if isinstance(one, HumanMessage)] if whole else []
        return {"messages": [*said, HumanMessage(task)]}

    @tool
    async def write(task: str, runtime: ToolRuntime) -> str:
        """Write a text."""
        return str((await writer.ainvoke(given(task, runtime)))["messages"][-1].text)

    @tool("write")
    def write_now(task: str, runtime: ToolRuntime) -> str:
        """Write a text."""
        return str(writer.invoke(given(task, runtime))["messages"][-1].text)

    tools = [write if asynchronous else write_now]
    boss: Any = create_agent(
        ScriptedChat(model), tools, middleware=[memory()], name="boss", checkpointer=InMemorySaver()
    )
    model.call("write", task=task)
    asked, place = {"messages": [HumanMessage("A poem, please.")]}, {"configurable": {"thread_id": "t"}}
    await boss.ainvoke(asked, place) if asynchronous else boss.invoke(asked, place)
    said = await fetch(reme, "alice", "select author, content from reme.message where role = 'user'")
    assert {tuple(row) for row in said} == {("boss", task), ("", "A poem, please.")}
    assert len(said) == 2
