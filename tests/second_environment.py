"""A second Python environment, for what cannot be installed beside the first: AgentScope 1, whose name 2 has too.

It is made once, which takes some minutes, and kept in the user's cache.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import venv
from pathlib import Path

import platformdirs
import pytest

VERSION_1 = ("agentscope==1.0.21", "mcp<2", "sqlalchemy[asyncio]", "tqdm")
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def python_with_version_1() -> str:
    """The Python of an environment that has AgentScope 1 and this checkout."""
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or platformdirs.user_cache_dir("reme-core-tests", appauthor=False))
    folder = cache / f"agentscope-1.0.21-python-{minor}"
    python, ready = folder / "bin" / "python", folder / "ready"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test run may be making it
        if not ready.exists() or ready.read_text() != str(ROOT):
            venv.create(folder, with_pip=True, clear=True)
            command = [str(python), "-m", "pip", "install", "--quiet", "--editable", str(ROOT), *VERSION_1]
            done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
            if done.returncode:
                pytest.skip(f"AgentScope 1 cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
            ready.write_text(str(ROOT))
    return str(python)
