"""What an agent of any framework is told in another process is known here, and in no other workspace."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib import import_module

import pytest

from reme_core.testing import Driver, ScriptedModel
from reme_core.testing.checks import FACT, QUESTION, STATEMENT

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
