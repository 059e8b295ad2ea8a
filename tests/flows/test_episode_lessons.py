"""Lessons of recorded episodes: if a model fails, the episodes are kept, and learned from later."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reme_core.engine import Engine
from reme_core.errors import ConflictError
from reme_core.types import Message
from tests.flows.attempts import BOOKED, answering, lesson
from tests.loopback import Loopback

ATTEMPT = {**BOOKED, "episode_id": "e1", "task_id": "flights"}
LESSON = "Write dates as YYYY-MM-DD."
LEARNED = answering(success_extraction={"lessons": [lesson("Flight search refuses the date", LESSON)]})


async def lessons_of(reme: Engine) -> list[str]:
    return [memory.content for memory in await reme.memories.from_source("w", "episode", ["e1"])]


async def count_waiting(reme: Engine) -> int:
    return len(await reme.database.fetch("w", "select from reme.episode where lessons_asked_at is not null"))


async def test_what_a_model_could_not_read_waits_and_is_learned_from_later(
    reme_with_chat: Engine, loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    reme = reme_with_chat
    loopback.fail(503, times=9)
    recorded = await reme.episodes.record("w", ATTEMPT, learn=True)
    assert ([e.episode_id for e in recorded.episodes], recorded.lessons) == (["e1"], [])
    assert "episodes of workspace 'w' that wait for their lessons, which a job makes later: 1;" in caplog.text
    (job,) = await reme.background.jobs("w")
    assert (job.task, job.needs, await count_waiting(reme), await lessons_of(reme)) == ("learn", "chat model", 1, [])

    loopback.reset()
    loopback.chat(LEARNED)
    await reme.background.drain("w")
    assert (await count_waiting(reme), await lessons_of(reme)) == (0, [LESSON])
    [source] = [s for s in (await reme.memories.list("w"))[0].sources if s.kind == "message"][:1]
    assert await reme.database.fetch("w", "select from reme.message where message_id = %s", [source.id])


async def test_lessons_made_at_once_leave_nothing_to_wait_for(reme_with_chat: Engine, loopback: Loopback) -> None:
    loopback.chat(LEARNED)
    recorded = await reme_with_chat.episodes.record("w", ATTEMPT, learn=True)
    assert [made["content"] for made in recorded.lessons] == [LESSON]
    assert (await count_waiting(reme_with_chat), await reme_with_chat.background.jobs("w")) == (0, [])


async def test_episodes_whose_process_ended_before_it_had_learned_are_found_later(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    reme = reme_with_chat
    await reme.episodes.record("w", ATTEMPT)
    await reme.episodes.record("w", {"task_id": "flights", "episode_id": "erased", "messages": [{"content": "hm"}]})
    await reme.database.execute("w", "update reme.episode set lessons_asked_at = now() - interval '1 hour'")
    (empty,) = await reme.database.fetch("w", "select message_ids[1] from reme.episode where episode_id = 'erased'")
    await reme.erase_messages("w", empty[0])
    loopback.chat(LEARNED)
    await reme.background._keep_up()
    await reme.background._keep_up()
    assert [job.task for job in await reme.background.jobs("w")] == ["learn"]
    await reme.background.drain("w")
    assert (await count_waiting(reme), await lessons_of(reme)) == (0, [LESSON])


async def test_episodes_recorded_while_the_model_is_away_share_one_job(
    reme_with_chat: Engine, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def record(number: int) -> Any:
        said = [Message(content=f"do {number}"), Message(role="assistant", content=f"did {number}")]
        told = {"episode_id": f"e{number}", "score": 1.0, "messages": said}
        return await reme_with_chat.episodes.record("w", told, learn=True)

    monkeypatch.setattr(reme_with_chat.background, "start", lambda: None)  # a job under way takes no further episodes
    loopback.fail(503, times=500)
    for number in range(5):
        await record(number)
    assert await count_waiting(reme_with_chat) == 5
    assert len(await reme_with_chat.background.jobs("w")) == 1


async def test_a_job_leaves_alone_what_another_process_learns_from_at_this_moment(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    reme = reme_with_chat
    await reme.episodes.record("w", ATTEMPT)
    await reme.database.execute("w", "update reme.episode set lessons_asked_at = now()")
    loopback.fail(503, times=9)
    await reme.episodes.record("w", {**ATTEMPT, "episode_id": "failed"}, learn=True)
    loopback.reset()
    loopback.chat(LEARNED)
    await reme.background.drain("w")
    [waiting] = await reme.database.fetch("w", "select episode_id from reme.episode where lessons_asked_at is not null")
    assert (waiting, await lessons_of(reme)) == (("e1",), [])
    assert [memory.content for memory in await reme.memories.from_source("w", "episode", ["failed"])] == [LESSON]


async def test_a_workspace_that_is_cleared_while_a_model_learns_stays_cleared(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    reme, loop = reme_with_chat, asyncio.get_running_loop()

    def clear_and_answer(body: dict[str, Any]) -> dict[str, Any]:
        asyncio.run_coroutine_threadsafe(reme.workspaces.clear("w"), loop).result(30)
        return LEARNED(body)

    for begin in (reme.episodes.record("w", ATTEMPT, learn=True), learn_later(reme, loopback)):
        loopback.chat(clear_and_answer, LEARNED)
        await begin
        assert await reme.workspaces.list() == []
        assert await reme.background.jobs("w") == []


async def learn_later(reme: Engine, loopback: Loopback) -> None:
    await reme.episodes.record("w", ATTEMPT)
    await reme.database.execute("w", "update reme.episode set lessons_asked_at = 'epoch'")
    with pytest.raises(ConflictError, match="episodes are gone, or were learned from already: e1"):
        await reme.episodes.lessons.make_waiting("w")
