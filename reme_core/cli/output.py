"""What commands print: tables and bars in a terminal, plain text in a pipe, JSON with `--json`.

Answers go to stdout; progress, warnings and errors to stderr.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from reme_core.errors import ReMeError

if TYPE_CHECKING:
    from reme_core.types import Hit, Memory

PIPED_WIDTH = 160
"""The width of the output in columns, if it is not a terminal."""
_NARROW = 80
"""In a terminal with fewer columns, no column of a table takes the remaining width, and bars are left out."""

STATUS_STYLES = {"active": "green", "superseded": "yellow", "expired": "yellow", "deleted": "red"}
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters, without line feed and tab."""


class _SafeConsole(Console):
    """A console that leaves control characters out of all texts."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        # What is remembered may be anybody's words, and an escape sequence in it would command the terminal. Styles
        # and Rich's own commands are not in the text of a segment.
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=_CONTROL.sub("", segment.text))


def adapt_to_terminal() -> None:
    """Print `?` for characters that a terminal without UTF-8 cannot show, and find out the width of a dumb terminal."""
    if os.environ.get("TERM", "").lower() in ("dumb", "unknown") and sys.stdout and sys.stdout.isatty():
        # Rich takes such a terminal for one of 80 columns unless both are named.
        columns, lines = shutil.get_terminal_size()
        os.environ |= {"COLUMNS": str(columns), "LINES": str(lines)}
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def stdout() -> Console:
    """The console for answers."""
    # No markup: memories may contain `[bold]` and the like. Styles are given as `Text`.
    console = _SafeConsole(highlight=False, markup=False)
    return console if console.is_terminal else _SafeConsole(highlight=False, markup=False, width=PIPED_WIDTH)


def stderr() -> Console:
    """The console for everything else."""
    return _SafeConsole(stderr=True, highlight=False, markup=False)


def count_of(number: int, things: str) -> str:
    """A number of things, whose name is given in the plural.

    >>> count_of(1, "memories"), count_of(1_200, "messages")
    ('1 memory', '1,200 messages')
    """
    thing = f"{things[:-3]}y" if things.endswith("ies") else things[:-1]
    return f"{number:,} {thing if number == 1 else things}"


@contextmanager
def check_printing() -> Iterator[None]:
    """A block that prints an answer.

    Raises:
        ReMeError: The standard output is closed, or takes nothing more. What the command did is done.
    """
    if sys.stdout is None:
        raise ReMeError("the answer cannot be printed, since the standard output is closed; send it to a file")
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.errno == errno.EPIPE:  # who read it has seen enough; Typer ends the program
            raise
        discard_stdout()
        raise ReMeError(f"the answer cannot be printed: {error.strerror}") from None


def discard_stdout() -> None:
    """Discard what is still to be printed: on a full disk it would fail once more when the program ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_text(text: str) -> None:
    """Print a text as it is; in a terminal without control characters, which would command it."""
    with check_printing():
        sys.stdout.write(f"{_CONTROL.sub('', text) if stdout().is_terminal else text}\n")


def print_json(data: Any) -> None:
    """Print data as one JSON document; it may contain models, dataclasses and times."""
    from pydantic_core import to_jsonable_python

    plain = (sys.stdout.encoding or "utf-8").lower() not in ("utf-8", "utf8")
    text = _to_json(to_jsonable_python(data), ensure_ascii=plain, indent=2)
    sys.stdout.write(text.encode("utf-8", "replace").decode("utf-8") + "\n")


def _to_json(data: Any, **options: Any) -> str:
    """Data as JSON in which all control characters are escaped: JSON itself asks for that below U+0020 only."""
    text = json.dumps(data, **options)
    return re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text)


def print_error(message: str, *, code: str, as_json: bool) -> None:
    """Print an error to stderr."""
    if as_json:
        sys.stderr.write(_to_json({"error": {"code": code, "message": message}}, ensure_ascii=False) + "\n")
    else:
        stderr().print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)


def table(*columns: str, title: str = "", right: Sequence[str] = (), wide: str = "") -> Table:
    """An empty table; the columns in `right` are aligned right, and the column `wide` takes the remaining width."""
    wide = "" if _is_narrow() else wide  # what remained would be a character a line
    made = Table(
        box=box.SIMPLE_HEAD, title=title or None, title_justify="left", title_style="bold", padding=(0, 1, 0, 0)
    )
    for name in columns:
        justify: JustifyMethod = "right" if name in right else "left"
        made.add_column(name, justify=justify, ratio=1 if name == wide else None, overflow="fold")
    made.expand = bool(wide)
    return made


def _is_narrow() -> bool:
    return stdout().width < _NARROW


def bar(value: float, *, of: float = 1.0, width: int = 5) -> Text:
    """A value from 0 to `of` as a bar of `width` characters, followed by the number."""
    eighths = round(max(0.0, min(value / of, 1.0)) * width * 8) if of else 0
    blocks = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    return Text.assemble((blocks.ljust(width), "cyan"), (f"{' ' if width else ''}{value:.2f}", "" if value else "dim"))


def moment(value: datetime | None) -> str:
    """A point in time, to the minute, in UTC."""
    return value.strftime("%Y-%m-%d %H:%M") if value else ""


def day(value: datetime | None) -> str:
    """The day of a point in time, in UTC."""
    return value.strftime("%Y-%m-%d") if value else ""


def memory_text(memory: Memory) -> str:
    """The text of a memory: when to use it, if it says so, and its content."""
    return "\n".join(text for text in (memory.when_to_use, memory.content) if text)


def hits_table(found: Sequence[Hit], *, explain: bool) -> Table:
    """A table of hits, best first, with their scores and the chance of each; `explain` adds the parts of the scores."""
    talk = any(hit.memory.kind == "conversation" for hit in found)
    legs = {"meaning": "vector", "words": "lexical"}
    # A bonus explains nothing if it is 0 for all hits, and a factor if it is 1. For messages, time is a bonus.
    factors = () if talk else ("time", "type")
    nothing = {name: float(name in factors or name == "type") for name in ("session", "speaker", "time", "type")}
    legs |= {name: name for name, n in nothing.items() if any(getattr(hit.parts, name) != n for hit in found)}
    if len({hit.parts.role for hit in found}) > 1:  # mostly all of them are the user's words
        legs["role"] = "role"
    width = 0 if len(legs) > 2 or _is_narrow() else 5  # many parts leave no room for bars in 80 columns
    shown = legs if explain else {}
    made = table("#", "remembered", "when", *shown, "score", "fits", right=("#",), wide="remembered")
    top = max((hit.parts.final for hit in found), default=1.0)
    for hit in found:
        memory = hit.memory
        text = Text(memory_text(memory))
        again = f", said {hit.alike} times" if hit.alike > 1 else ""
        # What ends at midnight held until the day before.
        ends = memory.valid_until and memory.valid_until - timedelta(microseconds=1)
        again += f", until {day(ends)}" if ends else ""
        text.append(f"\n{'' if talk else memory.kind + ' '}{memory.memory_id}{again}", "dim")
        parts = [
            _factor(value) if leg in factors else bar(value, width=width)
            for leg, value in ((leg, getattr(hit.parts, leg)) for leg in shown.values())
        ]
        since = memory.observed_at or memory.valid_from or memory.created_at
        made.add_row(
            str(hit.rank), text, day(since), *parts, bar(hit.parts.final, of=top, width=width), f"{hit.relevance:.2f}"
        )
    return made


def _factor(value: float) -> Text:
    return Text(f"× {value:g}", "" if value != 1 else "dim")
