"""Two walks through the code: a query from an adapter to SQL and back, and a message from an adapter to a memory.

    python -m benchmarks.walk            what is passed, from a trace, and JSON on the last line
    python -m benchmarks.walk --write    the same, into docs/architecture.md

A step is a call from one file of the project into another; a turn back is a step into a file that was passed before.
Both are walked warm: memory is open and has done the same before.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from types import FrameType
from typing import Any, Final

from autogen_core.model_context import UnboundedChatCompletionContext
from autogen_core.models import AssistantMessage, UserMessage
from reme_autogen import ReMeMemory

from benchmarks.common import fresh_reme, report
from reme_core import AsyncReMe

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "architecture.md"
FOLDERS: Final = (f"{ROOT / 'reme_core'}/", f"{ROOT / 'integrations' / 'autogen'}/")


class Walk:
    """The calls that lead from one file of the project into another, in order, in all threads."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []
        self._frames: set[FrameType] = set()  # a coroutine that goes on is called again, and is no new step

    @property
    def files(self) -> list[str]:
        """The files that are passed, in the order of their first call."""
        return list(dict.fromkeys(file for file, _ in self.steps))

    @property
    def turns_back(self) -> int:
        """How many steps lead into a file that was passed before."""
        return len(self.steps) - len(self.files)

    async def follow(self, work: Coroutine[Any, Any, Any]) -> None:
        """Note the steps of a coroutine, wherever it is carried out."""
        threading.setprofile_all_threads(self._note)  # type: ignore[attr-defined]  # of Python 3.12 and newer
        try:
            await work
        finally:
            threading.setprofile_all_threads(None)  # type: ignore[attr-defined]

    def _note(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call" or not _is_ours(frame) or frame in self._frames:
            return
        self._frames.add(frame)
        caller = frame.f_back
        while caller is not None and not _is_ours(caller):
            caller = caller.f_back
        if caller is None or caller.f_code.co_filename != frame.f_code.co_filename:
            self.steps.append((_short(frame.f_code.co_filename), frame.f_code.co_qualname))


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(FOLDERS) and not frame.f_code.co_name.startswith("<")


def _short(file: str) -> str:
    return next(file.removeprefix(folder) for folder in FOLDERS if file.startswith(folder))


async def walk_query() -> Walk:
    """From `ReMeMemory.query` to SQL and back."""
    walk = Walk()
    async with fresh_reme() as engine:
        memory = ReMeMemory(AsyncReMe(engine.settings), "alice")
        await memory.turn.reme.memories.add("alice", "Alice lives in Lisbon.")
        for _ in range(3):  # until all connections are open
            await memory.query("Where does Alice live?")
        await asyncio.sleep(1)  # until the log of these is written
        await walk.follow(memory.query("Where does Alice live?"))
        await memory.close()
        await memory.turn.reme.aclose()
    return walk


async def walk_message() -> Walk:
    """From a turn of a stock agent to a memory that was made of it."""
    walk = Walk()
    async with fresh_reme() as engine:
        reme = AsyncReMe(engine.settings)
        memory = ReMeMemory(reme, "alice", write="awaited")

        async def take_in(text: str) -> None:
            context = UnboundedChatCompletionContext()
            await context.add_message(UserMessage(content=text, source="user"))
            await context.add_message(AssistantMessage(content="I see.", source="assistant"))
            await memory.contexts.record(context)
            await reme.summarise("alice")

        await take_in("My sister Ines moved to Porto in March.")
        await walk.follow(take_in("I am vegetarian and I work as a nurse in Lisbon."))
        assert await reme.memories.list("alice"), "no memory was made: this is not the walk it says it is"
        await memory.close()
        await reme.aclose()
    return walk


def render(title: str, walk: Walk) -> str:
    """A walk as a list: each file once, with the functions that are called in it, in the order of the way."""
    functions: dict[str, dict[str, None]] = {}
    for file, function in walk.steps:
        functions.setdefault(file, {})[function.replace(".<locals>", "")] = None
    rows = [
        f"{place}. `{file}`: {', '.join(f'`{name}`' for name in names)}"
        for place, (file, names) in enumerate(functions.items(), 1)
    ]
    return f"**{title}**: {len(walk.files)} files, {walk.turns_back} turns back.\n\n" + "\n".join(rows)


def write(text: str) -> None:
    """Put the walks into the page, between its marks."""
    page = PAGE.read_text(encoding="utf-8")
    changed = re.sub(r"(?<=<!-- walks -->\n).*(?=<!-- /walks -->)", lambda _: text + "\n", page, flags=re.S)
    PAGE.write_text(changed, encoding="utf-8")


def main() -> None:
    """Walk both ways and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write them into docs/architecture.md")
    arguments = parser.parse_args()
    if sys.version_info < (3, 12):
        sys.exit("A trace of all threads takes Python 3.12 or newer.")
    walks = {"A query": asyncio.run(walk_query()), "A message": asyncio.run(walk_message())}
    text = "\n\n".join(render(title, walk) for title, walk in walks.items())
    print(text)
    if arguments.write:
        write(text)
    report(**{title: {"files": len(walk.files), "turns_back": walk.turns_back} for title, walk in walks.items()})


if __name__ == "__main__":
    main()
