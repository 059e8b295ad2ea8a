"""Runs the blocks of a page as a reader would: in their order, on one database, and nothing added to them."""

from __future__ import annotations

import argparse
import asyncio
import gc
import io
import json
import os
import re
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import psycopg
import pytest
from packaging.requirements import Requirement

from reme_core import Settings, cli
from reme_core.settings.sources import _OLD_NAMES
from tests.pages.blocks import ROOT, Block
from tests.ports import free_port
from tests.scripts import REME
from tests.second_environment import CHECKOUT

_PROGRAMS = ("reme", "pip", "make", "python", ".ci/run")
_IN_TURN = """
import json, sys
for name, text in json.load(sys.stdin):
    exec(compile(text, name, "exec"), {"__name__": "__main__"})
"""


class Runner:
    """The folder in which a page's blocks run, the services that they start, and the session of their SQL.

    `python_for` tells for a block which Python has its frameworks, if not this one.
    """

    def __init__(self, folder: Path, url: str, python_for: Callable[[Block], str | None]) -> None:
        self.folder, self.python_for = folder, python_for
        self.ports = {name: str(free_port()) for name in ("8002", "8003")}
        self.environ = {
            "REME_HTTP__PORT": self.ports["8002"],
            "REME_MCP__PORT": self.ports["8003"],
            "COLUMNS": "120",
        }
        self._session = psycopg.connect(url, autocommit=True)
        self._services: list[subprocess.Popen[bytes]] = []
        self._readers: list[subprocess.Popen[bytes]] = []

    def __call__(self, page: list[Block]) -> None:
        """Run these blocks."""
        try:
            for language, group in groupby(page, key=lambda block: (block.language, self.python_for(block))):
                getattr(self, f"_run_{language[0]}")(list(group))
        finally:
            self._session.close()
            ended = [process.wait(timeout=60) for process in self._readers]
            for process in self._services:
                process.terminate()
            stopped = [process.wait(timeout=40) for process in self._services]
        assert not any(ended), f"what read stdin ended with {ended}"
        interrupted = 128 + signal.SIGINT  # a service that was stopped before it served
        assert set(stopped) <= {0, -signal.SIGTERM, interrupted}, f"services ended with {stopped}"

    # --- languages --------------------------------------------------------------------------------------------------

    def _run_python(self, group: list[Block]) -> None:
        if python := self.python_for(group[0]):
            texts = json.dumps([(str(block), block.text) for block in group])
            command = [python, "-W", "ignore", "-c", _IN_TURN]
            subprocess.run(command, input=texts, text=True, check=True, timeout=240, env={**os.environ, **CHECKOUT})
            return
        for block in group:
            exec(compile("\n" * block.line + block.text, block.page, "exec"), {"__name__": "__main__"})
            asyncio.set_event_loop(None)
            gc.collect()  # what was left open complains in here

    def _run_sh(self, group: list[Block]) -> None:
        for block in group:
            commands = list(split(block.text))
            if all(is_simple(command) for command in commands):
                for command in commands:
                    self._carry_out(shlex.split(command, comments=True))
            else:
                self._bash(block.text)

    def _run_sql(self, group: list[Block]) -> None:
        for block in group:
            cursor = self._session.execute(block.text.encode())
            while cursor.nextset():
                pass
            if cursor.description is not None:
                rows = cursor.fetchall()
                assert rows, f"{block} has no answer"
                print(rows)

    def _run_yaml(self, group: list[Block]) -> None:
        for block in group:
            (self.folder / "mine.yaml").write_text(block.text, encoding="utf-8")
            if not Settings.load(config=self.folder / "mine.yaml", environ={}).ops:  # a page does not write their files
                self._carry_out(["reme", "flows", "--config", "mine.yaml"])  # which builds them all

    def _run_json(self, group: list[Block]) -> None:
        for block in group:
            told = json.loads(block.text)
            for server in told.get("mcpServers", {}).values():
                self._carry_out([server["command"], *server["args"], "--help"])

    def _run_env(self, group: list[Block]) -> None:
        for block in group:
            named = dict(line.split("=", 1) for line in block.text.splitlines() if line and not line.startswith("#"))
            assert all(name in _OLD_NAMES or name.startswith("REME_") for name in named), f"{block}: {named}"
            Settings.load(environ=named)

    def _run_text(self, group: list[Block]) -> None:
        pass

    # --- commands ---------------------------------------------------------------------------------------------------

    def _bash(self, script: str) -> None:
        from reme_core.postgres.embedded.files import postgres_binary

        for port, ours in self.ports.items():
            script = script.replace(f":{port}", f":{ours}")
        path = f"{Path(sys.executable).parent}:{postgres_binary('psql').parent}:{os.environ['PATH']}"
        script = f"set -euo pipefail\n{script}"
        subprocess.run(
            ["bash", "-c", script], check=True, timeout=120, cwd=self.folder, stdin=subprocess.DEVNULL,
            env={**os.environ, **self.environ, "PATH": path},
        )  # fmt: skip

    def _carry_out(self, command: list[str]) -> None:
        program, *arguments = command
        if program == "reme" and goes_on(arguments):
            self._start(arguments)
        elif program == "reme":
            arguments += ["--help"] * (arguments[0] == "eval")  # its options are read, and its hour is spared
            with pytest.raises(SystemExit) as ended:
                cli.main(arguments)
            assert not ended.value.code, f"{shlex.join(command)} ended with {ended.value.code}"
        elif program == "pip":
            check_installation(arguments)
        elif program == "make":
            subprocess.run(["make", "--dry-run", *arguments], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        elif program == "python":
            check_options(arguments)
        else:
            assert os.access(ROOT / program, os.X_OK)

    def _start(self, arguments: list[str]) -> None:
        """Start what goes on: a service until the page ends; what reads stdin, until it finds the end of that."""
        process = subprocess.Popen(
            [REME, *(re.sub(r"port=\d+", f"port={self.ports['8002']}", argument) for argument in arguments)],
            cwd=self.folder, env={**os.environ, **self.environ}, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        is_reader = arguments[0] == "chat" or arguments == ["mcp"]
        (self._readers if is_reader else self._services).append(process)
        if is_reader or arguments[0] == "worker":
            return
        until = time.monotonic() + 60
        while not listens(self.ports["8003" if arguments[0] == "mcp" else "8002"]):
            assert process.poll() is None and time.monotonic() < until, f"reme {shlex.join(arguments)} does not serve"
            time.sleep(0.05)


def split(text: str) -> Iterator[str]:
    """The commands of a script, each whole: with the lines that it goes on in, and without comments."""
    command = ""
    for line in text.splitlines():
        command += line.removesuffix("\\") + "\n" * (not line.endswith("\\"))
        try:
            words = shlex.split(command, comments=True)
        except ValueError:  # a quote that goes on in the next line
            continue
        if line.endswith("\\"):
            continue
        if words:
            yield command
        command = ""
    assert not command, f"this does not end: {command}"


def is_simple(command: str) -> bool:
    """Whether no shell is needed: one program of ours, without pipes, variables and the like."""
    unquoted = re.sub(r"'[^']*'|(?<=\s)#.*", "", command)
    return shlex.split(command, comments=True)[0] in _PROGRAMS and not re.search(r"[|&;<>$`]", unquoted)


def goes_on(arguments: list[str]) -> bool:
    """Whether `reme` with these arguments serves until it is stopped; one of ReMe 0.1's command lines does as well."""
    return "--help" not in arguments and (arguments[0] in ("serve", "worker", "mcp", "chat") or "=" in arguments[0])


def check_installation(arguments: list[str]) -> None:
    """Packages are not fetched; but the extras that are named have to be there."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert arguments.pop(0) == "install"
    for named in arguments:
        if named != ".":
            requirement = Requirement(named)
            assert requirement.name != "reme-core" or requirement.extras <= set(extras), named


def check_options(arguments: list[str]) -> None:
    """Benchmarks and examples take long; but they have to be there, and to take these options."""

    class Understood(Exception):
        pass

    def parse(parser: argparse.ArgumentParser, *_: object) -> None:
        read(parser, words)
        raise Understood

    read = argparse.ArgumentParser.parse_args
    is_module = arguments[0] == "-m"
    words = arguments[1 + is_module :]
    with pytest.MonkeyPatch.context() as patched, pytest.raises(Understood):
        patched.setattr(argparse.ArgumentParser, "parse_args", parse)
        if is_module:
            patched.delitem(sys.modules, arguments[1], raising=False)  # another test may have imported it
            runpy.run_module(arguments[1], run_name="__main__")
        else:
            runpy.run_path(str(ROOT / arguments[0]), run_name="__main__")


def listens(port: str) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", int(port))) == 0


def typed(*lines: str) -> io.StringIO:
    """A terminal into which this is typed."""
    return io.StringIO("".join(f"{line}\n" for line in lines))
