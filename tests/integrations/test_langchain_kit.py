"""LangChain's adapter keeps the rules of the kit, with a checkpointer and without."""

from __future__ import annotations

import pytest

from reme_core.testing import validate
from tests.integrations.langchain_driver import LangChainDriver


@pytest.mark.long
@pytest.mark.parametrize("checkpointed", [True, False])
async def test_keeps_the_rules(database_url: str, checkpointed: bool, conversations: int) -> None:
    report = await validate(
        LangChainDriver(checkpointed=checkpointed), database_url=database_url, conversations=conversations
    )
    assert report, str(report)
    assert all(result.outcome == "passed" for result in report.results), str(report)
