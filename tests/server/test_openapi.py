"""The OpenAPI document keeps its word, whatever is sent: schemathesis with its default checks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.conftest import Process

EXAMPLES = 5
"""Requests made up for each endpoint; more find more, and take longer."""
ALIKE = (
    "^/(summary_task_memory_.*|retrieve_task_memory_simple|consolidate|reflect|read_message"
    "|summarizer|retriever|agent)$"
)
"""Endpoints that take the same as another one; left out unless REME_TEST_ALL_ENDPOINTS is set."""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_5xx_and_no_undocumented_response(start: Callable[..., Process], free_port: int, tmp_path: Path) -> None:
    process = start("backend=http", f"http.port={free_port}", "worker.embedded=false")
    process.wait_until_healthy()
    found = subprocess.run(
        [
            str(Path(sys.executable).parent / "schemathesis"),
            f"--config-file={Path(__file__).with_name('schemathesis.toml')}",
            "run",
            f"{process.url}/openapi.json",
            f"--max-examples={EXAMPLES}",
            "--seed=7",
            *([] if os.environ.get("REME_TEST_ALL_ENDPOINTS") else [f"--exclude-path-regex={ALIKE}"]),
            "--no-color",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-20_000:] + found.stderr
    assert "Traceback" not in process.said
