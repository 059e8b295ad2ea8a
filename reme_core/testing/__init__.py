"""The adapter kit: proves that a memory adapter keeps the rules, whatever its framework.

An adapter's author writes a `Driver`: how to start a conversation of an agent with the framework's own means, around
the kit's `ScriptedModel`. The kit holds conversations with it, cancels turns, takes the database away and gives it
back, and looks at the prompts that the model was shown.

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

from reme_core.settings import Settings
from reme_core.store.database import Database
from reme_core.testing import behaving, calling, recalling, recording  # noqa: F401  # importing them registers their checks
from reme_core.testing.checks import CHECKS, Check
from reme_core.testing.driver import Capability, Conversation, Driver, clock
from reme_core.testing.gate import Gate
from reme_core.testing.model import COMPLETION_TOKENS, PROMPT_TOKENS, Reply, ScriptedModel, Shown
from reme_core.testing.report import Report, Result, Rule
from reme_core.testing.stage import BrokenRuleError, Stage

__all__ = [
    "COMPLETION_TOKENS",
    "PROMPT_TOKENS",
    "BrokenRuleError",
    "Capability",
    "Conversation",
    "Driver",
    "Gate",
    "Reply",
    "Report",
    "Result",
    "Rule",
    "ScriptedModel",
    "Shown",
    "clock",
    "validate",
]


async def validate(driver: Driver, *, database_url: str | None = None, rules: Collection[Rule] = tuple(Rule)) -> Report:
    """Hold an adapter against the rules.

    Args:
        driver: The adapter under test.
        database_url: A Postgres with our schema; the checks work in workspaces of their own. Default: an embedded one
            in a temporary folder.
        rules: Only these.

    Returns:
        What each check found. It is truthy if no rule was broken; print it to read it.
    """
    report = Report(driver.name)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="reme-", dir="/tmp")))
        if database_url is None:
            database = await stack.enter_async_context(await Database.open(Settings(data_dir=folder)))
            database_url = database.url
        for check in CHECKS:
            if check.rule in rules:
                report.results.append(await _run(check, driver, database_url, folder))
    return report


async def _run(check: Check, driver: Driver, database_url: str, folder: Path) -> Result:
    if not check.needs <= driver.capabilities:
        missing = ", ".join(sorted(check.needs - driver.capabilities))
        return Result(check.rule, check.name, "skipped", f"no {missing}")
    try:
        async with AsyncExitStack() as closing:
            gate = closing.enter_context(Gate(database_url))
            await check.run(Stage(driver, gate, folder, closing))
    except BrokenRuleError as seen:
        return Result(check.rule, check.name, "failed", str(seen))
    except Exception as error:  # whatever an adapter raises is a finding, and the other checks go on
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return Result(check.rule, check.name, "failed", f"{type(error).__name__} at {where}: {error}")
    return Result(check.rule, check.name, "passed")
