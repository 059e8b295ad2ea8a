"""Each adapter keeps the rules of the kit, in each of the ways in which it can be used."""

from __future__ import annotations

import pytest
from llama_index.core.memory import InsertMethod

from reme_core.testing import Driver, validate
from tests.integrations.agentscope_driver import AgentScopeDriver
from tests.integrations.autogen_driver import AutoGenDriver
from tests.integrations.langchain_driver import LangChainDriver
from tests.integrations.llamaindex_driver import LlamaIndexDriver

ADAPTERS: dict[str, Driver] = {
    **{f"AutoGen, {how}": AutoGenDriver(how) for how in ("agent", "memory", "context")},
    **{f"AgentScope, {mode}": AgentScopeDriver(mode) for mode in ("static_control", "both")},
    "LangChain, with a checkpointer": LangChainDriver(),
    "LangChain, without one": LangChainDriver(checkpointed=False),
    **{f"LlamaIndex, {place.value}": LlamaIndexDriver(insert_method=place) for place in InsertMethod},
}
CANNOT = {
    "LangChain": {  # without a thread, each run is a conversation
        "a_conversation_is_one_session_and_was_held_now",
        "a_conversation_that_goes_on_in_another_process_is_not_written_again",
    },
    "LlamaIndex": {
        "the_note_stands_beside_the_users_last_words",
        "equal_ids_in_two_conversations_are_two_messages",
    },
}
"""The checks that are passed over, of frameworks that can do nearly all."""


@pytest.mark.long
@pytest.mark.parametrize("driver", ADAPTERS.values(), ids=ADAPTERS)
async def test_the_rules_are_kept(driver: Driver, database_url: str, conversations: int) -> None:
    report = await validate(driver, database_url=database_url, conversations=conversations)
    assert report, str(report)
    skipped = {result.check for result in report.results if result.outcome == "skipped"}
    assert skipped <= CANNOT.get(driver.name, skipped), str(report)
