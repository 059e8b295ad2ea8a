"""Chat with memory: what is said is kept, what is remembered is shown, and each answer can say what shaped it."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any
from unittest.mock import AsyncMock

import numpy as np
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from reme_core import AsyncReMe, Settings
from reme_core.cli.chat import COMMANDS, Terminal
from reme_core.engine import Engine
from reme_core.errors import DatabaseUnavailableError, InputError, ModelError
from reme_core.turn.chat import Chat
from reme_core.types import Memory, Message
from tests.loopback import Loopback


@pytest.fixture
async def terminal(reme: Engine) -> Terminal:
    made = Terminal(reme, Chat(reme, "alice"), "", "")
    made.console.width = 200
    return made


def prompts(loopback: Loopback) -> list[list[dict[str, str]]]:
    """The messages of each request to the chat model."""
    return [body["messages"] for body in loopback.bodies("/chat/completions")]


async def test_an_answer_rests_on_memories_and_says_which(reme_with_chat: Engine, loopback: Loopback) -> None:
    await reme_with_chat.memories.add("alice", "She is a vegetarian.")
    loopback.chat("How about a lentil stew?")
    answer = await Chat(reme_with_chat, "alice").chat_with_memory("What should I cook tonight?")
    assert answer.answer == "How about a lentil stew?"
    assert [m.content for m in answer.memories] == ["She is a vegetarian."]
    system = prompts(loopback)[0][0]
    assert system["role"] == "system"
    assert "She is a vegetarian." in system["content"]


async def test_what_is_said_in_one_conversation_is_known_in_the_next(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    loopback.chat("Noted.")
    await Chat(reme_with_chat, "alice").chat_with_memory("My sister Maria lives in Porto.")
    await Chat(reme_with_chat, "alice").chat_with_memory("Where does my sister live?")
    await Chat(reme_with_chat, "bob").chat_with_memory("Where does my sister live?")
    of_alice, of_bob = (request[0]["content"] for request in prompts(loopback)[1:])
    assert "Maria lives in Porto" in of_alice
    assert "Porto" not in of_bob


async def test_a_chat_says_that_it_needs_an_engine(settings: Settings) -> None:
    with pytest.raises(InputError, match="not AsyncReMe"):
        Chat(AsyncReMe(settings), "alice")  # type: ignore[arg-type]


async def test_history_is_shown_as_asked_for(reme_with_chat: Engine, loopback: Loopback) -> None:
    loopback.chat("yes")
    chat = Chat(reme_with_chat, "alice")
    for text in ("one", "two", "three"):
        await chat.chat_with_memory(text)
    await chat.chat_with_memory("four", history_message_strategy=2)  # pairs, as in MemoryScope
    await chat.chat_with_memory("five", history_message_strategy=None)
    shown = [[m["content"] for m in request[1:]] for request in prompts(loopback)]
    assert shown[2] == ["one", "yes", "two", "yes", "three"]
    assert shown[3] == ["two", "yes", "three", "yes", "four"]
    assert shown[4] == ["five"]


async def test_temporary_memories_are_shown_and_not_kept(reme_with_chat: Engine, loopback: Loopback) -> None:
    loopback.chat("ok")
    chat = Chat(reme_with_chat, "alice")
    await chat.chat_with_memory("Shall we go out?", temporary_memories=["It is raining."], memory_prompt="Know this:")
    assert "Know this:" in prompts(loopback)[0][0]["content"]
    assert "It is raining." in prompts(loopback)[0][0]["content"]
    await chat.chat_with_memory("And now?")
    assert "It is raining." not in prompts(loopback)[1][0]["content"]


async def test_the_arguments_of_memoryscope_may_be_none(reme: Engine) -> None:
    nothing: dict[str, Any] = dict.fromkeys(("role_name", "system_prompt", "memory_prompt", "temporary_memories"))
    assert (await Chat(reme, "alice").chat_with_memory("What now?", **nothing)).answer


async def test_a_temporary_memory_may_be_one_text(reme_with_chat: Engine, loopback: Loopback) -> None:
    loopback.chat("noted")
    await Chat(reme_with_chat, "alice").chat_with_memory("What now?", temporary_memories="The lift is broken.")
    assert "- The lift is broken." in prompts(loopback)[0][0]["content"]


async def test_an_answer_rests_on_the_memory_of_the_person_who_asks(reme_with_chat: Engine, loopback: Loopback) -> None:
    loopback.chat("noted")
    for name, hobby in (("Ann", "badminton"), ("Ben", "the piano")):
        await reme_with_chat.memories.add("home", Memory(subject=name, content=f"{name}'s hobby is {hobby}."))
        said = Message(role="user", author=name, content=f"My hobby is {hobby}, it really is.", session_id=name)
        await reme_with_chat.record("home", [said])
    told = await Chat(reme_with_chat, "home").chat_with_memory("What is my hobby?", role_name="Ann")
    assert {memory.content for memory in told.memories} == {
        "Ann's hobby is badminton.", "My hobby is badminton, it really is.",
    }  # fmt: skip
    both = await Chat(reme_with_chat, "home").chat_with_memory("What are our hobbies?")
    assert any("piano" in memory.content for memory in both.memories)


async def test_a_command_is_repeated_until_it_is_stopped(
    reme: Engine, terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    await reme.memories.add("alice", "I live in Porto")
    before = signal.getsignal(signal.SIGINT)
    asyncio.get_running_loop().call_later(1.5, os.kill, os.getpid(), signal.SIGINT)
    await terminal.say("/list_memory refresh_time=1")
    assert capsys.readouterr().out.count("I live in Porto") == 2
    assert signal.getsignal(signal.SIGINT) is before
    await terminal.say("/add_memory refresh_time=1 content=x")
    assert "refresh_time repeats commands that only show something" in capsys.readouterr().err
    await terminal.say("/list_memory refresh_time=often")
    told = capsys.readouterr()
    assert "refresh_time must be a positive whole number" in told.err and "Porto" not in told.out
    await terminal.say("/list_memory role_name=Bob")
    told = capsys.readouterr()
    assert "/list_memory takes limit and refresh_time, not 'role_name=Bob'" in told.err and "Porto" not in told.out


async def test_an_answer_that_shall_not_be_remembered_is_not(reme_with_chat: Engine, loopback: Loopback) -> None:
    loopback.chat("a secret answer")
    await Chat(reme_with_chat, "alice").chat_with_memory("hello there", remember_response=False)
    stored = await reme_with_chat.database.fetch("alice", "select role, content from reme.message")
    assert stored == [("user", "hello there")]


async def test_what_the_human_said_is_kept_when_the_model_fails(reme_with_chat: Engine, loopback: Loopback) -> None:
    loopback.fail(500, times=9)
    chat = Chat(reme_with_chat, "alice")
    with pytest.raises(ModelError):
        await chat.chat_with_memory("I moved to Lisbon.")
    await chat.aclose()
    stored = await reme_with_chat.database.fetch("alice", "select role, content from reme.message")
    assert stored == [("user", "I moved to Lisbon.")]


async def test_what_the_human_said_is_kept_when_memory_fails(reme: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = Chat(reme, "alice")
    with monkeypatch.context() as patched:
        away = AsyncMock(side_effect=DatabaseUnavailableError("away"))
        patched.setattr(type(chat._turn), "begin", away)
        with pytest.raises(DatabaseUnavailableError):
            await chat.chat_with_memory("My blood group is AB negative.")
    await chat.aclose()
    stored = await reme.database.fetch("alice", "select role, content from reme.message")
    assert stored == [("user", "My blood group is AB negative.")]


async def test_without_a_model_it_says_so_and_shows_what_it_remembers(reme: Engine) -> None:
    await reme.memories.add("alice", "她喜欢早上喝咖啡工作")
    chat = Chat(reme, "alice")
    assert "llm.default" in (await chat.chat_with_memory("hello")).answer
    answer = (await chat.chat_with_memory("用户的工作习惯是什么？")).answer
    assert "没有设置对话模型" in answer
    assert "她喜欢早上喝咖啡工作" in answer
    assert await reme.database.fetch("alice", "select 1 from reme.message where role = 'assistant'") == []
    with pytest.raises(InputError, match="nothing to answer"):
        await chat.chat_with_memory("  ")


async def test_every_command_of_the_terminal_does_what_it_says(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:

    async def typed(text: str) -> str:
        await terminal.say(text)
        return capsys.readouterr().out

    shown = await typed("/help")
    assert [name for name in COMMANDS if f"/{name}" not in shown] == []
    assert "Remembered as" in await typed('/add "I am allergic to peanuts"')
    assert "Remembered as" in await typed("/add_memory content='I live in Porto'")
    assert "allergic to peanuts" in await typed("/memory")
    assert "I live in Porto" in await typed('/retrieve_memory query="where do I live"')
    assert "Nothing was answered yet" in await typed("/why")
    assert "peanuts" in await typed("What am I allergic to?")
    assert "peanuts" in await typed("/why")
    assert "1 deleted" in await typed('/delete_memory "I am allergic to peanuts"')
    assert "allergic" not in await typed("/list_memory")
    assert "What am I allergic to?" in await typed("/read_message")
    assert "Nothing is remembered" in await typed("/profile")
    await terminal.say("/delete_all")
    assert "nobody to ask; write /delete_all yes" in capsys.readouterr().err
    assert "1 deleted" in await typed("/delete_all yes")
    assert "Streaming is off" in await typed("/stream")
    await terminal.say("/add 'unfinished")
    await terminal.say("/nonsense")
    errors = capsys.readouterr().err
    assert "close it with '" in errors
    assert "there is no /nonsense" in errors


async def test_the_oldest_of_many_memories_is_deleted_by_its_text(
    reme: Engine, terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    await reme.memories.add("alice", "I like tea")
    newer = [f"note {number}" for number in range(1_000)]
    await reme.memories.add("alice", newer, embeddings=np.ones((1_000, 384)))
    await terminal.say("/delete I like tea")
    assert "1 deleted" in capsys.readouterr().out


async def test_brackets_and_apostrophes_are_kept_as_they_were_typed(
    reme: Engine, terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    await terminal.say("/add I'm at home with [bold]tags[/bold] and [/x]")
    await terminal.say("/add_memory content=\"It's 'quoted' and a=b\" limit=3")
    stored = {memory.content for memory in await reme.memories.list("alice")}
    assert stored == {"I'm at home with [bold]tags[/bold] and [/x]", "It's 'quoted' and a=b"}
    await terminal.say("What about the [/x] tags?")
    for look in ("/memory", "/why", "/read_message"):
        capsys.readouterr()
        await terminal.say(look)
        assert "[/x]" in capsys.readouterr().out, look


async def test_an_argument_without_quotes_is_taken_whole(
    reme: Engine, terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    for typed in ("content=I like tea", "I drink it hot", 'content="I wear hats" outdoors'):
        await terminal.say(f"/add_memory {typed}")
    kept = {memory.content for memory in await reme.memories.list("alice")}
    assert kept == {"I like tea", "I drink it hot", "I wear hats outdoors"}
    await terminal.say("/retrieve_memory query=what is worn limit=1 outdoors")
    assert "I wear hats" in capsys.readouterr().out
    await terminal.say("/delete_memory content=I like tea")
    assert "I like tea" not in {memory.content for memory in await reme.memories.list("alice")}


async def test_a_memory_is_named_by_the_id_that_the_list_shows(
    reme: Engine, terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    for memory_id in ("12345678aaaa", "12345678bbbb", "87654321aaaa"):
        await reme.memories.add("alice", Memory(memory_id=memory_id, content=f"number {memory_id}"))
    await terminal.say("/memory")
    assert "87654321 " in capsys.readouterr().out
    await terminal.say("/erase 87654321")
    assert "1 erased" in capsys.readouterr().out
    await terminal.say("/delete 12345678")
    assert "2 memories have an id that begins with 12345678" in capsys.readouterr().err
    assert len(await reme.memories.list("alice")) == 2
    await terminal.say("/delete 12345678aaaa")
    await terminal.say("/erase 12345678aaaa")
    assert "1 erased" in capsys.readouterr().out


async def test_why_is_readable_in_a_terminal_of_80_columns(
    reme: Engine, terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "The heating in our flat broke down in the coldest week."
    await reme.record("alice", [Message(content=said, author="Ann", session_id="monday")])
    terminal.console.width = 80
    await terminal.say("What did Ann say about the heating?")
    capsys.readouterr()
    await terminal.say("/why")
    shown = capsys.readouterr().out
    assert "speaker" in shown
    assert "The heating in" in shown


@pytest.mark.parametrize(("answer", "left"), [("n\r", 1), ("\r", 1), ("y\r", 0), ("\x03", 1), ("\x04", 1)])
async def test_all_is_deleted_only_when_somebody_agrees(
    reme: Engine, terminal: Terminal, monkeypatch: pytest.MonkeyPatch, answer: str, left: int
) -> None:
    await reme.memories.add("alice", "She drinks tea.")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    with create_pipe_input() as typing, create_app_session(input=typing, output=DummyOutput()):
        typing.send_text(answer)
        async with asyncio.timeout(20):
            await terminal.say("/delete_all")
    assert len(await reme.memories.list("alice")) == left


async def test_what_was_typed_is_readable_by_its_owner_alone(terminal: Terminal, settings: Settings) -> None:
    settings.data_dir.mkdir(exist_ok=True)
    (settings.data_dir / "chat_history").write_text("")
    (settings.data_dir / "chat_history").chmod(0o644)
    with create_pipe_input() as typing, create_app_session(input=typing, output=DummyOutput()):
        typing.send_text("I live in Porto\r/exit\r")
        await terminal.talk()
    history = settings.data_dir / "chat_history"
    assert "I live in Porto" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600
