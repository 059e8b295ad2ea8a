"""docs/architecture.md names every module that there is."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parents[2] / "docs" / "make_map.py"


def test_the_map_names_every_module() -> None:
    spec = importlib.util.spec_from_file_location("make_map", SCRIPT)
    assert spec is not None and spec.loader is not None
    make_map = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_map)
    assert make_map.PAGE.read_text(encoding="utf-8") == make_map.page(), "run `python docs/make_map.py`"


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
