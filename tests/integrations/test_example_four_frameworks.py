"""The example keeps its promise: one memory serves agents of four frameworks."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "one_memory_four_frameworks.py"


async def test_what_one_learns_another_uses_a_third_corrects_and_a_fourth_recalls(database_url: str) -> None:
    environment = os.environ | {"DATABASE_URL": database_url}
    ran = await asyncio.to_thread(
        subprocess.run, [sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=False, env=environment
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith(
        "One memory: learned in AutoGen, used in LangGraph, corrected in AgentScope, recalled in LlamaIndex.\n"
    )
