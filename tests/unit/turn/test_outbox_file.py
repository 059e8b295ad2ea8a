"""The spool keeps what it is given: over a crash, from several processes, and never without bounds."""

from __future__ import annotations

import logging
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from reme_core.tools.types import ToolCallResult
from reme_core.turn.outbox_file import Entry, Spool, sanitise
from reme_core.types import Message, ToolCall


def entry(text: str, workspace: str = "alice") -> Entry:
    return Entry(workspace, [Message(content=text, message_id=f"id of {text}")])


def texts(spool: Spool) -> list[str]:
    return [message.content for waiting in spool.entries() for message in waiting.messages]


def test_what_is_kept_is_found_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "spool" / "x.sqlite3"
    first = Spool(path)
    first.put(entry("one"))
    first.keep()
    first.put(entry("never kept"))
    second = Spool(path)
    assert second.has_entries, "a spool that has not looked yet cannot say that nothing waits"
    assert texts(second) == ["one"]
    [found] = second.entries()
    assert found.workspace == "alice"
    assert found.messages[0].message_id == "id of one"


def test_what_was_delivered_is_gone_for_everybody(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "x.sqlite3")
    spool.put(entry("one"))
    spool.put(entry("two"))
    spool.keep()
    spool.remove([spool.entries()[0].entry_id])
    assert texts(spool) == ["two"]
    assert texts(Spool(spool.path)) == ["two"]
    spool.remove([waiting.entry_id for waiting in spool.entries()])
    assert not spool.has_entries


def test_entries_come_in_the_order_in_which_they_were_put(tmp_path: Path) -> None:
    left = Spool(tmp_path / "x.sqlite3")
    left.put(entry("of an earlier process"))
    left.keep()
    spool = Spool(left.path)
    for number in range(3):
        spool.put(entry(str(number)))
    spool.keep()
    spool.put(entry("last"))
    assert texts(spool) == ["of an earlier process", "0", "1", "2", "last"]


def test_only_its_owner_reads_the_file(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool" / "x.sqlite3")
    spool.put(entry("a secret"))
    spool.keep()
    assert spool.path is not None
    assert stat.S_IMODE(spool.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(spool.path.parent.stat().st_mode) == 0o700


def test_without_a_file_nothing_is_written(tmp_path: Path) -> None:
    spool = Spool()
    spool.put(entry("one"))
    spool.keep()
    assert texts(spool) == ["one"]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_leaves_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    spool = Spool(tmp_path / "file" / "x.sqlite3")
    spool.put(entry("one"))
    with caplog.at_level(logging.WARNING):
        spool.keep()
    assert "wait in memory only" in caplog.text
    assert texts(spool) == ["one"]


def test_a_broken_file_is_told_of_and_does_not_stop_anybody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "x.sqlite3"
    path.write_bytes(b"this is no database, and it is long enough to be taken for one" * 10)
    spool = Spool(path)
    spool.put(entry("one"))
    assert texts(spool) == ["one"]
    assert "cannot read the turns" in caplog.text


def test_it_is_bounded_and_gives_up_the_oldest(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spool = Spool(tmp_path / "x.sqlite3", most=3)
    for number in range(5):
        spool.put(entry(str(number)))
        spool.keep()
    assert texts(Spool(spool.path)) == ["2", "3", "4"]
    assert "gave up the oldest" in caplog.text
    assert spool.path is not None
    with closing(sqlite3.connect(spool.path)) as file, file:
        assert file.execute("select count(*) from turn").fetchone() == (3,)


def test_any_message_becomes_one_that_can_be_stored() -> None:
    message = Message(
        content="a\x00b\ud800",
        author="x\x00",
        tool_calls=[ToolCall(name="f\x00", arguments="{}")],
        metadata={"score": np.float32(0.5), "nan": float("nan"), "of": {1, 2}, "what": object},
    )
    stored = sanitise(message)
    assert stored.content == "ab?"
    assert stored.author == "x"
    assert stored.tool_calls[0].name == "f"
    assert stored.metadata["score"] == 0.5
    assert stored.metadata["nan"] is None
    assert sorted(stored.metadata["of"]) == [1, 2]
    assert stored.message_id == message.message_id
    assert stored.sent_at == message.sent_at


def test_a_file_that_is_taken_away_is_made_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "x.sqlite3")
    spool.put(entry("one"))
    spool.keep()
    for left in tmp_path.iterdir():
        left.unlink()
    spool.put(entry("two"))
    spool.keep()
    assert texts(Spool(spool.path)) == ["two"]


def test_a_closed_spool_opens_again_and_leaves_one_file(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "x.sqlite3")
    spool.put(entry("one"))
    spool.keep()
    spool.close()
    assert [path.name for path in tmp_path.iterdir()] == ["x.sqlite3"]
    spool.put(entry("two"))
    spool.keep()
    assert texts(Spool(spool.path)) == ["one", "two"]


FORKED = """
import os, sys
from pathlib import Path
from reme_core.types import Message
from reme_core.turn.outbox_file import Entry, Spool

spool = Spool(Path(sys.argv[1]))
for name in ("before", "parent's"):
    spool.put(Entry("alice", [Message(content=name)]))
    spool.keep()
    if name == "before" and os.fork() == 0:
        spool.put(Entry("alice", [Message(content="child's")]))
        spool.keep()
        sys.exit(0)
os.wait()
"""


def test_a_forked_child_opens_the_file_for_itself(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite3"
    command = [sys.executable, "-c", FORKED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(texts(Spool(path))) == ["before", "child's", "parent's"]


def test_calls_of_tools_wait_as_messages_do(tmp_path: Path) -> None:
    call = ToolCallResult(tool_name="clock", input={"city": "Lisbon"}, output="noon", success=True, time_cost=0.5)
    spool = Spool(tmp_path / "x.sqlite3")
    spool.put(Entry("alice", calls=[call]))
    spool.keep()
    [found] = Spool(spool.path).entries()
    assert (found.messages, found.calls) == ([], [call])
