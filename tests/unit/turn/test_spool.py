"""The spool keeps what it is given: over a crash, from several processes, and never without bounds."""

from __future__ import annotations

import json
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from reme_core.errors import SpoolError
from reme_core.spool.file import Entry
from reme_core.spool.waiting import Spool, sanitise
from reme_core.store.tool_calls import ToolCallResult
from reme_core.store.wordings import remover_of
from reme_core.types import Message, ToolCall


def entry(text: str, workspace: str = "alice") -> Entry:
    return Entry(workspace, [Message(content=text, message_id=f"id of {text}")])


def keep(spool: Spool, *said: str) -> Spool:
    """The spool, after each of these texts was put and kept."""
    for text in said:
        spool.put(entry(text))
        spool.keep()
    return spool


def texts(spool: Spool) -> list[str]:
    return [message.content for waiting in spool.entries() for message in waiting.messages]


def run_in_process(code: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run the code on the file at `path`, in a process of its own that has to end well."""
    command = [sys.executable, "-W", "ignore", "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_what_is_kept_is_found_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "spool" / "x.sqlite3"
    keep(Spool(path), "one").put(entry("never kept"))
    second = Spool(path)
    assert second.has_entries(), "a spool that has not looked yet cannot say that nothing waits"
    assert texts(second) == ["one"]
    [found] = second.entries()
    assert found.workspace == "alice"
    assert found.messages[0].message_id == "id of one"


def test_what_was_delivered_is_gone_for_everybody(tmp_path: Path) -> None:
    spool = keep(Spool(tmp_path / "x.sqlite3"), "one", "two")
    spool.remove([spool.entries()[0].entry_id])
    assert texts(spool) == ["two"]
    assert texts(Spool(spool.path)) == ["two"]
    spool.remove([waiting.entry_id for waiting in spool.entries()])
    assert not spool.has_entries()


def test_entries_come_in_the_order_in_which_they_were_put(tmp_path: Path) -> None:
    left = keep(Spool(tmp_path / "x.sqlite3"), "of an earlier process")
    spool = Spool(left.path)
    for number in range(3):
        spool.put(entry(str(number)))
    spool.keep()
    spool.put(entry("last"))
    assert texts(spool) == ["of an earlier process", "0", "1", "2", "last"]


def test_only_its_owner_reads_the_file(tmp_path: Path) -> None:
    spool = keep(Spool(tmp_path / "spool" / "x.sqlite3"), "a secret")
    assert spool.path is not None
    assert stat.S_IMODE(spool.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(spool.path.parent.stat().st_mode) == 0o700


def test_without_a_file_nothing_is_written(tmp_path: Path) -> None:
    assert texts(keep(Spool(), "one")) == ["one"]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_leaves_memory_and_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    spool = Spool(tmp_path / "file" / "x.sqlite3")
    spool.put(entry("one"))
    with pytest.raises(SpoolError, match="waits in memory only"):
        spool.keep()
    assert texts(spool) == ["one"]
    assert spool.at_risk == 1
    (tmp_path / "file").unlink()
    spool.keep()
    assert spool.at_risk == 0
    assert texts(Spool(spool.path)) == ["one"]


FULL = """
import resource, sys
from pathlib import Path
from reme_core.errors import SpoolError
from reme_core.types import Message
from reme_core.spool.waiting import Spool
from reme_core.spool.file import Entry

spool = Spool(Path(sys.argv[1]))
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
for number in range(15):
    room = 4096 if 5 <= number < 10 else unlimited[0]  # no file may grow beyond: the disk is full for a while
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, unlimited[1]))
    spool.put(Entry("alice", [Message(content=f"{number}: " + "word " * 2000)]))
    try:
        spool.keep()
    except SpoolError as error:
        print(number, spool.at_risk)
print("end", spool.at_risk)
"""


def test_a_folder_where_nobody_may_look_leaves_memory_and_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Root may look anywhere, but not at a name that no file system takes.
    spool = Spool(tmp_path / ("x" * 300) / "x.sqlite3")
    spool.put(entry("one"))
    with pytest.raises(SpoolError, match="waits in memory only"):
        spool.keep()
    assert texts(spool) == ["one"]
    assert texts(spool) == ["one"]
    assert caplog.text.count("cannot be read or written") == 1
    with pytest.raises(SpoolError, match=r"^nothing was erased: .*let this process write there$"):
        spool.erase("alice")


def test_a_disk_that_is_full_for_a_while_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite3"
    assert run_in_process(FULL, path).stdout.splitlines() == ["5 1", "6 2", "7 3", "8 4", "9 5", "end 0"]
    assert sorted(int(text.split(":")[0]) for text in texts(Spool(path))) == list(range(15))


def broken_files(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.iterdir() if ".broken-" in path.name and path.name[-4:] not in ("-wal", "-shm")
    )


@pytest.mark.parametrize("rubbish", [b"this is no database, but long enough to be taken for one" * 99, b"\0" * 9000])
def test_a_file_that_is_no_spool_is_set_aside_and_a_new_one_begins(tmp_path: Path, rubbish: bytes) -> None:
    path = tmp_path / "x.sqlite3"
    path.write_bytes(rubbish)
    assert keep(Spool(path), *"01234").at_risk == 0
    assert texts(Spool(path)) == ["0", "1", "2", "3", "4"]
    [aside] = broken_files(tmp_path)
    assert aside.read_bytes() == rubbish
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_database_of_another_program_is_set_aside_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite3"
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("create table turn (number integer)")
    keep(Spool(path), "one")
    assert texts(Spool(path)) == ["one"]
    with closing(sqlite3.connect(broken_files(tmp_path)[0])) as file:
        assert file.execute("select count(number) from turn").fetchone() == (0,)


@pytest.mark.parametrize("damage", ["cut", "overwritten"])
def test_what_can_be_read_of_a_damaged_file_is_taken_over(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "x.sqlite3"
    left = Spool(path)
    for number in range(60):
        left.put(Entry("alice", [Message(content=f"{number}: " + "word " * 400)]))
        left.keep()
    left.close()
    content = path.read_bytes()
    middle = len(content) // 2 // 4096 * 4096
    path.write_bytes(content[:middle] + (b"" if damage == "cut" else b"\xff" * 4096 + content[middle + 4096 :]))
    spool = Spool(path)
    spool.put(entry("new"))
    found = texts(spool)
    assert len(found) >= (20 if damage == "cut" else 50)
    assert found[0].startswith("0: ")
    assert found[-1] == "new"
    spool.keep()
    assert texts(Spool(path)) == found
    assert len(broken_files(tmp_path)) == 1
    spool.remove([spool.entries()[0].entry_id])
    assert texts(Spool(path)) == found[1:]
    spool.erase("alice")
    assert texts(Spool(path)) == []


def test_what_a_process_still_knows_of_a_file_that_breaks_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite3"
    spool = keep(Spool(path), *"012")
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink()
    path.write_bytes(b"garbage" * 1000)
    keep(spool, "3")
    assert sorted(texts(Spool(path))) == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    "bad",
    [("[{]", "[]"), ('[{"role": "nobody"}]', "[]"), (b"\xff\xfe", "[]"), (None, None), ("[]", "7"), ("[7]", "[]")],
)
def test_a_row_that_cannot_be_read_is_kept_apart(
    tmp_path: Path, bad: tuple[object, object], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "x.sqlite3"
    keep(Spool(path), *"012").close()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("insert into turn values ('bad', 'alice', ?, ?)", bad)
    spool = Spool(path)
    spool.put(entry("new"))
    assert texts(spool) == ["0", "1", "2", "new"]
    assert "cannot be read" in caplog.text
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("select entry_id, messages from unreadable").fetchall() == [("bad", bad[0])]
    spool.erase("alice")
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("select count(*) from unreadable").fetchone() == (0,)


def test_words_are_erased_from_rows_of_which_a_part_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite3"
    keep(Spool(path), "0").close()
    with closing(sqlite3.connect(path)) as file, file:
        bad = [("said", '["hunter2"]', None), ("called", None, '["hunter2"]'), ("other", '["she sings"]', None)]
        file.executemany("insert into turn values (?, 'alice', ?, ?)", bad)
    Spool(path).erase_words("alice", remover_of(["hunter2"]))
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("select entry_id from unreadable").fetchall() == [("other",)]
    assert b"hunter2" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_what_is_beyond_the_bounds_is_refused_and_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reme_core.spool.waiting.MOST_WAITING", 3)
    spool = keep(Spool(tmp_path / "x.sqlite3"), *"012")
    with pytest.raises(SpoolError, match="3 turns wait for the database already"):
        spool.put(entry("3"))
    assert texts(Spool(spool.path)) == ["0", "1", "2"]
    spool.remove([spool.entries()[0].entry_id])
    spool.put(entry("3"))
    assert texts(spool) == ["1", "2", "3"]
    refused = spool.entries()[0]
    spool.set_aside(refused, "it is too long")  # it waits no more
    spool.put(entry("4"))
    assert texts(spool) == ["2", "3", "4"]


def test_erasing_reaches_the_file_the_memory_and_other_processes(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite3"
    spool, other = Spool(path), Spool(path)
    spool.put(
        Entry("alice", [Message(content="a secret", message_id="1"), Message(content="the rest", message_id="2")])
    )
    spool.put(entry("another secret"))
    spool.put(entry("a secret of his own", "bob"))
    spool.keep()
    assert len(texts(other)) == 4
    assert [message.message_id for message in spool.erase("alice", ["1", "unknown"])] == ["1"]
    assert texts(spool) == texts(other) == ["the rest", "another secret", "a secret of his own"]
    assert [message.message_id for message in spool.erase("alice")] == ["2", "id of another secret"]
    assert texts(spool) == texts(other) == ["a secret of his own"]
    assert b"another secret" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize("said", ["The door code is hunter2hunter", 'Ann said "Ümit\'s door\\gate\nis open"'])
def test_words_are_erased_from_all_that_waits(tmp_path: Path, said: str) -> None:
    path = tmp_path / "x.sqlite3"
    spool = Spool(path)
    call = ToolCall(id="1", name="add_memory", arguments=json.dumps({"content": said, "n": 7}))
    message = Message(role="assistant", tool_calls=[call], reasoning_content=f"So: {said}", metadata={"raw": [said, 1]})
    calls = [
        ToolCallResult(tool_name="save", input={"text": {"content": said}}, output="ok"),
        ToolCallResult(tool_name="save", input={}, output=json.dumps({"stored": said})),
        ToolCallResult(tool_name="clock", input={}, output="noon"),
    ]
    spool.put(Entry("alice", [message, Message(content=said.upper()), Message(content="the rest")], calls))
    spool.put(Entry("bob", [Message(content=said)]))
    spool.keep()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(
            "insert into turn values ('bad', 'alice', ?, '[]')", [json.dumps([{"role": "x", "content": said}])]
        )
    assert len(spool.entries()) == 2
    spool.erase_words("alice", remover_of([said]))
    for found in (spool.entries(), Spool(path).entries()):
        (first, rest), (clock,) = found[0].messages, found[0].calls
        assert (first.message_id, first.reasoning_content, first.metadata) == (
            message.message_id,
            "So: ",
            {"raw": ["", 1]},
        )
        assert json.loads(first.tool_calls[0].arguments) == {"content": "", "n": 7}
        assert (rest.content, clock.output) == ("the rest", "noon")
        assert [m.content for m in found[1].messages] == [said]
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("select count(*) from unreadable").fetchone() == (0,)


def test_a_message_that_lost_words_is_marked_as_in_the_database() -> None:
    spool = Spool()
    spool.put(Entry("alice", [Message(content="So: Her dog is called Rex. I swim."), Message(content="The rest.")]))
    spool.erase_words("alice", remover_of(["Her dog is called Rex."]))
    told = [(message.content, message.metadata) for message in spool.entries()[0].messages]
    assert told == [("So:  I swim.", {"words_erased": True}), ("The rest.", {})]


def test_two_who_erase_at_once_bring_nothing_back(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite3"
    spool, other = Spool(path), Spool(path)
    spool.put(Entry("alice", [Message(content=text, message_id=text) for text in ("one", "two", "three")]))
    spool.keep()
    other.entries()
    begun = threading.Event()

    def cut(text: str) -> str:  # the other erases while this one works
        if not begun.is_set():
            begun.set()
            started.append(pool.submit(other.erase, "alice", ["two"]))
            time.sleep(0.3)
        return text.replace("one", "")

    started: list[Future[list[Message]]] = []
    with ThreadPoolExecutor() as pool:
        spool.erase_words("alice", cut)
        assert [message.message_id for message in started[0].result()] == ["two"]
    assert [m.content for m in Spool(path).entries()[0].messages] == ["three"]


def test_any_message_becomes_one_that_can_be_stored() -> None:
    message = Message(
        content="a\x00b\ud800",
        author="x\x00",
        tool_calls=[ToolCall(name="f\x00", arguments="{}")],
        metadata={"score": np.float32(0.5), "nan": float("nan"), "of": {1, 2}, "what": object},
    )
    stored = sanitise(message)
    assert stored.content == "a\ufffdb\ufffd"
    assert stored.author == "x\ufffd"
    assert stored.tool_calls[0].name == "f\ufffd"
    assert stored.metadata["score"] == 0.5
    assert stored.metadata["nan"] is None
    assert sorted(stored.metadata["of"]) == [1, 2]
    assert stored.message_id == message.message_id
    assert stored.sent_at == message.sent_at


def test_a_file_that_is_taken_away_is_made_again(tmp_path: Path) -> None:
    spool = keep(Spool(tmp_path / "x.sqlite3"), "one")
    for left in tmp_path.iterdir():
        left.unlink()
    keep(spool, "two")
    assert sorted(texts(Spool(spool.path))) == ["one", "two"]


def test_a_closed_spool_opens_again_and_leaves_one_file(tmp_path: Path) -> None:
    spool = keep(Spool(tmp_path / "x.sqlite3"), "one")
    spool.close()
    assert [path.name for path in tmp_path.iterdir()] == ["x.sqlite3"]
    keep(spool, "two")
    assert texts(Spool(spool.path)) == ["one", "two"]


FORKED = """
import os, sys
from pathlib import Path
from reme_core.types import Message
from reme_core.spool.waiting import Entry, Spool

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
    run_in_process(FORKED, path)
    assert sorted(texts(Spool(path))) == ["before", "child's", "parent's"]


FORKED_WHILE_WRITING = """
import os, sqlite3, sys, threading, time
from pathlib import Path
from reme_core.types import Message
from reme_core.spool.waiting import Entry, Spool

spool = Spool(Path(sys.argv[1]))
spool.put(Entry("alice", [Message(content="before")]))
spool.keep()
other = sqlite3.connect(sys.argv[1], isolation_level=None, check_same_thread=False)
other.execute("begin immediate")
spool.put(Entry("alice", [Message(content="parent's")]))
writing = threading.Thread(target=spool.keep)
writing.start()
while not spool._file.locked():
    time.sleep(0.01)
threading.Timer(0.5, other.execute, ["rollback"]).start()
child = os.fork()
if child == 0:
    spool.put(Entry("alice", [Message(content="child's")]))
    spool.keep()
    os._exit(0)
end = time.monotonic() + 20
while os.waitpid(child, os.WNOHANG)[0] == 0:
    if time.monotonic() > end:
        os.kill(child, 9)
        sys.exit("the child waits for ever")
    time.sleep(0.05)
"""


def test_a_child_that_was_forked_while_the_file_is_written_does_not_wait_for_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite3"
    assert not run_in_process(FORKED_WHILE_WRITING, path).stderr
    assert sorted(texts(Spool(path))) == ["before", "child's", "parent's"]


def test_calls_of_tools_wait_as_messages_do(tmp_path: Path) -> None:
    call = ToolCallResult(tool_name="clock", input={"city": "Lisbon"}, output="noon", success=True, time_cost=0.5)
    spool = Spool(tmp_path / "x.sqlite3")
    spool.put(Entry("alice", calls=[call]))
    spool.keep()
    [found] = Spool(spool.path).entries()
    assert (found.messages, found.calls) == ([], [call])
