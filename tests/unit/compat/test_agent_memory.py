"""The helper's seven functions: the same text line for line, the same dict; and no file is ever lost."""

from __future__ import annotations

import copy
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from reme_core.compat.agent_memory import (
    build_memory_context,
    load_agent_memory,
    maybe_consolidate_memory,
    memory_summary,
    new_agent_memory,
    record_episode,
    save_agent_memory,
)
from reme_core.errors import InputError
from tests.loopback import Loopback
from tests.unit.compat.histories import LENGTHS, history
from tests.unit.compat.reference import helper

CARD = {
    "mistake_type": "early_restart",
    "worker_id": "w1",
    "bad_decision": "restart",
    "correct_decision": "read logs",
    "evidence": "The log named the cause.",
    "lesson": "Read before acting.",
}


def played() -> dict[str, Any]:
    memory = new_agent_memory()
    record_episode(
        memory,
        {
            "task_id": "auth",
            "score": 0.9,
            "steps": 4,
            "trajectory_summary": "Read the logs, found the expired token.",
            "successes": ["Read the logs first"],
            "mistakes": ["Looked at the wrong host once"],
        },
    )
    record_episode(
        memory,
        {"task_id": "auth", "score": 0.25, "steps": 12, "mistakes": ["Restarted blindly"], "mistake_cards": [CARD]},
    )
    record_episode(memory, {"task_id": "disk", "score": 0.6, "steps": 7, "mistake_cards": [CARD | {"task_id": "auth"}]})
    return memory


def without_times(memory: dict[str, Any]) -> dict[str, Any]:
    return {**memory, "episode_log": [{**e, "timestamp": ""} for e in memory["episode_log"]]}


def test_the_note_tells_rules_mistakes_cards_episodes_and_the_mean_in_this_order() -> None:
    memory = played()
    memory["global_rules"].append("[CONSOLIDATED] Verify before you act.")
    assert build_memory_context(memory, "auth").split("\n") == [
        "## MEMORY FROM PAST EPISODES",
        "",
        "Rules for auth:",
        " - [WORKS] Read the logs first",
        " - [AVOID] Restarted blindly",
        "",
        "General rules (all tasks):",
        " - [CONSOLIDATED] Verify before you act.",
        "",
        "Mistakes to avoid:",
        " - AVOID: Looked at the wrong host once",
        " - AVOID: Restarted blindly",
        "",
        "Structured mistake cards:",
        " - [early_restart, seen 2x] Read before acting. Evidence: The log named the cause.",
        "",
        "Recent auth episodes:",
        " - Score 0.90 in 4 steps: Read the logs, found the expired token.",
        " - Score 0.25 in 12 steps: ",
        "",
        "Your mean score on auth: 0.57 (over 2 episodes)",
    ]


def test_an_empty_memory_says_nothing() -> None:
    assert build_memory_context(new_agent_memory(), "auth") == ""


def test_without_a_task_only_what_holds_for_all_is_told() -> None:
    note = build_memory_context(played())
    assert "Rules for" not in note and "mean score" not in note and "Mistakes to avoid" in note


def test_the_summary_counts() -> None:
    assert memory_summary(played()) == {
        "total_episodes": 3,
        "global_rules": 0,
        "task_rules": {"auth": 2, "disk": 0},
        "mistakes_stored": 2,
        "mistake_cards_stored": 1,
        "top_mistake_cards": [{"mistake_type": "early_restart", "task_id": "auth", "seen_count": 2}],
        "scores_by_task": {"auth": 0.575, "disk": 0.6},
    }


def test_only_clear_outcomes_become_rules_and_the_newest_ten_stay() -> None:
    memory = new_agent_memory()
    record_episode(memory, {"task_id": "t", "score": 0.84, "successes": ["almost"], "mistakes": ["hardly"]})
    record_episode(memory, {"task_id": "t", "score": 0.5, "successes": ["half"], "mistakes": ["half"]})
    assert memory["task_rules"]["t"] == []
    for number in range(12):
        record_episode(memory, {"task_id": "t", "score": 0.85, "successes": [f"s{number}"]})
    assert memory["task_rules"]["t"] == [f"[WORKS] s{number}" for number in range(2, 12)]


def test_cards_are_merged_cut_and_kept_thirty() -> None:
    memory = new_agent_memory()
    long = {"lesson": "x" * 500, "evidence": "y" * 500}
    for number in range(40):
        cards = [{"mistake_type": f"m{number}", **long}]
        if number < 5:
            cards *= 2
        record_episode(memory, {"task_id": "t", "mistake_cards": cards})
    cards = memory["mistake_cards"]
    assert len(cards) == 30
    assert [card["mistake_type"] for card in cards[:6]] == ["m4", "m3", "m2", "m1", "m0", "m39"]
    assert len(cards[0]["lesson"]) == len(cards[0]["evidence"]) == 300


def test_every_twenty_episodes_the_best_summaries_become_rules_for_all(tmp_path: Path) -> None:
    path = str(tmp_path / "deep" / "memory.json")
    memory = new_agent_memory()
    for number in range(19):
        record_episode(
            memory, {"task_id": "t", "score": 0.9 if number % 2 else 0.2, "trajectory_summary": f"try {number}"}
        )
    maybe_consolidate_memory(memory, path=path)
    assert memory["last_consolidated_at"] is None and not Path(path).exists()
    record_episode(memory, {"task_id": "t", "score": 0.95, "trajectory_summary": "z" * 200})
    maybe_consolidate_memory(memory, path=path)
    assert memory["last_consolidated_at"] == 20
    assert memory["global_rules"][0] == "[HIGH SCORE 0.90] try 1"
    assert memory["global_rules"][-1] == f"[HIGH SCORE 0.95] {'z' * 120}"
    assert load_agent_memory(path) == memory


def test_a_summary_of_any_kind_in_a_file_is_consolidated(tmp_path: Path) -> None:
    memory = new_agent_memory()
    for _ in range(20):
        record_episode(memory, {"task_id": "t", "score": 0.9})
    memory["episode_log"][3]["summary"] = 7
    maybe_consolidate_memory(memory, path=str(tmp_path / "memory.json"))
    assert memory["global_rules"] == ["[HIGH SCORE 0.90] 7"]


def test_a_model_consolidates_and_its_failure_is_logged_and_made_good(
    loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("API_BASE_URL", loopback.url)
    path = str(tmp_path / "memory.json")
    memory = new_agent_memory()
    for _ in range(20):
        record_episode(memory, {"task_id": "t", "score": 0.9, "trajectory_summary": "Read first."})
    other = copy.deepcopy(memory)
    loopback.chat({"rules": ["Read the logs first.", "Never guess."]})
    maybe_consolidate_memory(memory, "a key", path)
    assert memory["global_rules"] == ["[CONSOLIDATED] Read the logs first.", "[CONSOLIDATED] Never guess."]
    assert "task=t score=0.90: Read first." in json.dumps(loopback.bodies("/chat/completions")[0])

    loopback.reset()
    loopback.fail(400, times=10)
    with caplog.at_level(logging.WARNING):
        maybe_consolidate_memory(other, "a key", path)
    assert other["global_rules"] == ["[HIGH SCORE 0.90] Read first."]
    assert "did not distil rules" in caplog.text


def test_saving_cuts_the_log_to_a_hundred_and_loading_gives_the_same(tmp_path: Path) -> None:
    path = str(tmp_path / "agent_memory.json")
    memory = new_agent_memory()
    for number in range(130):
        record_episode(memory, {"task_id": f"t{number % 3}", "score": number / 130, "mistake_cards": [CARD]})
    save_agent_memory(memory, path)
    assert len(memory["episode_log"]) == 100 and memory["total_episodes"] == 130
    assert load_agent_memory(path) == memory
    assert [p.name for p in tmp_path.iterdir()] == ["agent_memory.json"]


def test_no_file_yet_is_an_empty_memory(tmp_path: Path) -> None:
    assert load_agent_memory(str(tmp_path / "none.json")) == new_agent_memory()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_off_is_reported_with_the_byte_and_left_alone(tmp_path: Path, share: float) -> None:
    path = tmp_path / "agent_memory.json"
    save_agent_memory(played(), str(path))
    whole = path.read_bytes()
    cut = whole[: int(len(whole) * share)]
    path.write_bytes(cut)
    with pytest.raises(InputError, match=rf"broken at byte \d+ .*after byte {len(cut)}, so it was cut off"):
        load_agent_memory(str(path))
    assert path.read_bytes() == cut


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "broken at byte 0 .*after byte 0, so it was cut off"),
        ('{"mistakes": ["没有"], oops}'.encode(), "broken at byte 25 "),
        (b'{"mistakes": ["\xff"]}', r"byte 15 \(0xff\) cannot be read"),
        (b"[]", "holds a list"),
        (b'{"episode_log": {}}', "episode_log must be a list"),
        (b'{"episode_log": [{"score": 1}]}', r"episode_log\[0\] must be an object with task_id and score"),
        (
            b'{"mistake_cards": [{"seen_count": null}]}',
            "seen_count of .* must be a whole number, not None",
        ),
        (b'{"mistake_cards": [{"last_seen_episode": "x"}]}', "last_seen_episode of .* must be a whole number, not 'x'"),
        (b'{"total_episodes": "3"}', "total_episodes must be a whole number, not '3'"),
        (b'{"total_episodes": NaN}', "total_episodes must be a whole number, not nan"),
        (b"[" * 100_000, "cannot be read: maximum recursion depth"),
        (b"[" + b"1" * 5000 + b"]", "cannot be read: Exceeds the limit"),
        (b'{"score_history": {"t": ["good"]}}', "score_history of 't' must hold numbers"),
        (
            b'{"episode_log": [{"task_id": "t", "score": null}]}',
            r"score of episode_log\[0\] must be a number, not None",
        ),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "agent_memory.json"
    path.write_bytes(text)
    with pytest.raises(InputError, match=message):
        load_agent_memory(str(path))


def test_a_path_where_no_file_can_be_looked_for_is_an_error_and_no_empty_memory() -> None:
    with pytest.raises(InputError, match="File name too long"):
        load_agent_memory("x" * 300)


def test_what_json_cannot_hold_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "agent_memory.json"
    save_agent_memory(played(), str(path))
    before = path.read_bytes()
    broken = played() | {"successes": [object()]}
    with pytest.raises(InputError, match="cannot be written as JSON"):
        save_agent_memory(broken, str(path))
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "odd",
    [
        {"score": float("nan")},
        {"score": float("inf")},
        {"score": None},
        {"mistakes": [5]},
        {"successes": [{}]},
        {"successes": "Read first."},
        {"mistake_cards": 3},
    ],
)
def test_an_episode_that_cannot_be_stored_is_refused_and_not_half_recorded(odd: dict[str, Any]) -> None:
    memory = played()
    before = copy.deepcopy(memory)
    with pytest.raises(InputError, match="of an episode must be"):
        record_episode(memory, {"task_id": "auth", **odd})
    assert memory == before


def test_null_counts_as_not_given() -> None:
    names = ("task_id", "steps", "trajectory_summary", "mistakes", "successes", "mistake_cards")
    told, left_out = (record_episode(new_agent_memory(), given) for given in (dict.fromkeys(names), {}))
    assert without_times(told) == without_times(left_out)
    assert "Score 0.00 in 0 steps: " in build_memory_context(told, "unknown")


def test_a_task_whose_id_is_a_number_keeps_its_history_over_loads(tmp_path: Path) -> None:
    path = str(tmp_path / "agent_memory.json")
    for score in (0.25, 0.5, 0.9):
        memory = load_agent_memory(path)
        record_episode(memory, {"task_id": 0, "score": score, "successes": ["Read first"]})
        save_agent_memory(memory, path)
    memory = load_agent_memory(path)
    assert memory["score_history"] == {"0": [0.25, 0.5, 0.9]}
    assert "Rules for 0:\n - [WORKS] Read first" in build_memory_context(memory, 0)  # type: ignore[arg-type]  # as the helper's callers give it
    memory["episode_log"][-1]["task_id"] = 0  # as the helper wrote it
    assert "Score 0.90 in 0 steps" in build_memory_context(memory, "0")


def test_a_log_without_steps_and_summaries_is_told() -> None:
    memory = new_agent_memory() | {"episode_log": [{"task_id": "t", "score": 1, "summary": None}]}
    assert "Score 1.00 in 0 steps: " in build_memory_context(memory, "t")


def test_a_memory_that_could_not_be_loaded_again_is_not_saved(tmp_path: Path) -> None:
    path = tmp_path / "agent_memory.json"
    save_agent_memory(played(), str(path))
    before = path.read_bytes()
    with pytest.raises(InputError, match="is as it was: score_history of 'auth' must hold numbers"):
        save_agent_memory(played() | {"score_history": {"auth": ["good"]}}, str(path))
    assert path.read_bytes() == before


def test_a_file_of_the_helper_with_odd_values_is_read_and_saved_as_the_helper_does(tmp_path: Path) -> None:
    path = tmp_path / "agent_memory.json"
    memory = {**played(), "mistakes": [5]}
    memory["score_history"]["disk"] = [float("nan")]
    path.write_text(json.dumps(memory))
    loaded = load_agent_memory(str(path))
    assert " - AVOID: 5" in build_memory_context(loaded, "disk")
    assert "Your mean score on disk: nan" in build_memory_context(loaded, "disk")
    record_episode(loaded, {"task_id": "auth", "score": 0.9})
    save_agent_memory(loaded, str(path))
    assert load_agent_memory(str(path))["total_episodes"] == 4


def test_cards_that_were_edited_by_hand_read_as_with_the_helper() -> None:
    memory = played()
    card = memory["mistake_cards"][0]
    memory["mistake_cards"] = [
        {**card, "lesson": "x" * 500, "evidence": "y" * 400, "seen_count": "7"},
        {**card, "lesson": None, "evidence": None},
        {**card, "lesson": 5, "seen_count": 1.5},
    ]
    assert build_memory_context(memory, "auth") == helper().build_memory_context(memory, "auth")


@pytest.mark.parametrize("length", LENGTHS)
def test_a_history_reads_line_for_line_as_with_the_helper(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    reference = helper()
    theirs, ours = reference.new_agent_memory(), new_agent_memory()
    for number, episode in enumerate(history(length)):
        theirs = reference.record_episode(theirs, copy.deepcopy(episode))
        ours = record_episode(ours, copy.deepcopy(episode))
        theirs = reference.maybe_consolidate_memory(theirs, path=str(tmp_path / "theirs.json"))
        ours = maybe_consolidate_memory(ours, path=str(tmp_path / "ours.json"))
        for task in (*theirs["score_history"], None, "never tried"):
            limits = {} if number % 3 else {"max_rules": number % 8, "max_recent": number % 5}
            expected = reference.build_memory_context(theirs, task, **limits)
            assert build_memory_context(ours, task, **limits).split("\n") == expected.split("\n")
        assert memory_summary(ours) == reference.memory_summary(theirs)
    assert without_times(ours) == without_times(theirs)
    reference.save_agent_memory(theirs, str(tmp_path / "theirs.json"))
    save_agent_memory(ours, str(tmp_path / "ours.json"))
    theirs_written, ours_written = ((tmp_path / f"{name}.json").read_text() for name in ("theirs", "ours"))
    assert len(ours_written.splitlines()) == len(theirs_written.splitlines())
    assert without_times(load_agent_memory(str(tmp_path / "theirs.json"))) == without_times(json.loads(ours_written))
