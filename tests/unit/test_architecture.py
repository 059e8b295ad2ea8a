"""Pages that tell of the code say what there is: docs/architecture.md, and the table of ReMe 0.1's names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.scripts import ROOT, load_script


@pytest.mark.parametrize("script", ["make_map", "make_names"])
def test_what_is_made_of_the_code_is_up_to_date(script: str) -> None:
    made = load_script(f"docs/{script}.py")
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), f"run `python docs/{script}.py`"


def functions_of(module: Path) -> set[str]:
    """The functions of a module by their qualified names, such as `Recall.__call__`."""

    def names(node: ast.AST, prefix: str) -> set[str]:
        found: set[str] = set()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found |= {prefix + child.name} | names(child, f"{prefix}{child.name}.")
            else:
                found |= names(child, prefix)
        return found

    return names(ast.parse(module.read_text(encoding="utf-8")), "")


def test_the_walks_name_what_there_is() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walks = re.search(r"<!-- walks -->\n(.*)<!-- /walks -->", page, re.S)
    assert walks is not None
    steps = re.findall(r"^\d+\. `([^`]+)`: (.+)$", walks[1], re.M)
    assert len(steps) > 30
    for file, functions in steps:
        module = next(
            (path for home in ("reme_core", "integrations/autogen") if (path := ROOT / home / file).exists()), None
        )
        assert module is not None, f"{file} is gone: run `python -m benchmarks.walk --write`"
        gone = set(re.findall(r"`([^`]+)`", functions)) - functions_of(module)
        assert not gone, f"{file} has no {gone}: run `python -m benchmarks.walk --write`"
