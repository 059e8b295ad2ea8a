"""How values look on the pages of the inspector: texts in the reader's language, times, numbers and differences."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from difflib import SequenceMatcher
from functools import cache
from importlib.resources import files
from itertools import takewhile
from typing import Any, Final
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup, escape

PREFIX: Final[ContextVar[str]] = ContextVar("reme_prefix", default="")
"""What stands before all paths of the service in the request that is answered: ASGI's `root_path`."""
_WORDS: Final = re.compile(r"[\u3400-\u9fff]|\w+|\s+|.", re.DOTALL)
_MOST_COMPARED: Final = 1_000
"""Words that are compared one by one: it takes up to 40 ms, in which the service does nothing else."""
_HIDDEN: Final = frozenset(("updated_at", "document_id", "workspace_id", "seen_count", "freq", "utility", "sources"))
"""Columns whose changes the pages do not show, since they change nothing that the memory says."""


@cache
def environment(language: str) -> jinja2.Environment:
    """The templates in a language. They escape all values, so that a memory never becomes markup."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip

    # By their names in the templates, which are mostly the English texts.
    texts = json.loads(files(__package__).joinpath(f"{language}.json").read_text(encoding="utf-8"))

    def translate(text: str, **values: Any) -> str:
        shown = texts.get(text, text)
        shown = shown.format(**values) if values else shown
        return _with_code(shown) if "`" in text else shown

    made.globals |= {"t": translate, "url": url, "changed_fields": changed_fields, "curve": curve_points}
    made.filters |= {"when": when, "day": day, "number": number, "share": share, "difference": difference}
    made.filters["pairs"] = lambda values: [(str(value), translate(str(value))) for value in values]
    return made


def _with_code(text: str) -> Markup:
    """A text as HTML, where words between backticks become code."""
    parts = enumerate(text.split("`"))
    return Markup("").join(Markup("<code>{}</code>").format(part) if n % 2 else escape(part) for n, part in parts)


def url(path: str, **values: Any) -> str:
    """The address of a page of the inspector, without empty values."""
    kept = {name: value for name, value in values.items() if value not in ("", None)}
    address = f"{PREFIX.get()}/inspector{path}"
    return f"{address}?{urlencode(kept)}" if kept else address


def _moment(value: str | datetime) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


def when(value: str | datetime | None) -> Markup:
    """A moment in UTC, to the minute."""
    if not value:
        return Markup("–")
    moment = _moment(value)
    return Markup('<time datetime="{}">{:%Y-%m-%d %H:%M}</time>').format(moment.isoformat(), moment)


def day(value: str | datetime | None) -> str:
    """The day of a moment in UTC."""
    return f"{_moment(value):%Y-%m-%d}" if value else ""


def number(value: float | None) -> str:
    """A number with commas between thousands, rounded if it is large or has a fraction."""
    if value is None:
        return "–"
    if value != int(value):
        return f"{value:,.2f}"
    return f"{value / 1e6:,.1f} M" if value >= 1e7 else f"{int(value):,}"


def share(value: float | None) -> str:
    """A chance or a share, in percent."""
    return "–" if value is None else f"{100 * value:.0f} %"


def difference(before: str, after: str) -> Markup:
    """The difference between two texts: removed words are struck out, new ones are marked.

    Of two long texts that differ in many places, all between the first and the last of these is shown as changed.
    """
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    begun = _count_alike(old, new)
    ended = _count_alike(old[begun:][::-1], new[begun:][::-1])
    left, right = old[begun : len(old) - ended], new[begun : len(new) - ended]
    parts = [escape("".join(old[:begun]))]
    changes: Sequence[tuple[str, int, int, int, int]] = [("replace", 0, len(left), 0, len(right))]
    if max(len(left), len(right)) <= _MOST_COMPARED:
        changes = SequenceMatcher(None, left, right).get_opcodes()
    for what, i, j, k, m in changes:
        gone, come = "".join(left[i:j]), "".join(right[k:m])
        if what == "equal":
            parts.append(escape(gone))
            continue
        parts += [Markup("<del>{}</del>").format(gone)] if gone else []
        parts += [Markup("<ins>{}</ins>").format(come)] if come else []
    return Markup("").join([*parts, escape("".join(old[len(old) - ended :]))])


def _count_alike(old: Sequence[str], new: Sequence[str]) -> int:
    """How many words at the beginning are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def changed_fields(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Iterator[tuple[str, str, str]]:
    """The fields that a change of a memory changed: `(name, before, after)`; of a new memory only what it says."""
    for name in after or before or {}:
        old, new = (_text((state or {}).get(name)) for state in (before, after))
        if old != new and name not in _HIDDEN and (before or name in ("content", "when_to_use", "kind", "subject")):
            yield name, old, new


def _text(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def curve_points(points: Sequence[Sequence[float]], column: int) -> Iterator[tuple[str, str]]:
    """The points of a curve for SVG, 300 wide and 100 high."""
    first, last = points[0][0], points[-1][0]
    wide = max(last - first, 1)
    for point in points:
        yield f"{300 * (point[0] - first) / wide:.1f}", f"{100 - 100 * min(max(point[column], 0), 1):.1f}"
