"""`reme` as a process of its own: on poor terminals, interrupted, and without anything to connect to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

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
        program = [str(Path(sys.executable).parent / "reme"), *arguments]
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


def test_ctrl_c_leaves_no_traceback_whenever_it_comes(configured: str) -> None:
    code = (
        "import os, signal\nfrom reme_core.cli.interrupts import end_at_once\nwith end_at_once():\n    {}\nprint('on')"
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
            [str(Path(sys.executable).parent / "reme"), "recall", "tea", "-w", "alice"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        time.sleep(seconds)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=30)
        assert "Traceback" not in errors
        assert running.returncode in (0, 130, -signal.SIGINT)
