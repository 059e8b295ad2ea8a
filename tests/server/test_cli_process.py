"""`reme` as a process of its own: on poor terminals, interrupted, and without anything to connect to."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.text import Text

from reme_core.cli import output
from reme_core.types import Hit, Memory, Parts
from tests.scripts import REME

LATIN = {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0", "LC_ALL": "C", "COLUMNS": "60"}


def test_help_needs_neither_database_nor_models() -> None:
    code = (
        "import sys; from reme_core.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'pydantic', 'psycopg', 'numpy', 'openai', 'sqlalchemy', 'fastapi'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]" and "Exit codes:" in done.stdout


def test_a_terminal_that_knows_few_characters_shows_what_it_can(configured: str) -> None:
    def run(*arguments: str, given: bytes = b"") -> tuple[int, str]:
        program = [REME, *arguments]
        done = subprocess.run(
            program, env=os.environ | LATIN, input=given, capture_output=True, timeout=60, check=False
        )
        return done.returncode, done.stdout.decode("latin-1") + done.stderr.decode("latin-1")

    assert run("--help")[0] == 0
    assert run("add", "-", "-w", "alice", given="Sie trinkt grünen Tee, 绿茶".encode())[0] == 0
    code, shown = run("recall", "grünen Tee", "-w", "alice", "--explain")
    assert code == 0 and "grünen Tee, ??" in " ".join(shown.split())
    code, shown = run("recall", "绿茶", "-w", "alice", "--json")
    assert code == 0 and json.loads(shown)["hits"][0]["memory"]["content"] == "Sie trinkt grünen Tee, 绿茶"
    assert run("show", "绿茶", "-w", "alice") == (3, "error: workspace 'alice' has no memory '??'\n")
    code, shown = run("add", "-", "-w", "alice", given=b"\xff\xfe")
    assert code == 2 and "is not UTF-8" in shown


def test_a_worker_logs_at_what_time_which_job_failed_and_why(configured: str, tmp_path: Path) -> None:
    model = {"FLOW_LLM_MODEL_NAME": "talker", "FLOW_LLM_BASE_URL": "http://127.0.0.1:1/v1"}
    program = [REME]
    settings = ["--set", "llm.default.max_retries=0", "--set", "worker.after_seconds=0"]
    environment = os.environ | model
    said = b'[{"role": "user", "content": "I live in Lisbon."}]'
    subprocess.run([*program, "record", "-w", "w", "-", *settings], env=environment, input=said, timeout=60, check=True)
    with subprocess.Popen(
        [*program, "worker", *settings], env=environment, stderr=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stderr is not None
        line = next(line for line in worker.stderr if "failed" in line)
        worker.send_signal(signal.SIGTERM)
    assert line.startswith("20") and " WARNING " in line
    assert " of 9): talker at http://127.0.0.1:1/v1 could not be reached" in line


def test_a_narrow_terminal_has_room_for_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal
    monkeypatch.setenv("COLUMNS", "60")
    hit = Hit(rank=1, memory=Memory(content="She drinks green tea in the morning."), parts=Parts(time=1, final=1))
    with (console := output.stdout()).capture() as shown:
        console.print(output.hits_table([hit], explain=True))
    lines = shown.get().splitlines()
    assert "green tea" in shown.get() and len(lines) < 15
    assert max(map(cell_len, map(str, map(Text.from_ansi, lines)))) <= 60


@pytest.mark.parametrize(
    ("number", "things", "told"),
    [(1, "memories", "1 memory"), (0, "messages", "0 messages"), (1, "messages", "1 message")],
)
def test_one_thing_is_told_as_one(number: int, things: str, told: str) -> None:
    assert output.count_of(number, things) == told


def test_a_dumb_terminal_is_as_wide_as_it_says(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 60))
    known = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "FORCE_COLOR")}
    program = [REME, "recall", "--help"]
    running = subprocess.Popen(
        program, env=known | {"TERM": "dumb"}, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # what a terminal gives whose last program has ended
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    assert running.wait(timeout=60) == 0 and b"Find what is remembered" in shown
    assert max(map(cell_len, shown.decode().splitlines())) <= 60


def test_ctrl_c_leaves_no_traceback_whenever_it_comes(configured: str) -> None:
    code = (
        "import os, signal\nfrom reme_core.cli.interrupts import end_at_once\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job in the background ignores it
        "with end_at_once():\n    {}\nprint('on')"
    )
    interrupt = "os.kill(os.getpid(), signal.SIGINT)"
    inside = subprocess.run([sys.executable, "-c", code.format(interrupt)], capture_output=True, text=True, check=False)
    assert (inside.returncode, inside.stdout, inside.stderr) == (-signal.SIGINT, "", "")
    after = subprocess.run(
        [sys.executable, "-c", f"{code.format('pass')}\n{interrupt}"], capture_output=True, text=True, check=False
    )
    assert after.stdout == "on\n" and "KeyboardInterrupt" in after.stderr, "afterwards it is as it was"
    for seconds in (0.2, 0.4, 0.6, 0.9):
        running = subprocess.Popen(
            [REME, "recall", "tea", "-w", "alice"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        time.sleep(seconds)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=30)
        assert "Traceback" not in errors
        assert running.returncode in (0, 130, -signal.SIGINT)


def test_what_cannot_be_printed_or_read_is_told_in_a_sentence(configured: str) -> None:
    def run(command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["sh", "-c", command], env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    full = (1, "error: the answer cannot be printed: No space left on device\n")
    assert run("reme add tea -w alice >/dev/full") == full
    for command in ("--help", "--version", "recall --help", "jobs"):
        assert run(f"reme {command} >/dev/full") == full
    code, told = run("reme list -w alice --json >/dev/full")
    assert (code, json.loads(told)["error"]["message"]) == (1, full[1].removeprefix("error: ").strip())
    closed = "error: the answer cannot be printed, since the standard output is closed; send it to a file\n"
    assert run("reme list -w alice >&-") == (1, closed)
    assert run("TERM=dumb reme list -w alice >&-") == (1, closed)
    assert run("reme list -w alice --json >&-")[0] == 1
    unread = (2, "error: the standard input is closed; give the text by a pipe or from a file\n")
    assert run("reme add - -w alice <&-") == unread
    code, told = run("reme add - -w alice 0>/dev/null")
    assert code == 2 and told.startswith("error: the standard input cannot be read: ")
    code, told = run("cat /dev/null | reme load /dev/stdin -w alice")
    assert code == 2 and told.startswith("error: cannot read /dev/stdin: it is no file")
    assert run("reme list -w alice | head -c 0")[1] == ""
