"""What users of ReMe 0.1 met, one test each, named after what it protects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from reme_core import prompts
from reme_core.engine import Engine
from reme_core.errors import InputError, ModelError
from reme_core.models import registry
from reme_core.settings import ChatSettings, FlowSettings, Settings
from reme_core.types import Kind, Memory
from tests.flows.attempts import BOOKED, CANCELLED, NOT_BOOKED, answering, attempt, calls, lesson, op_of, says, user
from tests.loopback import Loopback

Flow = Any

TASK = {"kind": Kind.TASK, "when_to_use": "Booking a flight", "content": "Dates as YYYY-MM-DD."}


def as_posted(memory: Memory) -> dict[str, Any]:
    return {"memory_id": memory.memory_id, "when_to_use": memory.when_to_use, "content": memory.content}


async def test_recording_use_without_success_still_counts_the_use(reme: Engine, flow: Flow) -> None:
    (memory,) = await reme.memories.add("w", Memory(**TASK))
    given = {"workspace_id": "w", "memory_dicts": [as_posted(memory)]}
    state = await flow(reme, "record_task_memory", update_utility=False, **given)
    assert [(m.freq, m.utility) for m in state.memories] == [(1, 0)]
    state = await flow(reme, "record_task_memory", update_utility=True, **given)
    stored = await reme.memories.get("w", memory.memory_id)
    assert (stored.freq, stored.utility) == (2, 1)
    assert state.update_result.updated_count == 1


async def test_deleting_unhelpful_memories_works_and_spares_the_others(reme: Engine, flow: Flow) -> None:
    contents = ["Never helped.", "Helped half the time.", "Given too seldom.", "Never given."]
    memories = await reme.memories.add("w", [Memory(**TASK | {"content": content}) for content in contents])
    uses = {0: [False] * 4, 1: [True, False] * 2, 2: [False]}
    for place, outcomes in uses.items():
        for helped in outcomes:
            given = [as_posted(memories[place])]
            await flow(reme, "record_task_memory", workspace_id="w", memory_dicts=given, update_utility=helped)
    state = await flow(reme, "delete_task_memory", workspace_id="w", freq_threshold=4, utility_threshold=0.5)
    assert state.update_result.deleted_count == 1
    assert {m.content for m in await reme.memories.list("w")} == set(contents[1:])
    state = await flow(reme, "delete_task_memory", workspace_id="w", freq_threshold=0, utility_threshold=1.0)
    assert {m.content for m in await reme.memories.list("w")} == {"Never given."}, "what was never tried is not judged"


async def test_retrieval_never_overwrites_a_stored_score(reme: Engine, flow: Flow) -> None:
    (memory,) = await reme.memories.add("w", Memory(**TASK, score=0.123))
    for name in ("retrieve_task_memory", "retrieve_task_memory_simple"):
        state = await flow(reme, name, workspace_id="w", query="book a flight")
        assert state.memories[0].score == 0.123
        assert state.hits[0].parts.similarity not in (None, 0.123)
    assert (await reme.memories.get("w", memory.memory_id)).score == 0.123


@pytest.mark.parametrize("trajectory", [BOOKED, CANCELLED])
async def test_chinese_is_a_language_of_task_memory(
    settings: Settings, loopback: Loopback, flow: Flow, trajectory: Any
) -> None:
    chat = ChatSettings(model_name="loop-chat", base_url=loopback.url, max_retries=0)
    loopback.chat(answering(success_extraction={"lessons": [lesson("情境", "做法一二三。")]}, rewrite="简要说明。"))
    chinese = settings.model_copy(update={"language": "zh", "llm": {"default": chat}})
    async with Engine(chinese) as reme:
        state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[trajectory])
        assert [memory.content for memory in state.memories] == ["做法一二三。"]
        found = await flow(reme, "retrieve_task_memory", workspace_id="w", query="anything at all")
        assert "简要说明。" in found.answer
    assert all("标签之间" in str(b["messages"][0]["content"]) for b in loopback.bodies("/chat/completions"))


async def test_a_message_from_2023_is_about_2023(reme: Engine, flow: Flow) -> None:
    state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[CANCELLED])
    stored = await reme.memories.get("w", state.memories[0].memory_id)
    assert stored.observed_at == datetime(2023, 5, 1, 10, 0, 7, tzinfo=UTC)


@pytest.mark.parametrize("name", ["summary_task_memory", "summary_task_memory_simple"])
async def test_posting_the_same_attempts_again_adds_nothing(reme: Engine, flow: Flow, name: str) -> None:
    posted = {"workspace_id": "w", "trajectories": [BOOKED, NOT_BOOKED]}
    first = await flow(reme, name, **posted)
    assert first.update_result.inserted_count == len(first.memories) > 0
    again = await flow(reme, name, **posted)
    assert (again.memories, again.update_result.inserted_count) == ([], 0)
    stored = await reme.memories.list("w")
    assert len(stored) == len(first.memories)
    assert {memory.seen_count for memory in stored} == {1}, "what is posted twice was not seen twice"


@pytest.mark.parametrize("name", ["summary_task_memory", "summary_task_memory_simple"])
async def test_posting_the_same_attempts_at_the_same_time_stores_them_once(reme: Engine, flow: Flow, name: str) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(lambda: flow(reme, name, workspace_id="w", trajectories=[BOOKED, NOT_BOOKED]))
    contents = [memory.content for memory in await reme.memories.list("w")]
    assert len(contents) == len(set(contents)) > 0


async def test_what_another_attempt_teaches_again_is_counted_with_its_evidence(reme: Engine, flow: Flow) -> None:
    await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[BOOKED])
    elsewhere = BOOKED | {"metadata": {"episode_id": "another run"}}
    state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[elsewhere])
    assert state.update_result.updated_count == 2
    for memory in await reme.memories.list("w"):
        assert memory.seen_count == 2
        assert "another run" in {source.id for source in memory.sources}


async def test_failures_and_comparisons_look_at_segments(
    reme_with_chat: Engine, flow: Flow, loopback: Loopback
) -> None:
    text = (
        "trajectory_preprocess >> segmentation >> (success_extraction | failure_extraction | comparative_extraction)"
        " >> validation >> deduplication >> store"
    )
    reme_with_chat.settings.flow["segmented"] = FlowSettings(flow_content=text)
    good = attempt(user("Find a hotel."), says("Found."), user("Pay for it."), says("Paid."), score=1.0, task_id="a")
    bad = attempt(user("Find a hotel."), says("Found."), user("Pay for it."), says("Declined."), score=0.0, task_id="b")
    halves = {"segments": [{"last": 2, "goal": "find"}, {"last": 4, "goal": "pay"}]}
    loopback.chat(answering(segmentation=halves))
    await flow(reme_with_chat, "segmented", workspace_id="w", trajectories=[good, bad])
    asked: dict[str, list[str]] = {}
    for body in loopback.bodies("/chat/completions"):
        asked.setdefault(op_of(body), []).append(body["messages"][1]["content"])
    assert len(asked["success_extraction"]) == len(asked["failure_extraction"]) == 2
    assert not any("Find a hotel" in text and "Pay for it" in text for text in asked["failure_extraction"])
    assert len(asked["comparison_hard"]) == 2
    assert any("Paid." in text and "Declined." in text for text in asked["comparison_hard"])
    assert not any("Find a hotel" in text and "Declined." in text for text in asked["comparison_hard"])


async def test_rules_look_at_segments_too(reme: Engine, flow: Flow) -> None:
    text = "trajectory_preprocess >> segmentation >> (success_extraction | failure_extraction) >> validation >> store"
    reme.settings.flow["segmented"] = FlowSettings(flow_content=text)
    long = attempt(
        user("Find a hotel."),
        calls("find", "ok"),
        says("Found."),
        user("Pay."),
        calls("pay", "Error: declined"),
        score=0.0,
    )
    state = await flow(reme, "segmented", workspace_id="w", trajectories=[long])
    assert [m.when_to_use for m in state.memories] == ["A task like: Find a hotel.", "A task like: Pay."]
    assert "find" not in state.memories[1].content


async def test_duplicates_are_looked_for_in_the_store_and_in_the_batch(
    reme_with_chat: Engine, flow: Flow, loopback: Loopback
) -> None:
    known = Memory(
        kind=Kind.TASK,
        when_to_use="When handling paginated API responses, ensure all pages are processed correctly.",
        content="Always implement a robust pagination mechanism that accounts for empty results or unexpected API "
        "behavior to avoid missing data.",
    )
    await reme_with_chat.memories.add("w", known)
    reworded = lesson(
        "When handling paginated API responses, ensure all pages are processed correctly without prematurely breaking "
        "the loop.",
        "Always verify that loops iterating through paginated data check for valid termination conditions and handle "
        "empty responses appropriately to avoid missing data.",
    )
    fresh = lesson("When a login is refused.", "Ask for the current password before trying again.")
    reworded_fresh = lesson("When a log-in is refused.", "Ask for the current password before you try again.")
    loopback.chat(answering(success_extraction={"lessons": [reworded, fresh, reworded_fresh]}))
    state = await flow(reme_with_chat, "summary_task_memory", workspace_id="w", trajectories=[BOOKED])
    assert [memory.when_to_use for memory in state.memories] == ["When a login is refused."]
    stored = await reme_with_chat.memories.get("w", known.memory_id)
    assert stored.seen_count == 2
    assert len(stored.sources) > 0


async def test_different_lessons_of_one_topic_are_not_duplicates(
    reme_with_chat: Engine, flow: Flow, loopback: Loopback
) -> None:
    lessons = [
        lesson("When an API call fails due to missing credentials.", "Authenticate with the app before the call."),
        lesson("When an access token has expired.", "Log in again to obtain a new token before proceeding."),
        lesson("When an API needs a password instead of a token.", "Fetch the password from the supervisor app."),
    ]
    loopback.chat(answering(success_extraction={"lessons": lessons}))
    state = await flow(reme_with_chat, "summary_task_memory", workspace_id="w", trajectories=[BOOKED])
    assert len(state.memories) == 3


async def test_lessons_that_differ_in_a_number_are_not_duplicates(
    reme_with_chat: Engine, flow: Flow, loopback: Loopback
) -> None:
    lessons = [lesson(f"When gate {n} is closed.", f"Use the entrance of gate {n + 10} instead.") for n in range(5)]
    loopback.chat(answering(success_extraction={"lessons": lessons[:3]}))
    state = await flow(reme_with_chat, "summary_task_memory", workspace_id="w", trajectories=[BOOKED])
    assert len(state.memories) == 3


async def test_rules_that_write_by_one_template_do_not_look_like_duplicates(reme: Engine, flow: Flow) -> None:
    attempts = [
        attempt(
            user("Send a message."), calls("send", f"Error: {error}", to="a"), calls("send", "ok", to=fixed), says("ok")
        )
        for error, fixed in (("unknown user", "b"), ("mailbox is full", "c"), ("rate limit", "d"))
    ]
    state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=attempts)
    fixes = [m for m in state.memories if m.metadata["step_type"] == "fix"]
    assert len(fixes) == 3
    (success,) = [m for m in state.memories if m.metadata["step_type"] == "success"]
    assert sum(source.kind == "episode" for source in success.sources) == 3, "the same path is one lesson, seen thrice"


async def test_clients_and_prompts_are_made_once(
    reme_with_chat: Engine, flow: Flow, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    loopback.chat(answering(success_extraction={"lessons": [lesson("a b", "c d e.")]}))
    await flow(reme_with_chat, "summary_task_memory", workspace_id="w", trajectories=[BOOKED])
    monkeypatch.setattr(prompts, "files", lambda *_: pytest.fail("a prompt was read again"))
    monkeypatch.setattr(registry, "chat_model", lambda *_, **__: pytest.fail("a client was made again"))
    before = len(loopback.bodies("/chat/completions"))
    await flow(reme_with_chat, "summary_task_memory", workspace_id="w", trajectories=[BOOKED])
    assert len(loopback.bodies("/chat/completions")) > before


async def test_an_error_in_a_parallel_branch_surfaces_and_nothing_is_stored(
    reme_with_chat: Engine, flow: Flow, loopback: Loopback
) -> None:
    loopback.chat(
        answering(
            success_extraction={"lessons": [lesson("a", "b c d")]}, failure_extraction="no JSON, sorry", validation={}
        )
    )
    with pytest.raises(ModelError) as caught:
        await flow(reme_with_chat, "summary_task_memory", workspace_id="w", trajectories=[BOOKED, NOT_BOOKED])
    assert "in the op 'failure_extraction'" in caught.value.__notes__
    assert await reme_with_chat.memories.list("w") == []


async def test_recalled_notes_are_never_learned_again(reme: Engine, flow: Flow) -> None:
    await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[BOOKED])
    found = await flow(reme, "retrieve_task_memory", workspace_id="w", query="book a flight")
    assert "book_flight" in found.answer
    posted = attempt(user(f"{found.answer}\n\nBake bread."), says(f"Baked.\n{found.answer}"), score=1.0)
    state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[posted])
    (memory,) = state.memories
    assert memory.when_to_use == "A task like: Bake bread."
    assert "book_flight" not in memory.model_dump_json()
    only_note = attempt(user(found.answer), score=1.0)
    assert (await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[only_note])).memories == []


@pytest.mark.parametrize("query", ["What did I do on 3 May 2023?", "What did I do yesterday?", "我昨天做了什么？"])
async def test_a_time_in_a_question_is_found_told_and_counts(reme: Engine, query: str) -> None:
    days = {n: datetime(2023, 5, n, 9, tzinfo=UTC) for n in (1, 2, 3, 4)}
    told = [Memory(kind=Kind.OBSERVATION, content="Anna went swimming", observed_at=day) for day in days.values()]
    await reme.memories.add("w", told)
    now = datetime(2023, 5, 4, 12, tzinfo=UTC).isoformat()
    found = await reme.execute("retrieve_personal_memory", workspace_id="w", query=query, now=now, top_k=1)
    (asked_about,) = found.metadata["time_ranges"]
    assert (asked_about["start"][:10], asked_about["end"][:10]) == ("2023-05-03", "2023-05-04")
    (memory,) = found.metadata["memory_list"]
    assert memory["metadata"]["reme_core"]["observed_at"].startswith("2023-05-03")


async def test_what_was_told_outright_and_insights_come_before_passing_remarks(reme: Engine) -> None:
    kinds = [Kind.OBSERVATION, Kind.CUSTOM, Kind.INSIGHT]
    await reme.memories.add("w", [Memory(kind=kind, content="Anna likes green tea") for kind in kinds])
    found = await reme.execute("retrieve_personal_memory", workspace_id="w", query="Which tea does Anna like?")
    order = [memory["metadata"]["reme_core"].get("kind", "observation") for memory in found.metadata["memory_list"]]
    assert order == ["insight", "custom", "observation"]


async def test_the_same_question_gets_the_same_answer_in_the_same_order(reme: Engine) -> None:
    memories = [Memory(**TASK | {"content": f"Advice of equal worth: {letter}"}) for letter in "abcdefgh"]
    await reme.memories.add("w", memories)
    asked = {"workspace_id": "w", "query": "Booking a flight", "top_k": 5}
    answers = {(await reme.execute("retrieve_task_memory", **asked)).answer for _ in range(4)}
    assert len(answers) == 1
    assert answers != {""}


async def test_lessons_are_recalled_as_they_were_known_or_held_at_the_moment_that_is_asked_of(reme: Engine) -> None:
    (lesson,) = await reme.memories.add("w", Memory(**TASK | {"content": "Booking a flight: pay first."}))
    known = (await reme.memories.history("w", lesson.memory_id))[0].changed_at
    await reme.memories.update("w", lesson.memory_id, content="Booking a flight: log in first.")
    over = TASK | {"content": "Booking a flight: send a fax.", "valid_until": datetime(2001, 1, 1, tzinfo=UTC)}
    await reme.memories.add("w", Memory(**over))
    asked = {"workspace_id": "w", "query": "Booking a flight"}
    now, then, long_ago = [
        (await reme.execute("retrieve_task_memory_simple", **asked, **moment)).answer
        for moment in ({}, {"as_of": known}, {"held_at": datetime(2000, 1, 1, tzinfo=UTC)})
    ]
    assert ("log in" in now, "pay" in now, "fax" in now) == (True, False, False)
    assert ("log in" in then, "pay" in then) == (False, True)
    assert "fax" in long_ago


async def test_a_time_that_only_the_model_can_place_counts_and_its_failure_is_no_silence(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    asked = {"workspace_id": "w", "query": "What did I do over the lantern festival?", "timezone": "UTC"}
    loopback.chat({"first_day": "2024-02-24", "last_day": "2024-02-24"})
    found = await reme_with_chat.execute("retrieve_personal_memory", **asked)
    (placed,) = found.metadata["time_ranges"]
    assert (placed["start"][:10], placed["end"][:10]) == ("2024-02-24", "2024-02-25")
    loopback.chat({"first_day": "2024-02-24", "last_day": "9999-12-31"})
    (placed,) = (await reme_with_chat.execute("retrieve_personal_memory", **asked)).metadata["time_ranges"]
    assert (placed["start"][:10], placed["end"]) == ("2024-02-24", None)
    loopback.chat("I would rather not say.")
    found = await reme_with_chat.execute("retrieve_personal_memory", **asked)
    assert found.metadata["degraded"][0].startswith("extract_time: the model's answer holds no JSON")


async def test_an_attempt_whose_messages_would_be_lost_by_a_mistyped_name_is_refused(reme: Engine, flow: Flow) -> None:
    told = {"mesages": [user("Book it."), says("Booked.")], "score": 1.0}
    with pytest.raises(InputError, match=r"trajectories\.0: .*no field 'mesages'; did you mean 'messages'"):
        await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[told])
