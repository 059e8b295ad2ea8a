"""AutoGen agents with a memory: the rules, and what is particular to AutoGen."""

from __future__ import annotations

import pytest
from autogen_driver import AutoGenDriver

from reme_core.testing import validate


@pytest.mark.parametrize("how", ["agent", "memory", "context"])
async def test_the_rules_are_kept(database_url: str, how: str) -> None:
    report = await validate(AutoGenDriver(how), database_url=database_url)
    assert report, str(report)
