"""`reme episodes`: curves that can be read, notes as an agent gets them, and the helper's file in and out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.cli.plot import line_plot
from reme_core.compat import agent_memory as compat
from reme_core.episodes.rules import Episode
from reme_core.settings import Settings
from tests.server.command import Reme
from tests.unit.compat.histories import history


@pytest.fixture
def reme(capsys: pytest.CaptureFixture[str], database_url: str, monkeypatch: pytest.MonkeyPatch) -> Reme:
    monkeypatch.setenv("DATABASE_URL", database_url)
    return Reme(capsys)


def test_a_file_is_imported_shown_and_exported(reme: Reme, tmp_path: Path) -> None:
    source, target = str(tmp_path / "agent_memory.json"), str(tmp_path / "again.json")
    memory = compat.new_agent_memory()
    for told in history(100):
        compat.record_episode(memory, told)
    compat.save_agent_memory(memory, source)
    assert reme.json("episodes", "import", source, "-w", "w") == {"imported": 100, "total_episodes": 100}
    assert reme("episodes", "context", "task_a", "-w", "w") == compat.build_memory_context(memory, "task_a") + "\n"
    assert reme.json("episodes", "summary", "-w", "w") == compat.memory_summary(memory)
    assert "task_a" in reme("episodes", "summary", "-w", "w")
    reme("episodes", "export", target, "-w", "w")
    assert json.loads(Path(target).read_text()) == json.loads(Path(source).read_text())


def test_a_note_commands_no_terminal(reme: Reme, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with ReMe(settings) as opened:
        opened.episodes.record("w", Episode(task_id="climb", score=0.1, mistakes=["fell\x1b[2J\x9b31m\tthen\x07"]))
    exact = reme("episodes", "context", "climb", "-w", "w")
    assert "fell\x1b[2J\x9b31m\tthen\x07" in exact  # whoever takes it from a pipe gets what an agent is given
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal
    assert reme("episodes", "context", "climb", "-w", "w") == exact.translate(dict.fromkeys(b"\x1b\x9b\x07"))


def test_a_file_that_was_cut_off_ends_with_the_byte_and_code_2(reme: Reme, tmp_path: Path) -> None:
    path = tmp_path / "agent_memory.json"
    path.write_text('{"version": 1, "mistakes": [')
    assert reme("episodes", "import", str(path), "-w", "w", code=2) == ""
    assert "broken at byte 28" in reme.err


def test_a_workspace_without_episodes_is_not_exported_over_a_file(reme: Reme, tmp_path: Path) -> None:
    path = tmp_path / "agent_memory.json"
    path.write_text("good")
    reme("episodes", "export", str(path), "-w", "mistyped", code=3)
    assert "workspace 'mistyped' has no episodes" in reme.err and path.read_text() == "good"


def test_the_curve_is_drawn_with_the_share_of_solved_groups(reme: Reme, settings: Settings) -> None:
    with ReMe(settings) as opened:
        opened.episodes.record_many("w", [Episode(task_id="climb", score=min(n / 20, 1.0)) for n in range(40)])
    drawn = reme("episodes", "curve", "-w", "w", "-k", "1", "-k", "4")
    assert "climb, mean of the last 10 of 40 attempts" in drawn and "pass@4" in drawn and "⣀" in drawn
    told = reme.json("episodes", "curve", "climb", "-w", "w", "-k", "4")
    assert len(told["points"]) == 40
    assert told["pass_at_k"] == [
        {"k": 4, "tasks": [{"task_id": "climb", "attempts": 40, "groups": 10, "passed": 5, "rate": 0.5}]}
    ]
    reme("episodes", "curve", "nobody", "-w", "w", code=3)
    assert "no episodes of task 'nobody'" in reme.err


def test_a_line_rises_where_the_values_rise_and_stays_in_its_frame() -> None:
    lines = line_plot([0, 0, 1, 1, 7], width=20, height=5).split("\n")
    assert len(lines) == 5 and lines[0].startswith("1.00 ┤") and lines[-1].startswith("0.00 ┤")
    assert lines[0].endswith("⠉⠉") and lines[-1].rstrip()[-1] != "⣀"
    assert all(len(line) <= 26 for line in lines)
    assert line_plot([], width=5, height=2).split("\n") == ["1.00 ┤", "0.00 ┤"]
