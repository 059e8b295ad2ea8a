"""The note reaches the model and nobody else, in every kind of stream; and what a run may call its messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, wrap_model_call
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_core.language_models import BaseChatModel, FakeMessagesListChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr
from reme_langchain import ReMeMiddleware

from reme_core import AsyncReMe, Settings
from reme_core.testing import ScriptedModel, clock
from tests.integrations.inside import ASKED, TOLD
from tests.integrations.langchain_driver import ScriptedChat

ANSWER = ["In ", "the ", "south."]
MODES = ["values", "updates", "tasks", "debug", "messages", "custom", "checkpoints"]


class Talker(BaseChatModel):
    """A model that calls a tool, answers a token at a time, and keeps the prompts that it got."""

    _prompts: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "talker"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return generate_from_stream(self._stream(messages))  # as many do: the note must not stand there twice

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _tokens(self, messages: list[BaseMessage]) -> Iterator[ChatGenerationChunk]:
        self._prompts.append(messages)
        if not isinstance(messages[-1], HumanMessage):
            yield from (ChatGenerationChunk(message=AIMessageChunk(content=token)) for token in ANSWER)
            return
        call = {"name": "clock", "args": "{}", "id": "1", "index": 0}
        yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[call]))  # type: ignore[list-item]

    def _stream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        yield from self._tokens(messages)

    async def _astream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._tokens(messages):
            yield chunk


@pytest.fixture
async def told(settings: Settings) -> Settings:
    """A database in which a fact is remembered."""
    async with AsyncReMe(settings) as reme:
        await reme.memories.add("alice", TOLD)
    return settings


def agent_with(memory: ReMeMiddleware, **options: Any) -> tuple[Any, Talker]:
    model = Talker()
    agent: Any = create_agent(
        model, [tool(clock)], middleware=[memory], checkpointer=InMemorySaver(), system_prompt="Be brief.", **options
    )
    return agent, model


def check_prompts(model: Talker) -> None:
    assert len(model._prompts) == 2
    for prompt in model._prompts:
        system, question = prompt[:2]
        assert system.text == "Be brief."
        assert question.text.startswith("<memory_note>")
        assert question.text.endswith(ASKED)
        assert question.text.count("Lisbon") == 1


STREAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    **{mode: lambda agent, given, config, mode=mode: agent.astream(given, config, stream_mode=mode) for mode in MODES},
    "the default": lambda agent, given, config: agent.astream(given, config),
    "all at once": lambda agent, given, config: agent.astream(given, config, stream_mode=MODES, subgraphs=True),
    "events": lambda agent, given, config: agent.astream_events(given, config, version="v2"),
    "log": lambda agent, given, config: agent.astream_log(given, config),
}


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("stream", STREAMS)
async def test_the_note_is_in_no_stream(told: Settings, stream: str) -> None:
    async with ReMeMiddleware(told, "alice", write="awaited") as memory:
        agent, model = agent_with(memory)
        config = {"configurable": {"thread_id": "t"}}
        seen = [repr(event) async for event in STREAMS[stream](agent, {"messages": [HumanMessage(ASKED)]}, config)]
    check_prompts(model)
    assert not [event for event in seen if "memory_note" in event or "Lisbon" in event]
    assert seen or stream == "custom"
    if stream in ("messages", "events"):
        assert all(any(repr(token) in event for event in seen) for token in ANSWER)


@pytest.mark.parametrize("mode", MODES)
def test_the_note_is_in_no_stream_without_awaiting(told: Settings, mode: str) -> None:
    with_thread = {"configurable": {"thread_id": "t"}}
    memory = ReMeMiddleware(told, "alice", write="awaited")
    agent, model = agent_with(memory)
    seen = [repr(event) for event in agent.stream({"messages": [("user", ASKED)]}, with_thread, stream_mode=mode)]
    memory.close()
    check_prompts(model)
    assert not [event for event in seen if "memory_note" in event or "Lisbon" in event]


async def test_the_note_is_in_no_result_and_no_state(told: Settings) -> None:
    async with ReMeMiddleware(told, "alice", write="awaited") as memory:
        agent, model = agent_with(memory)
        config = {"configurable": {"thread_id": "t"}}
        result = await agent.ainvoke({"messages": [HumanMessage(ASKED)]}, config)
        history = [state async for state in agent.aget_state_history(config)]
    check_prompts(model)
    assert "Lisbon" not in repr(result) + repr(history)
    assert list(history[0].values) == ["messages"]


async def test_a_model_that_other_middleware_chooses_is_shown_the_note_too(told: Settings) -> None:
    chosen = ScriptedModel()

    @wrap_model_call
    async def choose(request: Any, handler: Any) -> Any:
        return await handler(request.override(model=ScriptedChat(chosen)))

    for order in ([0, 1], [1, 0]):
        async with ReMeMiddleware(told, "alice") as memory, ReMeMiddleware(told, "bob", name="second") as second:
            both: list[AgentMiddleware[Any, Any, Any]] = [memory, choose]
            middleware = [second, *(both[place] for place in order)]
            agent: Any = create_agent(ScriptedChat(ScriptedModel()), middleware=middleware)
            await agent.ainvoke({"messages": [HumanMessage(ASKED)]})
            assert chosen.last_prompt.count("Lisbon") == 1


async def test_a_model_keeps_its_state_and_its_class_beside_a_note(told: Settings) -> None:
    calls = [{"name": "clock", "args": {}, "id": "1"}]
    model = Counting(responses=[AIMessage("", tool_calls=calls), AIMessage("It is noon.")])
    async with ReMeMiddleware(told, "alice") as memory:
        agent: Any = create_agent(model, [tool(clock)], middleware=[memory])
        done = await agent.ainvoke({"messages": [HumanMessage(ASKED)]})
    assert done["messages"][-1].text == "It is noon."
    assert (model.i, model._seen) == (0, [("Counting", True)] * 2)  # it begins again after its last response


class Counting(FakeMessagesListChatModel):
    """A model that remembers as what it was called, and whether it was shown a note."""

    _seen: list[tuple[str, bool]] = PrivateAttr(default_factory=list)

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        self._seen.append((type(self).__name__, "Lisbon" in str(messages)))
        return super()._generate(messages, *args, **kwargs)


@pytest.mark.parametrize("make", [lambda model: model.model_copy(), lambda model: type(model)(model._script)])
async def test_a_model_that_makes_itself_anew_for_its_tools_is_shown_the_note(
    told: Settings, make: Callable[[ScriptedChat], ScriptedChat]
) -> None:
    class MadeAnew(ScriptedChat):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return make(self)

    model = ScriptedModel()
    async with ReMeMiddleware(told, "alice") as memory:
        agent: Any = create_agent(MadeAnew(model), [tool(clock)], middleware=[memory])
        await agent.ainvoke({"messages": [HumanMessage(ASKED)]})
    assert model.last_prompt.count("Lisbon") == 1


async def test_a_model_that_keeps_what_it_made_shows_no_note_to_another_agent(told: Settings) -> None:
    class Keeping(ScriptedChat):
        _kept: list[ScriptedChat] = PrivateAttr(default_factory=list)

        def bind_tools(self, tools: Any, **_: Any) -> Any:
            self._kept.append(self._kept[0] if self._kept else type(self)(self._script))
            return self._kept[0]

    script = ScriptedModel()
    model = Keeping(script)
    async with ReMeMiddleware(told, "alice") as memory:
        agent: Any = create_agent(model, [tool(clock)], middleware=[memory])
        await agent.ainvoke({"messages": [HumanMessage(ASKED)]})
    assert "Lisbon" in script.last_prompt
    without: Any = create_agent(model, [tool(clock)])
    await without.ainvoke({"messages": [HumanMessage(ASKED)]})
    assert len(model._kept) == 2
    assert "Lisbon" not in script.last_prompt


async def test_an_answer_to_a_note_is_given_to_nobody_else(told: Settings) -> None:
    model = ScriptedModel()
    set_llm_cache(InMemoryCache())
    try:
        for user in ("alice", "bob"):
            model.say(f"For {user}.")
            async with ReMeMiddleware(told, user, write="off") as memory:
                agent: Any = create_agent(ScriptedChat(model), middleware=[memory])
                done = await agent.ainvoke({"messages": [HumanMessage(ASKED)]})
            assert done["messages"][-1].text == f"For {user}."
    finally:
        set_llm_cache(None)


async def test_ids_count_within_a_run_where_there_is_no_thread(settings: Settings) -> None:
    async with ReMeMiddleware(settings, "alice", write="awaited") as memory, AsyncReMe(settings) as reme:
        agent: Any = create_agent(ScriptedChat(ScriptedModel()), middleware=[memory])
        for text in ("Rex is a dog.", "Tom is a cat.", "Tom is a cat."):
            await agent.ainvoke({"messages": [HumanMessage(text, id="1")]})
        rows = await reme.connection.run(
            lambda engine: engine.database.fetch(
                "alice", "select content, session_id from reme.message where role = 'user' order by document_id"
            )
        )
    assert [content for content, _ in rows] == ["Rex is a dog.", "Tom is a cat.", "Tom is a cat."]
    assert len({session for _, session in rows} - {""}) == 3


async def test_a_message_that_was_edited_has_a_new_state_and_its_turn_a_new_note(settings: Settings) -> None:
    model = ScriptedModel()
    async with ReMeMiddleware(settings, "alice", write="awaited") as memory, AsyncReMe(settings) as reme:
        await reme.memories.add("alice", ["Rex, the dog, lives in Lisbon.", "Tom, the cat, lives in Porto."])
        agent: Any = create_agent(ScriptedChat(model), middleware=[memory], checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "t"}}
        await agent.ainvoke({"messages": [HumanMessage("I have a dog, Rex.", id="1")]}, config)
        await agent.aupdate_state(config, {"messages": [HumanMessage("I have a cat, Tom.", id="1")]})
        await agent.ainvoke({"messages": [HumanMessage("Where does it live?", id="2")]}, config)
        first = (await reme.messages("alice", "t"))[0]
    assert first.content == "I have a cat, Tom."
    assert [former["content"] for former in first.metadata["former"]] == ["I have a dog, Rex."]
