"""What a note of personal memory tells: what holds, of whom, and of the time that is asked about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from reme_core.engine import Engine
from reme_core.errors import InputError
from reme_core.store.change import Change, Close
from reme_core.types import Memory, Message
from tests.flows.personal_turns import everything, summarise, turn

Flow = Any


async def test_what_is_said_to_end_ends(reme: Engine) -> None:
    await summarise(reme, turn("We have my brother Tom's van until the end of August.", "2024-03-06"))
    [memory] = await everything(reme)
    assert memory.valid_until == datetime(2024, 9, 1, tzinfo=UTC)
    asked = {"workspace_id": "w", "query": "Tom's van", "held_at": "2024-10-01T00:00:00Z"}
    config = {"op.recall_personal.params.messages": 0}
    found = await reme.execute("retrieve_personal_memory", **asked, config=config)
    assert found.metadata["memory_list"] == []


@pytest.mark.parametrize("kind", ["profile", "observation"])
async def test_what_was_corrected_is_not_among_what_held(reme: Engine, kind: str) -> None:
    places = ("in Rome", "in Oslo", "on Mars")
    wrong, right, joke = (Memory(kind=kind, content=f"Ann lives {place}.") for place in places)
    await reme.memories.add("w", [wrong, joke])
    close = [Close(wrong.memory_id, "superseded", right.memory_id), Close(joke.memory_id, "expired")]
    await reme.memories.apply("w", Change(add=[right], close=close))
    answer = (await reme.retrieve("w", "Where does Ann live?", held_at=datetime(2024, 5, 1, tzinfo=UTC))).answer
    assert "Oslo" in answer and "Rome" not in answer and "Mars" not in answer


async def test_a_note_has_the_profile_in_the_words_of_the_time_that_is_asked_about(reme: Engine) -> None:
    (home,) = await reme.memories.add("w", Memory(kind="profile", content="Ann lives in Rome."))
    known = (await reme.memories.history("w", home.memory_id))[0].changed_at
    await reme.memories.update("w", home.memory_id, content="Ann lives in Oslo.")
    then = (await reme.retrieve("w", "Where does Ann live?", as_of=known)).answer
    assert "Rome" in then and "Oslo" not in then


async def test_who_is_asked_about_is_told_of_and_nobody_else(reme: Engine) -> None:
    lives = {"Ann": "Porto", "Bob": "Oslo", "user": "Rome"}
    for name, city in lives.items():
        said = [turn(f"I live in {city} with my cat."), turn(f"A cat in {city}, how fine!", role="assistant")]
        await reme.execute(
            "summary_personal_memory", workspace_id="w", user_name=name, trajectories=[{"messages": said}]
        )
    asked = {"workspace_id": "w", "query": "Where do I live with my cat?", "top_k": 10}
    for name, city in {**lives, "Dan": ""}.items():
        answer = (await reme.execute("retrieve_personal_memory", user_name=name, **asked)).answer
        assert {place for place in lives.values() if place in answer} == ({city} if city else set())
        assert ("how fine" in answer) is bool(city)
    everybody = (await reme.execute("retrieve_personal_memory", **asked)).answer
    assert all(place in everybody for place in lives.values())


async def test_a_query_about_a_time_counts_what_happened_then_double(reme: Engine) -> None:
    await summarise(
        reme,
        turn("I visited my brother Tom in Rome yesterday."),
        turn("I visited my brother Tom in Oslo yesterday.", "2024-09-10"),
    )
    await reme.memories.add("w", ["The sky was grey.", "A recipe for soup.", "The dog has fleas.", "Rain again."])
    for query, city in (
        ("Which city did I visit last spring?", "Rome"),
        ("Which city did I visit in September?", "Oslo"),
        ("我今年九月去了哪个城市？", "Oslo"),
    ):
        response = await reme.execute(
            "retrieve_personal_memory", workspace_id="w", query=query, top_k=1, now="2024-11-20T12:00:00Z"
        )
        assert city in response.metadata["memory_list"][0]["content"], query
        assert response.metadata["time_ranges"]


async def test_the_days_of_a_note_are_those_of_the_asker(reme: Engine) -> None:
    """Half an hour before midnight in London it is the next day in Oslo: for memories, quotes and messages alike."""
    at = datetime(2025, 1, 31, 23, 30, tzinfo=UTC)
    await reme.record("w", [Message(content="I moved to Leipzig with my sister Ada.", sent_at=at, session_id="s")])
    await reme.record("w", [Message(content="Leipzig is full of bicycles?", sent_at=at, session_id="t")])
    await reme.summarise("w")
    await reme.memories.add("w", Memory(content="Leipzig has a zoo.", observed_at=at))
    for zone, days in (("Europe/Oslo", ("1 February 2025", "2025-02-01")), ("", ("31 January 2025", "2025-01-31"))):
        note = (await reme.retrieve("w", "Leipzig", timezone=zone)).answer
        assert [f"on {days[0]}" in note, f"zoo. ({days[1]})" in note, f", {days[1]}: Leipzig" in note] == [True] * 3
    with pytest.raises(InputError, match="unknown time zone 'Mars'"):
        await reme.retrieve("w", "Leipzig", timezone="Mars")


async def test_an_anchor_is_resolved_from_memory(reme: Engine, flow: Flow) -> None:
    await summarise(reme, turn("My birthday is on 7 May, my sister Ada's too."))
    state = await flow(
        reme,
        "retrieve_personal_memory",
        workspace_id="w",
        query="What did I do two days before my birthday?",
        now="2024-11-20T12:00:00Z",
    )
    assert [(r.start, r.end) for r in state.time_ranges] == [
        (datetime(2024, 5, 5, tzinfo=UTC), datetime(2024, 5, 6, tzinfo=UTC))
    ]


async def test_messages_come_behind_the_memories_as_in_a_turn(reme: Engine) -> None:
    await reme.record("w", [Message(role="user", content="The rehearsal is in the old town hall.")], wait=True)
    found = await reme.execute("retrieve_personal_memory", workspace_id="w", query="Where is the rehearsal?")
    said = [m for m in found.metadata["memory_list"] if m["metadata"]["reme_core"].get("kind") == "conversation"]
    assert [(m["memory_type"], m["content"]) for m in said] == [("personal", "The rehearsal is in the old town hall.")]
    assert "old town hall" in found.answer
    config = {"op.recall_personal.params.messages": 0}
    asked = {"workspace_id": "w", "query": "Where is the rehearsal?", "config": config}
    assert (await reme.flows.execute("retrieve_personal_memory", asked)).metadata["memory_list"] == []
