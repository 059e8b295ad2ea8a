"""What all adapters have in common: their options, none of which does nothing, and how they are closed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import reme_agentscope
import reme_autogen
import reme_langchain
import reme_llamaindex
from llama_index.core.memory import InsertMethod
from reme_llamaindex import ConversationStore

from reme_core import Settings
from reme_core.errors import InputError
from reme_core.testing import ScriptedModel
from reme_core.types import TimeRange
from tests.integrations.autogen_driver import FakeClient

TURNS: dict[str, Any] = {
    "agentscope": reme_agentscope.ReMeMiddleware,
    "autogen": reme_autogen.ReMeMemory,
    "langchain": reme_langchain.ReMeMiddleware,
    "llamaindex": reme_llamaindex.ReMeMemory,
    "llamaindex, a block": reme_llamaindex.ReMeMemoryBlock,
}
ALL: dict[str, Any] = TURNS | {
    "langchain, a history": partial(reme_langchain.ReMeChatMessageHistory, "monday"),
    "langchain, a retriever": reme_langchain.ReMeRetriever,
    "langchain, a store": reme_langchain.ReMeStore,
}


@pytest.mark.parametrize("adapter", ["agentscope", "autogen", "llamaindex"])
def test_a_session_that_cannot_be_stored_is_refused(adapter: str) -> None:
    with pytest.raises(InputError, match="session_id holds a NUL"):
        TURNS[adapter](workspace_id="alice", session_id="mon\x00day")


@pytest.mark.parametrize("adapter", TURNS)
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"top_k": 2.5}, "top_k is a whole number"),
        ({"top_k": True}, "top_k is a whole number"),
        ({"top_k": 501}, "top_k is 500 at most, not 501"),
        ({"window": 1000.5}, "window is a whole number"),
        ({"patience": float("nan")}, "patience is a positive number"),
        ({"min_relevance": "0.5"}, "min_relevance is a chance"),
        ({"filters": []}, "filters are a dict"),
        ({"filters": {"subject": 3}}, "the filter 'subject' cannot be 3"),
        ({"filters": {"happened": "yesterday"}}, "the filter 'happened' cannot be 'yesterday'"),
        ({"filters": {"metadata": "team"}}, "the filter 'metadata' cannot be 'team'"),
        ({"kinds": "personal"}, "kinds are several, .*; not 'personal'"),
        ({"kinds": 3}, "kinds are several, .*; not 3"),
        ({"spool": "disk"}, "spool is 'file', 'memory' or the Path"),
        ({"user_id": " "}, "user_id is blank"),
        ({"user_id": "an\x00n"}, "user_id holds a NUL"),
        ({"agent_id": "bo\ud800"}, "agent_id holds half of a surrogate pair"),
        ({"chat_model": "gpt-4.1-mini"}, "chat_model is a"),
        ({"model": "gpt-4.1-mini"}, "did you mean 'chat_model'"),
    ],
)
def test_what_means_nothing_is_refused_by_all(adapter: str, given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        TURNS[adapter](Settings(), "alice", **given)


async def test_a_query_that_is_no_text_is_refused_by_all_that_search(settings: Settings) -> None:
    query: Any = {"question": "Where do I live?"}
    memory = reme_autogen.ReMeMemory(settings, "alice")
    retriever = reme_langchain.ReMeRetriever(settings, "alice", on_error="raise")
    for search in (memory.query, memory.turn.recall, retriever.ainvoke):
        with pytest.raises(InputError, match=r"a query is text, not .'question'"):
            await search(query)
    await memory.aclose()
    await retriever.aclose()


@pytest.mark.parametrize(
    ("adapter", "given", "told"),
    [
        ("langchain, a history", {"top_k": 3}, "no option 'top_k'; there are session_id, database_url"),
        ("langchain, a history", {"kinds": ["personal"]}, "no option 'kinds'; there are session_id"),
        ("langchain, a history", {"filters": {}}, "no option 'filters'; there are session_id"),
        ("langchain, a store", {"top_k": 3}, "no option 'top_k'; there are database_url, client, workspace_id, index"),
        ("langchain, a retriever", {"window": 3}, "no option 'window'; there are database_url"),
        ("langchain", {"session_id": "monday"}, "thread_id"),
        ("langchain", {"tool": True}, "did you mean 'tools'"),
        ("langchain", {"count_tokens": len}, "give window"),
        ("langchain", {"count_tokens": "gpt-4", "window": 9}, "count_tokens is a function"),
        ("langchain", {"recall": "yes"}, "recall is True or False, not 'yes'"),
        ("langchain", {"tools": 0}, "tools is True or False, not 0"),
        ("langchain, a retriever", {"min_relevance": 5}, "min_relevance is a chance"),
        ("langchain, a retriever", {"on_error": "shout"}, "on_error is 'log' or 'raise'"),
        ("agentscope", {"count_tokens": len}, "give window"),
        ("agentscope", {"modus": "both"}, "did you mean 'mode'"),
        ("llamaindex", {"insert_method": InsertMethod.SYSTEM, "position": "user"}, "the same option; give one"),
        ("llamaindex", {"insert_method": "system", "position": "user"}, "the same option; give one"),
        ("llamaindex", dict.fromkeys(("sql_store", "chat_store"), ConversationStore()), "the same; give one"),
        ("llamaindex, a block", {"window": 1000}, "the Memory decides what the model is shown"),
        ("llamaindex, a block", {"session_id": "monday"}, "no option 'session_id'; there are database_url"),
    ],
)
def test_the_options_named_are_those_that_there_are(adapter: str, given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told) as raised:
        ALL[adapter](database_url=Settings(), workspace_id="alice", **given)
    known = str(raised.value).partition("there are ")[2].split(", ")
    assert not given.keys() & set(known)


@pytest.mark.parametrize("adapter", ALL)
@pytest.mark.parametrize("url", ["", "  "])
def test_an_empty_database_url_is_refused_by_all(adapter: str, url: str) -> None:
    with pytest.raises(InputError, match="database_url is empty"):
        ALL[adapter](database_url=url, workspace_id="alice")


def test_what_is_no_memory_is_refused_by_autogens_agent_and_context(model: ScriptedModel) -> None:
    memory: Any = reme_autogen.ReMeMemory(Settings(), "alice")
    for unfit in (None, memory):  # it must be in a list
        with pytest.raises(InputError, match=r"memory=\[ReMeMemory"):
            reme_autogen.ReMeAssistantAgent("assistant", FakeClient(model), memory=unfit)
    for given in (("alice",), (memory, "alice")):
        with pytest.raises(InputError, match=r"ReMeModelContext\(ReMeMemory"):
            reme_autogen.ReMeModelContext(*given)


@pytest.mark.parametrize("adapter", ALL)
def test_a_blank_workspace_is_refused_by_all(adapter: str) -> None:
    with pytest.raises(InputError, match="' ' cannot name a workspace"):
        ALL[adapter](database_url=Settings(), workspace_id=" ")


def test_an_agent_of_autogen_refuses_a_memory_tools_that_is_no_bool() -> None:
    options: dict[str, Any] = {"memory": [reme_autogen.ReMeMemory(Settings(), "alice")], "memory_tools": "yes"}
    with pytest.raises(InputError, match="memory_tools is True or False, not 'yes'"):
        reme_autogen.ReMeAssistantAgent("assistant", FakeClient(ScriptedModel()), **options)


@pytest.mark.parametrize("adapter", ALL)
async def test_each_is_closed_by_with_and_by_async_with(adapter: str, settings: Settings) -> None:
    with ALL[adapter](database_url=settings, workspace_id="alice") as opened:
        assert opened is not None
    async with ALL[adapter](database_url=settings, workspace_id="alice") as opened:
        assert opened is not None


async def test_filters_by_time_hold_in_a_memory_that_was_written_down(settings: Settings) -> None:
    known = TimeRange(end=datetime(2020, 1, 1, tzinfo=UTC))
    memory = reme_llamaindex.ReMeMemory(settings, "alice", filters={"known": known}, on_error="raise")
    again = reme_llamaindex.ReMeMemory.from_dict(json.loads(json.dumps(memory.to_dict())))
    await again.turn.reme.memories.add("alice", "Her dog is Rex.")
    assert not (await again.turn.begin("What is her dog?")).text
    await again.aclose()


def test_where_messages_wait_is_known_to_a_memory_that_was_written_down(tmp_path: Path) -> None:
    memory = reme_llamaindex.ReMeMemory(Settings(), "alice", spool=tmp_path / "x.sqlite3")
    assert reme_llamaindex.ReMeMemory.from_dict(memory.to_dict()).options["spool"] == tmp_path / "x.sqlite3"
