"""Environments beside the one that runs the tests, for versions of frameworks that it cannot have as well.

There are three: AgentScope 1, whose name AgentScope 2 has too; the lowest version of every framework that the extras in
pyproject.toml allow; and LlamaIndex's models of OpenAI, which hold the official client below 3. Each is made once on a
machine, and kept in the user's cache. It holds what this project depends on, and not the project: that is taken from
the checkout that runs the tests.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
CHECKOUT = {"PYTHONPATH": os.pathsep.join(map(str, [ROOT, *sorted((ROOT / "integrations").iterdir())]))}
"""Variables with which one of these environments runs this checkout."""

LOWEST_AGENTSCOPE_2 = "2.0.5"
FRAMEWORKS = ("autogen", "langchain", "llamaindex")


@pytest.fixture(scope="session")
def python_with_version_1() -> str:
    """The Python of an environment that has AgentScope 1."""
    # What it needs of others, it does not say: greenlet came with SQLAlchemy before 2.1.
    return made("agentscope-1", [f"agentscope=={lowest('agentscope')['agentscope']}", "mcp<2", "tqdm", "greenlet"])


@pytest.fixture(scope="session")
def python_with_lowest_versions() -> str:
    """The Python of an environment that has the lowest version of each framework, AgentScope's of those with 2."""
    pins = [f"{name}=={version}" for extra in FRAMEWORKS for name, version in lowest(extra).items()]
    return made("lowest", [*pins, f"agentscope=={LOWEST_AGENTSCOPE_2}"])


@pytest.fixture(scope="session")
def python_with_llamaindex_openai() -> str:
    """The Python of an environment that has LlamaIndex and its models of OpenAI."""
    return made("llamaindex-openai", ["llama-index-core", "llama-index-llms-openai"])


def project() -> dict[str, Any]:
    """The project's own description."""
    described: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return described


def lowest(extra: str) -> dict[str, str]:
    """The lowest versions that an extra allows, by package."""
    bounds = {}
    for line in project()["optional-dependencies"][extra]:
        requirement = Requirement(line)
        [bounds[requirement.name]] = [one.version for one in requirement.specifier if one.operator == ">="]
    return bounds


def made(name: str, pins: list[str]) -> str:
    """The Python of an environment with these packages and all that the project depends on."""
    cache = Path(platformdirs.user_cache_dir("reme-core-tests", appauthor=False))
    folder = cache / f"{name}-python-{sys.version_info.major}.{sys.version_info.minor}"
    python, ready = folder / "bin" / "python", folder / "ready"
    wanted = [*project()["dependencies"], *pins]
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test run may be making it
        if not ready.exists() or ready.read_text() != "\n".join(wanted):
            ready.unlink(missing_ok=True)
            if not python.exists():
                venv.create(folder)
            # uv takes seconds where pip takes a minute of a processor; but an index may be named to pip alone.
            for installer in (
                ["uv", "pip", "install", "--python", str(python)],
                ["pip", "--python", str(python), "install", "--disable-pip-version-check", "--no-compile"],
            ):
                # From source, some of what AgentScope needs takes a compiler and long.
                command = [sys.executable, "-m", *installer, "--quiet", "--only-binary", ":all:", *wanted]
                done = subprocess.run(command, capture_output=True, text=True, timeout=1000, check=False)
                if done.returncode == 0:
                    break
            else:
                why = f"cannot install {', '.join(pins)}: {done.stderr.strip()[-600:]}"
                pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
            ready.write_text("\n".join(wanted))
    return str(python)
