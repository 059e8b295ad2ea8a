"""The adapter kit: checks that a memory adapter keeps the rules that hold for every framework.

The author of an adapter writes a `Driver`, which starts an agent of the framework with the kit's `ScriptedModel`. The
kit then talks to the agent, cancels turns, and makes the database unreachable for a while. It checks the prompts that
the model gets and the messages that are stored.

```python
class MyDriver(Driver):
    name, package = "my framework", "my_adapter"

    async def start(self, model, options):
        return MyConversation(model, MyMemory(**options))

class MyConversation(Conversation):
    def __init__(self, model, memory):
        self.agent, self.memory = MyAgent(llm=MyFakeLlm(model), memory=memory), memory

    async def say(self, text):
        return await self.agent.run(text)

    async def aclose(self):
        await self.memory.aclose()

report = await validate(MyDriver())
print(report)
assert report
```
"""

from __future__ import annotations

import traceback
from collections.abc import Collection
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import SecretStr

from reme_core.engine import Engine
from reme_core.settings import Settings, WorkerSettings
from reme_core.testing import (  # noqa: F401 - importing them registers their checks
    conduct_checks,
    generated_checks,
    recall_checks,
    record_checks,
    tool_checks,
)
from reme_core.testing.checks import CHECKS, Check
from reme_core.testing.driver import AGENT, IMAGE, Capability, Conversation, Driver, clock
from reme_core.testing.gate import Gate
from reme_core.testing.model import COMPLETION_TOKENS, PROMPT_TOKENS, PromptMessage, Reply, ScriptedModel
from reme_core.testing.report import Report, Result, Rule
from reme_core.testing.stage import BrokenRuleError, Stage, WatchedReMe

__all__ = [
    "AGENT",
    "COMPLETION_TOKENS",
    "IMAGE",
    "PROMPT_TOKENS",
    "BrokenRuleError",
    "Capability",
    "Conversation",
    "Driver",
    "Gate",
    "PromptMessage",
    "Reply",
    "Report",
    "Result",
    "Rule",
    "ScriptedModel",
    "clock",
    "validate",
]


async def validate(
    driver: Driver,
    *,
    database_url: str | None = None,
    rules: Collection[Rule] = tuple(Rule),
    conversations: int = 20,
) -> Report:
    """Check an adapter against the rules.

    Args:
        driver: The adapter under test.
        database_url: A Postgres database with ReMe's schema; each check uses a new workspace. By default an embedded
            one is started in a temporary folder.
        rules: The rules to check.
        conversations: How many generated conversations to hold.

    Returns:
        The result of each check. The report is truthy if no rule was broken, and can be printed.
    """
    report = Report(driver.name)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="reme-", dir="/tmp")))
        given = SecretStr(database_url) if database_url is not None else None
        # Nothing that is checked is made by jobs.
        settings = Settings(database_url=given, data_dir=folder, worker=WorkerSettings(embedded=False))
        memory: WatchedReMe | None = None
        for check in [check for check in CHECKS if check.rule in rules]:
            if memory is None or memory.connection.is_closed:  # the adapter may have closed what it was given
                memory = await stack.enter_async_context(WatchedReMe(settings))
                url = await memory.connection.run(_url_of)
            report.results.append(await _run(check, Stage(driver, memory, url, folder, conversations=conversations)))
    return report


async def _url_of(engine: Engine) -> str:
    return engine.database.url


async def _run(check: Check, stage: Stage) -> Result:
    if not check.needs <= stage.driver.capabilities:
        missing = ", ".join(sorted(check.needs - stage.driver.capabilities))
        return Result(check.rule, check.name, "skipped", f"no {missing}")
    try:
        async with stage.closing:
            await check.run(stage)
    except BrokenRuleError as seen:
        return Result(check.rule, check.name, "failed", str(seen))
    except Exception as error:  # an adapter may raise anything; it fails this check, and the others still run
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return Result(check.rule, check.name, "failed", f"{type(error).__name__} at {where}: {error}")
    return Result(check.rule, check.name, "passed")
