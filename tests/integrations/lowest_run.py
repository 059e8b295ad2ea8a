"""Holds each adapter against the rules, with the versions of their frameworks that are installed.

python lowest_run.py <database URL>
"""

from __future__ import annotations

import asyncio
import logging
import sys
from importlib.metadata import version

from reme_core.testing import validate
from tests.integrations.agentscope_driver import AgentScopeDriver
from tests.integrations.autogen_driver import AutoGenDriver
from tests.integrations.langchain_driver import LangChainDriver
from tests.integrations.llamaindex_driver import LlamaIndexDriver

DRIVERS = {
    "autogen-agentchat": AutoGenDriver("agent"),
    "agentscope": AgentScopeDriver(),
    "langchain": LangChainDriver(),
    "llama-index-core": LlamaIndexDriver(),
}


async def main(url: str) -> int:
    logging.disable(logging.WARNING)  # some of the checks take the database away
    broken = 0
    for package, driver in DRIVERS.items():
        report = await validate(driver, database_url=url, conversations=2)
        print(f"{package} {version(package)}\n{report}")
        broken += not report
    return broken


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
