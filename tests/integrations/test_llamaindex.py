"""Memory in LlamaIndex: written down and made again, chat engines, blocks, tools, and a hundred turns."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import subprocess
import sys
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import InsertMethod, Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from llama_index.core.workflow import Context, JsonSerializer
from pydantic import SecretStr
from reme_llamaindex import ConversationStore, ReMeMemory, ReMeMemoryBlock
from sqlalchemy.ext.asyncio import create_async_engine

from reme_core import AsyncReMe, Settings
from reme_core.errors import DatabaseUnavailableError
from reme_core.testing import ScriptedModel
from tests.integrations.llamaindex_driver import LlamaIndexConversation, ScriptedLLM

pytestmark = [
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning"),  # of LlamaIndex's workflows
    pytest.mark.filterwarnings("ignore:Skipping serialization of known unserializable key"),
]
TOLD = "My dog Rex lives in Lisbon with my mother."
ASKED = "Where does my dog Rex live?"


async def told(settings: Settings, workspace: str = "alice") -> None:
    async with ReMeMemory(settings, workspace, write="awaited") as memory:
        await LlamaIndexConversation(ScriptedModel(), memory).say(TOLD)


async def test_known_in_another_process_and_to_nobody_else(settings: Settings, database_url: str) -> None:
    await told(settings)
    program = """if True:
        import asyncio, sys, warnings
        from reme_core.testing import ScriptedModel
        from reme_llamaindex import ReMeMemory
        from tests.integrations.llamaindex_driver import LlamaIndexConversation
        async def main():
            model = ScriptedModel()
            async with ReMeMemory(sys.argv[1], sys.argv[2], spool="memory") as memory:
                await LlamaIndexConversation(model, memory).say("Where does my dog Rex live?")
            print(model.last_prompt)
        asyncio.run(main())
    """
    for user, knows in (("alice", True), ("bob", False)):
        arguments = [sys.executable, "-c", program, database_url, user]
        shown = await asyncio.to_thread(subprocess.run, arguments, capture_output=True, text=True, check=True)
        assert ("Lisbon" in shown.stdout) is knows


async def test_connects_again_wherever_it_is_made_again(settings: Settings) -> None:
    await told(settings)
    memory = ReMeMemory(settings, "alice", top_k=3, session_id="s", insert_method=InsertMethod.SYSTEM)
    await memory.aput(ChatMessage(role="user", content="Hello!"))
    serializer = JsonSerializer()
    for again, went_along in (
        (ReMeMemory.from_dict(json.loads(json.dumps(memory.to_dict()))), []),
        (serializer.deserialize(serializer.serialize(memory)), []),
        (pickle.loads(pickle.dumps(memory)), ["Hello!"]),
        (copy.deepcopy(memory), ["Hello!"]),
    ):
        assert [m.content for m in await again.aget_all()] == went_along
        assert (again.session_id, again.turn.top_k, again.insert_method) == ("s", 3, InsertMethod.SYSTEM)
        async with again:
            await again.aput(ChatMessage(role="user", content=ASKED))
            assert "Lisbon" in str((await again.aget())[0].content)
    assert [m.content for m in await memory.aget_all()] == ["Hello!"]
    await memory.aclose()


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


async def test_a_context_goes_on_after_it_was_written_down(settings: Settings) -> None:
    model = ScriptedModel()
    agent = FunctionAgent(llm=ScriptedLLM(model))
    ctx: Any = Context(agent)
    memory = ReMeMemory(settings, "alice", write="awaited")
    await agent.run(user_msg=TOLD, ctx=ctx, memory=memory)
    context, written = ctx.to_dict(serializer=JsonSerializer()), memory.to_dict()
    await memory.aclose()
    async with ReMeMemory.from_dict(written) as again:
        restored: Any = Context.from_dict(agent, context, serializer=JsonSerializer())
        await agent.run(user_msg=ASKED, ctx=restored, memory=again)
        assert "Lisbon" in model.last_prompt
        assert bool(again)


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
        assert "Lisbon" in str((await memory.aget(input=ASKED))[0].content)
        await memory.aput(ChatMessage(role="user", content=ASKED))
        assert "Lisbon" in str((await memory.aget())[0].content)
        assert memory.turn.counts.recalls == 1
        await memory.aput(ChatMessage(role="assistant", content="In Lisbon."))
        await memory.areset()
        assert await memory.aget_all() == []


async def test_a_hundred_turns_cost_a_recall_and_a_record_each_and_a_bounded_note(settings: Settings) -> None:
    async with ReMeMemory(settings, "alice", token_budget=200, write="awaited") as memory:
        for turn in range(100):
            await memory.aput(ChatMessage(role="user", content=f"Rex chased {turn} cats in street number {turn}."))
            for _ in range(2):
                bare, shown = await memory.aget_all(), await memory.aget()
                assert sum(len(m.content or "") for m in shown) - sum(len(m.content or "") for m in bare) < 200 * 6
            await memory.aput_messages([ChatMessage(role="assistant", content=f"Noted, number {turn}.")])
            await memory.aget()
            if turn % 10 == 9:
                await memory.areset()  # another conversation; what is known of this one has to be recalled
        counts = memory.turn.counts
        assert (counts.recalls, counts.records, counts.messages, counts.failures) == (100, 100, 200, 0)


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


async def test_the_store_answers_as_the_one_of_llamaindex_does() -> None:
    engine = create_async_engine("sqlite+aiosqlite:///:memory:")
    theirs, ours = SQLAlchemyChatStore("messages", async_engine=engine), ConversationStore()
    said = [ChatMessage(role=role, content=f"{role} {n}") for n in range(4) for role in ("user", "assistant")]
    active, archived = MessageStatus.ACTIVE, MessageStatus.ARCHIVED
    calls: list[tuple[str, Any]] = [
        ("add_messages", ("a", said)),
        ("add_message", ("b", said[0])),
        ("archive_oldest_messages", ("a", 3)),
        ("add_message", ("a", said[7], archived)),
        ("delete_oldest_messages", ("a", 2)),
        ("delete_message", ("a", 7)),
        ("delete_message", ("a", 9)),  # of the other conversation
        ("delete_message", ("a", 99)),
        ("set_messages", ("b", said[:2])),
        ("delete_messages", ("a", archived)),
        ("archive_oldest_messages", ("nobody", 1)),
        ("delete_messages", ("b",)),
    ]
    for name, arguments in calls:
        assert await getattr(ours, name)(*arguments) == await getattr(theirs, name)(*arguments), name
        assert sorted(await ours.get_keys()) == sorted(await theirs.get_keys())
        for key in ("a", "b", "nobody"):
            for status in (active, archived, None):
                assert await ours.count_messages(key, status) == await theirs.count_messages(key, status)
                assert await ours.get_messages(key, status) == await theirs.get_messages(key, status), name
            page = {"limit": 2, "offset": 1}
            assert await ours.get_messages(key, **page) == await theirs.get_messages(key, **page)
    (await ours.get_messages("a"))[0].additional_kwargs["changed"] = True
    assert not (await ours.get_messages("a"))[0].additional_kwargs
    await engine.dispose()


async def test_tools_tend_the_memory(settings: Settings) -> None:
    async with ReMeMemory(settings, "alice", write="awaited") as memory:
        search, add, _, _ = memory.tools()
        assert add.metadata.name == "add_memory"
        await add.acall(content="Rex lives in Porto.")  # type: ignore[attr-defined]
        assert "Porto" in str(await search.acall(query="Where does Rex live?"))  # type: ignore[attr-defined]
        assert "Porto" in str(search(query="Where does Rex live?"))


async def test_a_dead_database_ends_a_turn_only_where_asked() -> None:
    nowhere = "postgresql://reme@127.0.0.1:9/none"
    patient: Any = {"patience": 1.0, "spool": "memory"}
    question = ChatMessage(role="user", content=ASKED)
    memory = ReMeMemory(nowhere, "alice", **patient)
    await memory.aput(question)
    assert [m.content for m in await memory.aget()] == [ASKED]
    strict = ReMeMemory(nowhere, "alice", on_error="raise", **patient)
    await strict.aput(question)
    with pytest.raises(DatabaseUnavailableError):
        await strict.aget()
    await memory.aclose()
    await strict.aclose()
