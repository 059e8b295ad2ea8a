"""Every adapter works with the lowest versions that its extra allows; all other tests use the highest."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.second_environment import (
    CHECKOUT,
    FRAMEWORKS,
    LOWEST_AGENTSCOPE_2,
    lowest,
    project,
    python_with_lowest_versions,  # noqa: F401 - a fixture
)

HERE = Path(__file__).parent
READMES = HERE.parents[1] / "integrations"


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_each_adapter_works_with_the_lowest_versions(
    python_with_lowest_versions: str,  # noqa: F811
    database_url: str,
) -> None:
    command = [python_with_lowest_versions, "-W", "ignore", str(HERE / "lowest_run.py"), database_url]
    done = subprocess.run(
        command, env={**os.environ, **CHECKOUT}, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    for extra in FRAMEWORKS:
        name, version = next(iter(lowest(extra).items()))
        assert f"{name} {version}" in lines
    assert f"agentscope {LOWEST_AGENTSCOPE_2}" in lines
    assert sum(line.endswith("keeps all rules") for line in lines) == 4


def test_what_does_not_work_is_not_installed() -> None:
    [line] = project()["optional-dependencies"]["agentscope"]
    allowed = Requirement(line).specifier
    assert LOWEST_AGENTSCOPE_2 in allowed
    assert list(allowed.filter(["2.0.0", "2.0.1", "2.0.2", "2.0.3", "2.0.4", "2.0.4.post1"])) == []


@pytest.mark.parametrize("extra", [*FRAMEWORKS, "agentscope"])
def test_the_readme_says_which_versions_are_supported(extra: str) -> None:
    told = (READMES / extra / "README.md").read_text(encoding="utf-8")
    for name, version in lowest(extra).items():
        assert f"{name} {version}" in told
    if extra == "agentscope":
        assert f"agentscope {LOWEST_AGENTSCOPE_2}" in told
