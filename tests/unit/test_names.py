"""How code is named and cut: functions are named for what they do or return; nothing is too long to read at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
IRREGULAR = {
    "begun", "bound", "bought", "broken", "brought", "built", "caught", "chosen", "cut", "done", "drawn", "driven",
    "fallen", "felt", "fought", "found", "frozen", "given", "gone", "grown", "heard", "held", "hidden", "kept", "known",
    "laid", "led", "left", "lent", "lost", "made", "meant", "met", "paid", "said", "seen", "sent", "shown", "sold",
    "sought", "spent", "spoken", "stood", "taken", "taught", "thought", "told", "torn", "understood", "won", "worn",
    "written",
}  # fmt: skip
NOUNS = {"ping", "string"}
VERBS = {"embed", "exceed", "feed", "heed", "need", "proceed", "seed", "speed", "succeed"}
WEAK = {"after", "again", "as", "at", "before", "beside", "by", "for", "from", "in", "of", "on", "out", "to", "with"}
"""Words that make no noun of a participle: `told_to` is as bare as `told`."""
EXCEPTIONS = {"reembed", "blocking"}  # a verb: embed anew; a decorator: `recall = blocking(Engine.recall)`


LONGEST_FUNCTION, LONGEST_MODULE = 60, 400  # lines

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> Iterator[tuple[str, str]]:
    """The modules of the packages: their paths and texts."""
    for home in ("reme_core", "integrations"):
        for path in sorted((ROOT / home).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def functions_in(text: str) -> Iterator[Function]:
    yield from (node for node in ast.walk(ast.parse(text)) if isinstance(node, Function))


def length(function: Function) -> int:
    """The lines of a function, without its decorators."""
    return (function.end_lineno or 0) - function.lineno + 1


def is_participle(name: str) -> bool:
    first, *others = name.strip("_").split("_")
    past = (first.endswith("ed") and first not in VERBS) or first in IRREGULAR
    present = first.endswith("ing") and first not in NOUNS
    return (past or present) and set(others) <= WEAK and name not in EXCEPTIONS


def test_no_function_is_named_by_a_bare_participle() -> None:
    found = [f"{path}:{one.lineno}: {one.name}" for path, text in modules() for one in functions_in(text)
             if is_participle(one.name)]  # fmt: skip
    assert found == []


def test_every_function_fits_a_screen_and_no_module_is_long() -> None:
    long = [path for path, text in modules() if text.count("\n") > LONGEST_MODULE]
    long += [f"{path}:{one.lineno}: {one.name}" for path, text in modules() for one in functions_in(text)
             if length(one) > LONGEST_FUNCTION]  # fmt: skip
    assert long == []


def test_the_check_knows_a_participle() -> None:
    assert all(map(is_participle, ("_told", "given", "_added", "decided_after", "asking")))
    assert not any(map(is_participle, ("add", "embed", "recorded_messages", "note", "__init__")))
