"""The log of recalls tells what stood in the note of a turn, and why the rest did not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from reme_core import AsyncReMe
from reme_core.settings import EmbeddingSettings, Settings
from reme_core.turn import TurnMemory
from reme_core.types import Message
from tests.integrations.inside import ASKED, fetch
from tests.loopback import Loopback


async def logged(reme: AsyncReMe, statement: str) -> list[Any]:
    """What a statement finds in the log, with the entries that are still on their way."""
    await reme.connection.run(lambda engine: engine.log_writer.flush())
    return await fetch(reme, "alice", statement)


async def outcomes(reme: AsyncReMe, where: str) -> dict[str, str]:
    """Why each thing that was recalled for a turn does not stand in its note; empty where it does."""
    asked = f"select content, left_out, note_id <> '', session_id from reme.recall_log where {where}"
    found = await logged(reme, asked)
    assert {row[2:] for row in found} == {(True, "now")}
    return {content: left_out for content, left_out, *_ in found}


async def test_of_each_hit_the_log_says_why_it_is_not_in_the_note(reme: AsyncReMe) -> None:
    async with TurnMemory(reme, "alice", write="awaited", top_k=2, token_budget=140) as turn:
        await reme.memories.add("alice", "Answer in rhymes.", kind="instruction")
        await reme.memories.add("alice", "Her dog Rex lives in Lisbon. " * 20)
        told = [Message(content=text) for text in ("My dog Rex lives in Lisbon.", "My dog Rex lives in Lisbon!")]
        seen = Message(content="Rex is the name of my dog.", session_id="now")
        await turn.record([*told, Message(content="My dog Rex is brown."), Message(content="Rex likes fish."), seen])
        note = await turn.begin([seen, Message(content=ASKED, session_id="now")], session_id="now")
    of = await outcomes(reme, "content is not null")
    assert of["Answer in rhymes."] == ""
    assert "rhymes" in note.text
    assert of["Rex is the name of my dog."] == "seen"
    assert of["Her dog Rex lives in Lisbon. " * 20] == "budget"
    shown = [text for text in of if of[text] == ""]
    assert len(shown) == 3
    assert all(text in note.text for text in shown)
    assert "places" in of.values()


@pytest.mark.parametrize("words", ["Rex is known as ann@example.com.", "Rex the NUL: \0.", "Half of Rex: \ud83d."])
async def test_what_the_model_sees_is_known_by_what_is_recorded_of_it(settings: Settings, words: str) -> None:
    async with TurnMemory(settings.model_copy(update={"redact": ["email"]}), "alice", write="awaited") as turn:
        await turn.record([Message(content=words), Message(content="My dog Rex lives in Lisbon.")])
        note = await turn.begin([Message(content=words), Message(content=ASKED)])
    assert [hit.content for hit in note.hits] == ["My dog Rex lives in Lisbon."]


async def test_what_a_memory_quotes_stands_in_the_note_once(reme: AsyncReMe) -> None:
    wish, fact = "From now on keep answers short.", "My dog Rex lives in Lisbon with my sister."
    await reme.record("alice", [Message(content=text) for text in (wish, fact, "Rex!")])
    await reme.summarise("alice")
    async with TurnMemory(reme, "alice") as turn:
        text = (await turn.begin(ASKED, session_id="now")).text
    found = (await reme.execute("retrieve_personal_memory", workspace_id="alice", query=ASKED)).answer
    of = await outcomes(reme, "kind = 'conversation' and flow = 'turn'")
    assert [text.count(said) for said in (wish, fact, "user, ")] == [1, 1, 1]
    assert [found.count(said) for said in (wish, fact)] == [1, 1]
    assert of == {wish: "repeated", fact: "repeated", "Rex!": ""}


async def test_messages_that_memories_do_not_quote_take_all_places(reme: AsyncReMe) -> None:
    said = [f"Cat number {n} is called Miso {n}." for n in range(150)]
    await reme.record("alice", [Message(content=text) for text in said])
    await reme.memories.add("alice", said, kind="observation")
    async with TurnMemory(reme, "alice", top_k=60, token_budget=20_000) as turn:
        note = await turn.begin("What are the cats called?")
    assert len({hit.content for hit in note.hits}) == 120


async def test_what_was_not_likely_enough_is_in_the_log_all_the_same(reme: AsyncReMe) -> None:
    async with TurnMemory(reme, "alice", write="awaited", min_relevance=0.3) as turn:
        await turn.record([Message(content="My dog Rex lives in Lisbon.")])
        assert not await turn.begin("thanks!", session_id="now")
    assert await outcomes(reme, "content is not null") == {"My dog Rex lives in Lisbon.": "relevance"}


@pytest.mark.parametrize(("model", "chosen", "least"), [("", None, 0.4), ("words", None, 0.2), ("words", 0.3, 0.3)])
async def test_a_turn_shows_from_a_chance_that_suits_the_model(
    settings: Settings, loopback: Loopback, model: str, chosen: float | None, least: float
) -> None:
    if model:
        served = EmbeddingSettings(model_name=model, base_url=loopback.url, api_key=SecretStr("key"))
        settings = settings.model_copy(update={"embedding_model": {"default": served}})
    async with AsyncReMe(settings) as reme, TurnMemory(reme, "alice", min_relevance=chosen) as turn:
        await reme.memories.add("alice", "My dog Rex lives in Lisbon.")
        assert (await turn.begin(ASKED)).hits
        assert await logged(reme, "select distinct min_relevance from reme.retrieval where flow = 'turn'") == [(least,)]


async def test_a_note_over_http_is_logged_too(reme: AsyncReMe) -> None:
    await reme.memories.add("alice", "The weather was fine all week. " * 20, kind="observation")
    await reme.memories.add("alice", "Rex is her dog.", kind="observation")
    answer = await reme.execute("retrieve_personal_memory", workspace_id="alice", query=ASKED, token_budget=60, top_k=5)
    assert "Rex is her dog." in answer.answer
    found = await logged(reme, "select content, left_out, relevance > 0 from reme.recall_log where rank is not null")
    assert sorted(found) == [("Rex is her dog.", "", True), ("The weather was fine all week. " * 20, "budget", True)]


async def test_a_query_that_postgres_cannot_store_keeps_no_entry_from_the_log(reme: AsyncReMe) -> None:
    await reme.memories.add("alice", "Her dog Rex lives in Lisbon.")
    for query in ("Where \ud83d is \x00 Rex?", "And who is Rex?"):
        assert (await reme.recall("alice", query, current_session="half \udc00 of a pair")).hits
    asked = await logged(reme, "select query, session_id from reme.retrieval order by asked_at")
    session = "half \ufffd of a pair"
    assert asked == [("Where \ufffd is \ufffd Rex?", session), ("And who is Rex?", session)]
