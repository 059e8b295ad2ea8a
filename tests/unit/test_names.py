"""A function is named for what it does, a verb, or for what it returns, a noun; never by a bare participle."""

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


def participles() -> Iterator[str]:
    """The functions that are named by a bare participle, each with its place."""
    for home in ("reme_core", "integrations"):
        for path in sorted((ROOT / home).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_participle(node.name):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"


def is_participle(name: str) -> bool:
    first, *others = name.strip("_").split("_")
    past = (first.endswith("ed") and first not in VERBS) or first in IRREGULAR
    present = first.endswith("ing") and first not in NOUNS
    return (past or present) and set(others) <= WEAK and name not in EXCEPTIONS


def test_no_function_is_named_by_a_bare_participle() -> None:
    assert list(participles()) == []


def test_the_check_knows_a_participle() -> None:
    assert all(map(is_participle, ("_told", "given", "_added", "decided_after", "asking")))
    assert not any(map(is_participle, ("add", "embed", "recorded_messages", "note", "__init__")))
