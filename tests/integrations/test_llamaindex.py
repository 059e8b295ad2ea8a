"""Memory in LlamaIndex: written down and made again, chat engines, blocks, and tools."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import pickle
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentInput, AgentWorkflow, CodeActAgent, FunctionAgent, ReActAgent
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import InsertMethod, Memory
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, JsonSerializer
from pydantic import SecretStr
from reme_llamaindex import ConversationStore, ReMeMemory, ReMeMemoryBlock, show_notes

from reme_core import AsyncReMe, ReMe, Settings
from reme_core.errors import InputError
from reme_core.testing import Gate, ScriptedModel, clock
from reme_core.turn import Position, TurnMemory
from tests.integrations.inside import ASKED, TOLD, stored_rows
from tests.integrations.llamaindex_driver import LlamaIndexConversation, ScriptedLLM

pytestmark = pytest.mark.filterwarnings("ignore:Skipping serialization of known unserializable key")


async def told(settings: Settings, workspace: str = "alice") -> None:
    async with ReMeMemory(settings, workspace, write="awaited") as memory:
        await LlamaIndexConversation(ScriptedModel(), memory).say(TOLD)


async def prompt_of(memory: ReMeMemory, asked: str | None = None) -> list[str]:
    """What a model is shown of a memory."""
    model = ScriptedModel()
    await ScriptedLLM(model).achat(await memory.aget(input=asked))
    return [message.text for message in model.prompts[-1]]


async def test_connects_again_wherever_it_is_made_again(settings: Settings) -> None:
    await told(settings)
    memory = ReMeMemory(settings, "alice", top_k=3, session_id="s", insert_method=InsertMethod.SYSTEM)
    await memory.aput(ChatMessage(role="user", content="Hello!"))
    serializer = JsonSerializer()
    for again in (
        ReMeMemory.from_dict(json.loads(json.dumps(memory.to_dict()))),
        serializer.deserialize(serializer.serialize(memory)),
        pickle.loads(pickle.dumps(memory)),
        copy.deepcopy(memory),
    ):
        assert [m.content for m in await again.aget_all()] == ["Hello!"]
        assert (again.session_id, again.turn.top_k, again.insert_method) == ("s", 3, InsertMethod.SYSTEM)
        async with again:
            await again.aput(ChatMessage(role="user", content=ASKED))
            assert "Lisbon" in (await prompt_of(again))[0]
    assert [m.content for m in await memory.aget_all()] == ["Hello!"]
    await memory.aclose()


async def test_two_people_say_the_same_in_sessions_of_one_name(settings: Settings, reme: AsyncReMe) -> None:
    for person in ("ann", "bob"):
        async with ReMeMemory(settings, "alice", session_id="s1", user_id=person, write="awaited") as memory:
            agent = FunctionAgent(llm=ScriptedLLM(ScriptedModel()))
            await agent.run(ASKED, chat_history=[ChatMessage(TOLD)], memory=memory)
    assert [row[0] for row in await stored_rows(reme, "user_id, content") if row[1] == TOLD] == ["ann", "bob"]


async def test_what_is_made_again_stores_no_secrets_that_the_original_takes_out(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = settings.model_copy(update={"redact": ["email"], "timezone": "Asia/Tokyo"})
    memory = ReMeMemory(chosen, "alice", chat_model=ScriptedLLM(ScriptedModel()))
    copies = [copy.deepcopy(memory), memory.model_copy(deep=True), memory.model_copy(deep=True, update={"name": "m"})]
    for copied in copies:
        assert copied.turn.settings == chosen
        assert copied.turn.reme is not memory.turn.reme
    monkeypatch.setenv("REME_REDACT", '["money"]')
    for again in (ReMeMemory.from_dict(memory.to_dict()), pickle.loads(pickle.dumps(memory))):
        assert again.turn.settings.redact == ["money", "email"]
    with pytest.raises(InputError, match="no option 'redact'"):
        ReMeMemory(settings, "alice", redact=["email"])  # type: ignore[call-arg]  # a setting


async def test_a_copy_uses_the_open_memory_of_the_original(reme: AsyncReMe) -> None:
    memory = ReMeMemory(client=reme, workspace_id="alice", write="awaited")
    async with copy.deepcopy(memory) as copied:
        assert copied.turn.reme is reme
        await copied.aput_messages(
            [ChatMessage(role="user", content=TOLD), ChatMessage(role="assistant", content="ok")]
        )
    assert (copied.turn.counts.messages, memory.turn.counts.messages) == (2, 0)
    assert await reme.messages("alice", copied.session_id)  # it is open still


def test_the_password_is_not_written_down_and_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://ada:secret@db.example:5433/memories"
    written = json.dumps(ReMeMemory(url, "alice").to_dict())
    assert "secret" not in written
    monkeypatch.setattr("reme_llamaindex.long_term._passwords", {})  # as in another process
    assert ReMeMemory.from_dict(json.loads(written)).turn.settings.database_url.get_secret_value() == (  # type: ignore[union-attr]
        "user=ada dbname=memories host=db.example port=5433"
    )
    monkeypatch.setattr("reme_llamaindex.long_term._passwords", {})
    monkeypatch.setenv("DATABASE_URL", url)
    assert ReMeMemory.from_dict(json.loads(written)).turn.settings.database_url == SecretStr(url)


async def test_a_context_goes_on_with_its_memory_after_it_was_written_down(
    settings: Settings, database_url: str
) -> None:
    model = ScriptedModel()
    agent = FunctionAgent(llm=ScriptedLLM(model))
    with Gate(database_url) as gate:
        ctx: Any = Context(agent)
        async with ReMeMemory(gate.url, "alice", write="awaited", spool="memory") as memory:
            await agent.run(user_msg=TOLD, ctx=ctx, memory=memory)
            written = json.loads(json.dumps(ctx.to_dict(serializer=JsonSerializer())))
        del memory, ctx
        handler = agent.run(
            user_msg="And his name?", ctx=Context.from_dict(agent, written, serializer=JsonSerializer())
        )
        await handler
        assert [m.text for m in model.prompts[-1]][-3:-1] == [TOLD, "ok"]
        assert gate.connections
        del handler
        for _ in range(200):
            gc.collect()
            if not gate.connections:
                break
            await asyncio.sleep(0.02)
        assert not gate.connections, "a memory that LlamaIndex restored was forgotten, and stays connected"
    assert [row[1] for row in await stored(settings)] == [TOLD, "ok", "And his name?", "ok"]


@pytest.mark.parametrize("workflow", [False, True])
async def test_all_runs_in_a_context_use_the_memory_that_the_first_was_given(reme: AsyncReMe, workflow: bool) -> None:
    agent = FunctionAgent(llm=ScriptedLLM(ScriptedModel()))
    runs: Any = AgentWorkflow(agents=[agent]) if workflow else agent
    ctx: Any = Context(runs)
    async with ReMeMemory(client=reme, workspace_id="alice", write="awaited") as memory:
        await runs.run(user_msg=TOLD, ctx=ctx, memory=memory)
        saved = json.loads(json.dumps(ctx.to_dict(serializer=JsonSerializer())))
        await runs.run(user_msg="And his name?", ctx=ctx, memory=memory)
        await runs.run(user_msg="And his age?", ctx=ctx)
        assert await ctx.store.get("memory") is memory
        assert [m.content for m in await memory.aget_all()] == [TOLD, "ok", "And his name?", "ok", "And his age?", "ok"]
        # What was saved in between is another conversation from there on.
        branch: Any = Context.from_dict(runs, saved, serializer=JsonSerializer())
        await runs.run(user_msg="Is he old?", ctx=branch)
        other = await branch.store.get("memory")
        assert [m.content for m in await other.aget_all()] == [TOLD, "ok", "Is he old?", "ok"]
        assert len(await memory.aget_all()) == 6
        await other.aclose()


async def test_two_memories_in_one_context_stay_apart_where_their_conversations_have_one_name(reme: AsyncReMe) -> None:
    agent = FunctionAgent(llm=ScriptedLLM(ScriptedModel()))
    ctx: Any = Context(agent)
    ann, bob = (ReMeMemory(client=reme, workspace_id=name, session_id="chat") for name in ("ann", "bob"))
    await agent.run(user_msg=TOLD, ctx=ctx, memory=ann)
    await ctx.store.set("of_bob", bob)
    await agent.run(user_msg="And his name?", ctx=ctx)
    assert await ctx.store.get("memory") is ann and await ctx.store.get("of_bob") is bob
    await ann.aclose()
    await bob.aclose()


async def stored(settings: Settings, columns: str = "role, content") -> list[Any]:
    async with AsyncReMe(settings) as reme:
        return await stored_rows(reme, columns)


async def test_a_turn_that_is_given_as_a_history_is_recorded_once(settings: Settings) -> None:
    model = ScriptedModel()
    agent = FunctionAgent(llm=ScriptedLLM(model))
    history: list[ChatMessage] = []
    for words in (TOLD, ASKED, ASKED):
        model.say(f"Answer {len(history)}.")
        history.append(ChatMessage(role="user", content=words))
        async with ReMeMemory(settings, "alice", session_id="s1", write="awaited") as memory:  # as a server has it
            answer = await agent.run(chat_history=history, memory=memory)
        history.append(answer.response)
    said = [("user", TOLD), ("assistant", "Answer 0."), ("user", ASKED), ("assistant", "Answer 2.")]
    assert await stored(settings) == [*said, ("user", ASKED), ("assistant", "Answer 4.")]


@pytest.mark.parametrize("words", ["My mail is ann@example.com.", "A NUL: \0.", "Half a pair: \ud83d."])
async def test_a_history_is_known_by_what_is_recorded_of_it(settings: Settings, words: str) -> None:
    model = ScriptedModel()
    agent = FunctionAgent(llm=ScriptedLLM(model))
    told = settings.model_copy(update={"redact": ["email"]})
    history: list[ChatMessage] = []
    for turn, said in enumerate((words, "And now?", "And then?")):
        model.say(f"Answer {turn}: {words}")
        async with ReMeMemory(told, "alice", session_id="s1", write="awaited") as memory:
            answer = await agent.run(said, chat_history=history, memory=memory)
        history += [ChatMessage(role="user", content=said), answer.response]
        assert len(await stored(settings)) == 2 * turn + 2
    assert [content[:8] for _, content in await stored(settings)][1:] == [
        "Answer 0", "And now?", "Answer 1", "And then", "Answer 2"
    ]  # fmt: skip


async def test_a_history_is_known_though_secrets_in_it_were_recorded_once(settings: Settings) -> None:
    history = [
        ChatMessage(role="user", content="My mail is ann@example.com."),
        ChatMessage(role="assistant", content="ok"),
    ]
    async with ReMeMemory(settings, "alice", session_id="s1", write="awaited") as memory:
        await memory.aput_messages(history)
    told = settings.model_copy(update={"redact": ["email"]})
    async with ReMeMemory(told, "alice", session_id="s1", write="awaited") as memory:
        await FunctionAgent(llm=ScriptedLLM(ScriptedModel())).run(ASKED, chat_history=history, memory=memory)
    said = [("user", "My mail is [email]."), ("assistant", "ok"), ("user", ASKED), ("assistant", "ok")]
    assert await stored(settings) == said


async def test_a_history_may_follow_turns_that_were_put(settings: Settings) -> None:
    async with ReMeMemory(settings, "alice", write="awaited") as memory:
        agent = FunctionAgent(llm=ScriptedLLM(ScriptedModel()))
        await agent.run(user_msg=TOLD, memory=memory)
        history = [*await memory.aget_all(), ChatMessage(role="user", content=ASKED)]
        await agent.run(chat_history=history, memory=memory)
    assert await stored(settings) == [("user", TOLD), ("assistant", "ok"), ("user", ASKED), ("assistant", "ok")]


async def test_a_run_that_is_cancelled_at_its_end_loses_nothing(settings: Settings) -> None:
    async with ReMeMemory(settings, "alice", session_id="s", write="awaited") as memory:
        await memory.aset([ChatMessage(TOLD)])
        ending = asyncio.create_task(memory.aput(ChatMessage("Noted.", role="assistant")))
        await asyncio.sleep(0)  # now it asks what of the history is recorded
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        await memory.aput_messages([ChatMessage(ASKED), ChatMessage("In Lisbon.", role="assistant")])
        kept = await memory.turn.messages("s")
    assert [message.content for message in kept] == [TOLD, "Noted.", ASKED, "In Lisbon."]


async def test_another_conversation_begins_with_a_reset(settings: Settings) -> None:
    async with ReMeMemory(settings, "alice", session_id="s1", write="awaited") as memory:
        for _ in range(2):
            await LlamaIndexConversation(ScriptedModel(), memory).say(TOLD)
            await memory.areset()
    rows = await stored(settings, "session_id, content")
    assert [content for _, content in rows] == [TOLD, "ok"] * 2
    assert rows[0][0] == rows[1][0] == "s1"
    assert rows[2][0] == rows[3][0] not in ("", "s1")


@pytest.mark.parametrize("kind", [ReMeMemory, ReMeMemoryBlock])
def test_closing_without_awaiting_closes_once(settings: Settings, monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    closed: list[TurnMemory] = []
    aclose = TurnMemory.aclose

    async def note_and_close(turn: TurnMemory) -> None:
        closed.append(turn)
        await aclose(turn)

    monkeypatch.setattr(TurnMemory, "aclose", note_and_close)
    with kind(settings, "alice") as memory:
        turn = memory.turn
    assert closed == [turn]


def test_a_turn_that_waits_in_a_memory_made_again_is_recorded_when_it_is_closed(settings: Settings) -> None:
    memory = ReMeMemory(settings, "alice", write="awaited")
    memory.put(ChatMessage(role="user", content=TOLD))
    again = pickle.loads(pickle.dumps(memory))
    again.close()
    with ReMe(settings) as reme:
        assert reme.recall("alice", ASKED, kind="conversation").hits[0].content == TOLD


async def test_what_a_react_agent_thinks_is_no_answer(settings: Settings) -> None:
    model = ScriptedModel()
    model.say('Thought: I need the time.\nAction: clock\nAction Input: {"city": "Lisbon"}')
    model.say("Thought: I can answer.\nAnswer: It is noon.\nAnswer: yes.")
    agent = ReActAgent(name="watchman", llm=ScriptedLLM(model), tools=[FunctionTool.from_defaults(clock)])
    async with ReMeMemory(settings, "alice", write="awaited") as memory:
        await agent.run(user_msg="What time is it?", memory=memory)
    question, answer = await stored(settings, "role, author, content, reasoning_content")
    assert question == ("user", "", "What time is it?", "")
    assert answer[:3] == ("assistant", "watchman", "It is noon.\nAnswer: yes.")
    assert answer[3].startswith("Thought: I need the time.\nAction: clock")
    assert answer[3].endswith("Observation: It is noon.\nThought: I can answer.")


async def test_what_the_code_of_an_agent_gave_is_not_said_by_the_user(settings: Settings) -> None:
    model = ScriptedModel()
    model.say("I add.\n<execute>\nprint(40 + 2)\n</execute>")
    agent = CodeActAgent(code_execute_fn=lambda code: "42", llm=ScriptedLLM(model), tools=[])
    async with ReMeMemory(settings, "alice", write="awaited") as memory:
        await agent.run(user_msg="How much is it?", memory=memory)
    roles = [role for (role,) in await stored(settings, "role")]
    assert roles == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("beside", ["name", "tool_calls", "raw"])
@pytest.mark.parametrize("odd", [7, {"a": 1}, [object()], {"in": json.loads("[" * 300 + "]" * 300)}])
async def test_what_stands_beside_the_words_does_not_lose_them(settings: Settings, beside: str, odd: Any) -> None:
    async with ReMeMemory(settings, "alice", write="awaited") as memory:
        await memory.aput(ChatMessage("Hello!", additional_kwargs={beside: odd}))
        await memory.aput(ChatMessage("I am here.", role="assistant", additional_kwargs={beside: odd}))
        assert [m.content for m in await memory.aget()] == ["Hello!", "I am here."]
    assert await stored(settings, "role, content") == [("user", "Hello!"), ("assistant", "I am here.")]


async def test_the_agents_of_a_workflow_are_the_authors(settings: Settings) -> None:
    model = ScriptedModel()
    model.call("handoff", to_agent="writer", reason="It is about words.")
    model.say("A poem.")
    llm = ScriptedLLM(model)
    agents = [FunctionAgent(name=name, description=name, llm=llm) for name in ("thinker", "writer")]
    async with ReMeMemory(settings, "alice", write="awaited") as memory:
        await AgentWorkflow(agents=agents, root_agent="thinker").run(user_msg="Write!", memory=memory)  # type: ignore[arg-type]
    rows = await stored(settings, "role, author, content")
    assert [tuple(row[:2]) for row in rows] == [
        ("user", ""),
        ("assistant", "thinker"),
        ("tool", "handoff"),
        ("assistant", "writer"),
    ]
    assert (rows[0][2], rows[-1][2]) == ("Write!", "A poem.")


@pytest.mark.parametrize("is_workflow", [False, True])
async def test_an_agent_that_answers_by_a_tool_is_the_author(settings: Settings, is_workflow: bool) -> None:
    model = ScriptedModel()
    model.call("clock")
    tool = FunctionTool.from_defaults(clock, return_direct=True)
    agent: Any = FunctionAgent(name="watchman", description="Tells the time.", llm=ScriptedLLM(model), tools=[tool])
    async with ReMeMemory(settings, "alice", write="awaited") as memory:
        await (AgentWorkflow(agents=[agent]) if is_workflow else agent).run(user_msg="What time is it?", memory=memory)
    said = [row for row in await stored(settings, "role, author, content") if row[0] == "assistant"]
    assert said == [("assistant", "watchman", ""), ("assistant", "watchman", "It is noon.")]


@pytest.mark.parametrize("kind", ["agent", "workflow", "engine"])
async def test_a_task_that_an_agent_gives_by_a_tool_is_not_said_by_the_user(settings: Settings, kind: str) -> None:
    writer: Any = FunctionAgent(name="writer", description="Writes.", llm=ScriptedLLM(ScriptedModel()))
    model = ScriptedModel()

    async def write(task: str) -> str:
        """Write a text."""
        if kind == "engine":
            return str(await SimpleChatEngine.from_defaults(llm=writer.llm, memory=memory).achat(task))
        asked = writer if kind == "agent" else AgentWorkflow(agents=[writer])
        return str(await asked.run(user_msg=task, memory=memory))

    boss = FunctionAgent(name="boss", llm=ScriptedLLM(model), tools=[FunctionTool.from_defaults(async_fn=write)])
    async with ReMeMemory(settings, "alice", write="awaited") as memory:
        model.call("write", task=TOLD)
        await boss.run(user_msg="A poem, please.")
        await writer.run(user_msg="Shorter, please.", memory=memory)
    said = await stored(settings, "role, author, content")
    assert [row[1:] for row in said if row[0] == "user"] == [("boss", TOLD), ("", "Shorter, please.")]


async def test_a_note_for_what_is_asked_next_stands_before_it(settings: Settings) -> None:
    await told(settings)
    async with ReMeMemory.from_defaults(
        settings, "alice", chat_history=[ChatMessage(role="assistant", content="Welcome!")]
    ) as memory:
        welcome, note = await prompt_of(memory, ASKED)
    assert welcome == "Welcome!"
    assert "Lisbon" in note


@pytest.mark.parametrize("kind", [ReMeMemory, ReMeMemory.from_defaults, ReMeMemoryBlock])
def test_no_option_is_swallowed(kind: Any, database_url: str) -> None:
    assert kind(database_url=database_url, workspace_id="alice").turn.settings.database_url.get_secret_value()
    with pytest.raises(InputError, match="did you mean 'top_k'"):
        kind(database_url, "alice", topk=3)
    if kind is not ReMeMemoryBlock:
        with pytest.raises(InputError, match="leave session_id out"):
            kind(database_url, "alice", session_id="")


@pytest.mark.parametrize("position", ["user", "system"])
@pytest.mark.parametrize("kind", ["function", "react", "code", "workflow", "engine"])
async def test_the_model_alone_sees_the_note(settings: Settings, kind: str, position: Position) -> None:
    await told(settings)
    model = ScriptedModel()
    if kind == "function":
        model.call("clock", city="Lisbon")
    model.say("Thought: I can answer.\nAnswer: In Lisbon.")
    llm, tools = ScriptedLLM(model), [FunctionTool.from_defaults(clock)]
    seen: list[Any] = []
    async with ReMeMemory(settings, "alice", position=position) as memory:
        if kind == "engine":
            await SimpleChatEngine.from_defaults(llm=llm, memory=memory).achat(ASKED)
        else:
            agent: Any = {
                "function": lambda: FunctionAgent(llm=llm, tools=tools),
                "react": lambda: ReActAgent(llm=llm, tools=tools),
                "code": lambda: CodeActAgent(llm=llm, code_execute_fn=lambda code: code),
                "workflow": lambda: AgentWorkflow(agents=[FunctionAgent(llm=llm, tools=tools)]),
            }[kind]()
            handler = agent.run(user_msg=ASKED, memory=memory)
            seen += [event async for event in handler.stream_events(expose_internal=True)]
            assert [event for event in seen if isinstance(event, AgentInput)]
            await handler
        seen += await memory.aget()
    assert "<memory_note" not in repr(seen)
    for number, prompt in enumerate(model.prompts):
        [(place, note)] = model.notes(number)
        assert note.role == position
        assert place == 0 if position == "system" else note.text.endswith(f"\n{ASKED}"), prompt


@pytest.mark.parametrize("position", ["user", "system"])
async def test_the_note_is_apart_from_the_words_though_a_provider_joins_the_parts(
    settings: Settings, position: Position
) -> None:
    await told(settings)
    async with ReMeMemory(settings, "alice", position=position) as memory:
        await memory.aput(ChatMessage(role="user", content=ASKED))
        prompt = [ChatMessage(role="system", content="Be brief."), *(await memory.aget())]
        show_notes(prompt)
    system, asked = ("".join(block.text for block in message.blocks) for message in prompt)
    assert f"</memory_note>\n\n{ASKED}" in asked if position == "user" else "Be brief.\n\n<memory_note>" in system


async def test_an_engine_asks_once_a_turn_awaited_or_not(settings: Settings) -> None:
    await told(settings)
    async with ReMeMemory(settings, "alice", write="awaited") as memory:
        model = ScriptedModel()
        engine = SimpleChatEngine.from_defaults(llm=ScriptedLLM(model), memory=memory)
        await engine.achat(ASKED)
        assert "Lisbon" in model.last_prompt
        assert memory.turn.counts.recalls == 1
        engine.chat("And who looks after Rex?")  # within a running loop
        assert "my mother" in model.last_prompt
        assert (memory.turn.counts.recalls, memory.turn.counts.records) == (2, 2)


async def test_asked_before_anything_was_put_is_the_same_turn(settings: Settings) -> None:
    await told(settings)
    async with ReMeMemory(settings, "alice", write="awaited") as memory:
        assert await memory.aget() == []
        assert "Lisbon" in (await prompt_of(memory, ASKED))[0]
        await memory.aput(ChatMessage(role="user", content=ASKED))
        assert "Lisbon" in (await prompt_of(memory))[0]
        assert memory.turn.counts.recalls == 1
        await memory.aput(ChatMessage(role="assistant", content="In Lisbon."))
        await memory.areset()
        assert await memory.aget_all() == []


async def test_a_block_recalls_once_a_turn_and_records_what_leaves_short_term_memory(settings: Settings) -> None:
    await told(settings)
    async with ReMeMemoryBlock(settings, "alice", write="awaited") as block:
        memory = Memory.from_defaults(
            session_id="s", token_limit=120, token_flush_size=20, memory_blocks=[block], chat_store=ConversationStore()
        )
        model = ScriptedModel()
        agent = FunctionAgent(llm=ScriptedLLM(model))
        await agent.run(user_msg=ASKED, memory=memory)
        assert "Lisbon" in model.last_prompt
        assert block.turn.counts.recalls == 1
        words = "with a good many words about nothing in particular."
        for turn in range(6):
            model.say(f"Answer {turn} {words}")
            await agent.run(user_msg=f"Remark {turn} {words}", memory=memory)
        counts = block.turn.counts  # a turn in which messages leave short-term memory looks like another one afterwards
        assert 7 <= counts.recalls <= 7 + counts.records
        assert block.turn.counts.messages >= 6
    async with AsyncReMe(settings) as reme:
        said = [hit.content for hit in (await reme.recall("alice", "Remark 0", kind="conversation")).hits]
        assert f"Remark 0 {words}" in said


async def test_tools_tend_the_memory(settings: Settings) -> None:
    async with ReMeMemory(settings, "alice", write="awaited") as memory:
        search, add, _, _ = memory.tools()
        assert add.metadata.name == "add_memory"
        await add.acall(content="Rex lives in Porto.")  # type: ignore[attr-defined]
        assert "Porto" in str(await search.acall(query="Where does Rex live?"))  # type: ignore[attr-defined]
        assert "Porto" in str(search(query="Where does Rex live?"))
