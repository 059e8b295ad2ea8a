"""What the README and the pages show works: each piece of Python, and each command."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe, Settings, cli
from reme_core.postgres.embedded.files import postgres_binary
from tests.loopback import Loopback

ROOT = Path(__file__).parents[2]


def blocks(language: str, page: str = "README.md") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.fixture
def configured(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DATABASE_URL", database_url)
    return database_url


def test_the_loop_remembers_in_its_second_run_what_was_said_in_the_first(
    configured: str, loopback: Loopback, tmp_path: Path
) -> None:
    (tmp_path / "loop.py").write_text(blocks("python")[0], encoding="utf-8")
    loopback.chat("Nice!", "In Lisbon.")
    keyed = {**os.environ, "OPENAI_API_KEY": "key", "OPENAI_BASE_URL": loopback.url}
    printed = [
        subprocess.run(
            [sys.executable, "loop.py"], cwd=tmp_path, env=keyed, input=said, text=True, check=True, timeout=60,
            capture_output=True,
        ).stdout
        for said in ("My dog Rex lives in Lisbon.\nHe is old.\n\n", "Where does my dog Rex live?\n\n")
    ]  # fmt: skip
    assert "Nice!" in printed[0] and "In Lisbon." in printed[1]
    first, second, last = [request["messages"] for request in loopback.bodies("/chat/completions")]
    assert [message["role"] for message in first] == ["user"]
    assert [message["role"] for message in second] == ["user", "assistant", "user"]
    assert second[1]["content"] == "Nice!" and second[2]["content"].endswith("He is old.")
    assert [message["role"] for message in last] == ["user"]
    note, _, question = last[0]["content"].rpartition("\n\n")
    assert question == "Where does my dog Rex live?" and "My dog Rex lives in Lisbon." in note


@pytest.mark.usefixtures("configured")
def test_each_other_piece_of_python_runs_and_prints_what_it_promises(capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks("python")[1:]:
        exec(compile(block, "README.md", "exec"), {"__name__": "__main__"})
    asyncio.set_event_loop(None)
    out = capsys.readouterr().out
    assert out.startswith("1 She drinks her tea green.") and "I ran my first marathon yesterday!" in out
    assert "update  he said so" in out


@pytest.mark.usefixtures("configured")
def test_the_quickstart_may_be_run_twice(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    def outcome() -> tuple[list[str], dict[str, set[str]]]:
        for block in blocks("python")[1:]:
            exec(compile(block, "README.md", "exec"), {"__name__": "__main__"})
        asyncio.set_event_loop(None)
        with ReMe(settings) as reme:
            known = {name: [m.content for m in reme.memories.list(name)] for name in reme.workspaces.list()}
        assert len(known["alice"]) == len(set(known["alice"])) and len(known["dora"]) == len(set(known["dora"]))
        printed = [re.sub(r"^2.*?\+00:00", "", line) for line in capsys.readouterr().out.splitlines()]
        return printed, {name: set(contents) for name, contents in known.items()}

    assert outcome() == outcome()


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize(
    ("page", "printed"),
    [
        ("docs/flows.md", "Refunds need a reason."),
        ("docs/coming-from-memoryscope.md", "allergic to peanuts"),
        ("docs/working-memory.md", "step 4321 took 53 ms"),
    ],
)
def test_each_piece_of_python_of_a_page_runs(page: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks("python", page):
        exec(compile(block, page, "exec"), {"__name__": "__main__"})
    asyncio.set_event_loop(None)
    assert printed in capsys.readouterr().out


def test_each_command_runs(configured: str, capfd: pytest.CaptureFixture[str]) -> None:
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert sum(command.startswith("reme ") for command in commands) >= 5
    for command in commands:
        program, *arguments = shlex.split(command.replace('"$(reme db url)"', shlex.quote(configured)))
        if program == "psql":
            subprocess.run([postgres_binary("psql"), *arguments], check=True, timeout=30)
        else:
            run(arguments)
    out = capfd.readouterr().out
    assert "Her brother lives in Porto." in out and "carol" in out and "meaning" in out


def run(arguments: list[str]) -> Any:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert not ended.value.code
