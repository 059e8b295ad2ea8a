"""The system user that the embedded server runs as where we are root."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from uuid import uuid4

import pytest

from reme_core.postgres.embedded import files

pytestmark = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("useradd") is None,
    reason="only root makes users",
)


@pytest.fixture
def name() -> Iterator[str]:
    """A user that there is not yet, and that is removed afterwards."""
    name = f"reme-test-{uuid4().hex[:8]}"
    yield name
    subprocess.run(["userdel", name], capture_output=True, check=False)


def _number_of_account(name: str) -> int:
    files._SYSTEM_USER = name  # in a process of its own
    account = files._server_account(None)
    assert account is not None
    return account.uid


def test_processes_that_start_at_once_make_one_user(name: str) -> None:
    with ProcessPoolExecutor(6) as processes:
        numbers = set(processes.map(_number_of_account, [name] * 6))
    assert len(numbers) == 1
