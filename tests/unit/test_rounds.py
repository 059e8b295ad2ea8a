"""Rounds of work: one at a time, none that nobody asked for, and none forgotten."""

from __future__ import annotations

import asyncio

import pytest

from reme_core.store.index import rounds
from reme_core.store.index.rounds import Rounds


class Work:
    """Takes a while, and fails as often as it is told to."""

    def __init__(self, *, failures: int = 0) -> None:
        self.begun: list[str] = []
        self.failures = failures

    async def __call__(self, workspace: str) -> None:
        self.begun.append(workspace)
        await asyncio.sleep(0.05)
        if self.failures:
            self.failures -= 1
            raise OSError("it is broken")


async def test_who_asks_during_a_round_gets_one_more_and_many_get_the_same() -> None:
    work = Work()
    asked = Rounds("testing", work)
    first = [asked.ask("w") for _ in range(5)]
    await asyncio.sleep(0.01)
    later = [asked.ask("w") for _ in range(5)]
    other = asked.ask("v")
    await asyncio.gather(*(ended.wait() for ended in first))
    assert not any(ended.is_set() for ended in later)
    await asyncio.gather(*(ended.wait() for ended in (*later, other)))
    assert sorted(work.begun) == ["v", "w", "w"]
    await asyncio.sleep(0)
    assert not asked._tasks and not asked._ended and not asked._asked_at


async def test_a_round_that_waits_for_quiet_covers_all_before_it_and_no_growth_during_it_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounds, "_QUIET_SECONDS", 0.5)
    work, waited = Work(), Work()
    asked = Rounds("testing", work, meanwhile=lambda: waited("w"))
    for _ in range(4):
        ended = asked.ask("w")
        await asyncio.sleep(0.02)
    assert work.begun == [] and waited.begun
    while not work.begun:
        await asyncio.sleep(0.01)
    last = asked.ask("w")
    await ended.wait()
    assert work.begun == ["w"]
    await last.wait()
    assert work.begun == ["w", "w"]


@pytest.mark.parametrize("again", [True, False])
async def test_a_round_that_fails_is_told_and_run_again_if_it_is_to_be(
    again: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(rounds, "_AGAIN_SECONDS", 0.1)
    work = Work(failures=1)
    asked = Rounds("testing", work, again=again)
    await asked.ask("w").wait()
    assert "testing of workspace 'w' failed and waits for its next time: it is broken" in caplog.text
    await asyncio.sleep(0.3)
    assert work.begun == ["w"] * (2 if again else 1)


async def test_nobody_waits_for_what_was_closed() -> None:
    asked = Rounds("testing", Work())
    ended = asked.ask("w")
    await asked.aclose(0)
    await asyncio.wait_for(ended.wait(), 1)


async def test_who_asks_after_a_round_was_broken_off_is_answered() -> None:
    asked = Rounds("testing", Work())
    asked.ask("w")
    await asyncio.sleep(0.01)
    asked.ask("w")  # during the round
    await asked.aclose(0)
    await asyncio.sleep(0)
    await asyncio.wait_for(asked.ask("w").wait(), 1)


async def test_a_round_that_waits_for_quiet_begins_at_once_when_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "_QUIET_SECONDS", 60.0)
    work, meanwhile = Work(), Work()
    asked = Rounds("testing", work, meanwhile=lambda: meanwhile("w"))
    asked.ask("w")
    await asyncio.sleep(0.1)
    assert meanwhile.begun and not work.begun
    await asyncio.wait_for(asked.aclose(30), 5)
    assert work.begun == ["w"]
