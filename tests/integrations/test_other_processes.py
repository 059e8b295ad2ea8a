"""What an agent of any framework is told in another process is known here, and in no other workspace."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from importlib import import_module

import pytest

from reme_core import AsyncReMe
from reme_core.testing import Driver, ScriptedModel
from reme_core.testing.checks import FACT, QUESTION, STATEMENT
from tests.integrations.inside import stored
from tests.loopback import Loopback

DRIVERS = {
    "agentscope": "AgentScopeDriver",
    "autogen": "AutoGenDriver",
    "langchain": "LangChainDriver",
    "llamaindex": "LlamaIndexDriver",
}
TELL = """if True:
    import asyncio, sys
    from tests.integrations.test_other_processes import say
    asyncio.run(say(*sys.argv[1:]))
"""


def driver_of(framework: str) -> Driver:
    driver: Driver = getattr(import_module(f"tests.integrations.{framework}_driver"), DRIVERS[framework])()
    return driver


async def say(framework: str, database_url: str, workspace: str, text: str) -> str:
    """Say something to a new agent, and return what its model was shown."""
    model = ScriptedModel()
    options = {"database_url": database_url, "workspace_id": workspace, "write": "awaited", "spool": "memory"}
    conversation = await driver_of(framework).start(model, options)
    await conversation.say(text)
    await conversation.aclose()
    return model.last_prompt


@pytest.mark.parametrize("framework", DRIVERS)
async def test_what_another_process_was_told_is_known_here(database_url: str, framework: str) -> None:
    command = [sys.executable, "-c", TELL, framework, database_url, "alice", STATEMENT]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    for workspace, is_known in (("alice", True), ("bob", False)):
        assert (FACT in await say(framework, database_url, workspace, QUESTION)) is is_known


WATCHED = """if True:
    import asyncio, sys
    from pathlib import Path
    import reme_core
    from reme_core import AsyncReMe, Message
    from tests.integrations.test_other_processes import say

    home, read = str(Path(reme_core.__file__).parent), []

    def watch(event, arguments):
        if event == "import" and arguments[0] == "openai" and asyncio._get_running_loop() is not None:
            read.append("openai")
        if event == "open" and str(arguments[0]).startswith(home) and ".py" not in Path(arguments[0]).name:
            if asyncio._get_running_loop() is not None:
                read.append(arguments[0])

    async def main(framework, url, model, text):
        await say(framework, url, "alice", text)
        async with AsyncReMe(database_url=url) as reme:
            await reme.summarise("alice")  # without a chat model
        named = {"model_name": "chat", "base_url": model, "api_key": "-"}
        async with AsyncReMe(database_url=url, rerank_model={"default": named}) as reme:
            await reme.retrieve("alice", "Where do we live?")
        async with AsyncReMe(database_url=url, llm={"default": named}) as reme:
            await reme.record("alice", [Message(content="We moved to Porto in May.")])
            await reme.summarise("alice")

    sys.addaudithook(watch)
    asyncio.run(main(*sys.argv[1:]))
    sys.exit(f"read in an event loop: {read}" if read else 0)
"""


async def test_no_file_is_read_in_an_event_loop(database_url: str, loopback: Loopback) -> None:
    # `langgraph dev` makes an error of it: what the first turn could not read then, no later one could.
    loopback.chat({"operations": []})
    command = [sys.executable, "-c", WATCHED, "langchain", database_url, loopback.url, STATEMENT]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    assert loopback.bodies("/chat/completions")


FORKED = """if True:
    import os, sys, time
    import psycopg
    from reme_core.postgres.session import WRITE_LOCK
    from reme_core.turn import TurnMemory
    from reme_core.types import Message

    turn = TurnMemory(sys.argv[1], "alice", spool="memory", patience=20.0)
    turn.call(turn.begin, "Hello?")
    connection = psycopg.connect(sys.argv[1])
    connection.execute(WRITE_LOCK, ["alice"])
    turn.call(turn.record, [Message(content="Said by the parent.", message_id="1")])
    time.sleep(0.5)  # its delivery has begun, and waits for the lock
    child = os.fork()
    if child:
        connection.close()
    turn.write = "awaited"
    said = [Message(content="Said by the child.")] if child == 0 else [Message(content="Said at last.")]
    turn.on_error = "raise"
    turn.call(turn.record, said)
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    turn.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
async def test_a_child_that_was_forked_while_a_turn_is_delivered_delivers_its_own(
    database_url: str, reme: AsyncReMe
) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED, database_url]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=90)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(await stored(reme)) == ["Said at last.", "Said by the child.", "Said by the parent."]
