"""LlamaIndex's adapter keeps the rules of the kit, with its note in the user's message and in the system's."""

from __future__ import annotations

import pytest
from llama_index.core.memory import InsertMethod

from reme_core.testing import validate
from tests.integrations.llamaindex_driver import LlamaIndexDriver

pytestmark = [
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning"),  # of LlamaIndex's workflows
]


@pytest.mark.long
@pytest.mark.parametrize("place", list(InsertMethod))
async def test_keeps_the_rules(database_url: str, place: InsertMethod, conversations: int) -> None:
    report = await validate(
        LlamaIndexDriver(insert_method=place), database_url=database_url, conversations=conversations
    )
    assert report, str(report)
    skipped = {result.check for result in report.results if result.outcome == "skipped"}
    cannot = {"the_note_stands_beside_the_users_last_words", "equal_ids_in_two_conversations_are_two_messages"}
    assert skipped <= cannot, str(report)
