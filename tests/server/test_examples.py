"""Every example of the service runs against a real one and says what it should."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.conftest import Process

EXAMPLES = Path(__file__).parents[2] / "examples"
SAID = {
    "python/task_memory.py": "YYYY-MM-DD",
    "python/personal_memory.py": "咖啡",
    "curl/task_memory.sh": "帮我制定项目计划",
    "curl/personal_memory.sh": "peanuts",
    "node/task_memory.mjs": "payment",
    "node/personal_memory.mjs": "cello",
}
RUNNERS = {".py": sys.executable, ".sh": "sh", ".mjs": "node"}


@pytest.mark.timeout(240)
def test_every_example_says_what_it_should(start: Callable[..., Process], free_port: int) -> None:
    process = start("backend=http", f"http.port={free_port}")
    process.wait_until_healthy()
    there = {
        str(path.relative_to(EXAMPLES))
        for folder in ("python", "curl", "node")
        for path in (EXAMPLES / folder).iterdir()
    }
    assert there == set(SAID)
    for name, said in SAID.items():
        runner = RUNNERS[Path(name).suffix]
        if shutil.which(runner) is None:
            continue
        done = subprocess.run(
            [runner, str(EXAMPLES / name)],
            env={**os.environ, "REME_URL": process.url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        assert said in done.stdout, f"{name}: {done.stdout}"
