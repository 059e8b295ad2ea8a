"""Write the map of all modules into docs/architecture.md: a line each, in the order of the layers of pyproject.toml.

    python docs/make_map.py

The line of a module is the first sentence of its docstring. A test holds the map against the tree.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- map -->\n", "<!-- /map -->\n"


def rooms() -> list[str]:
    """The modules and packages directly in reme_core, from the highest layer to the lowest."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [name.strip(" ()") for layer in layers for name in layer.replace(":", "|").split("|")]


def sentence(module: Path) -> str:
    """The first sentence of a module's docstring, on one line.

    Raises:
        ValueError: It has none.
    """
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
    if not text:
        raise ValueError(f"{module.relative_to(ROOT)} has no docstring to put on the map")
    paragraph = " ".join(text.split("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".:")


def lines() -> Iterator[str]:
    """The map, in Markdown."""
    for room in rooms():
        home = ROOT / "reme_core" / room
        if not home.is_dir():
            yield f"- `{room}.py`: {sentence(home.with_suffix('.py'))}"
            continue
        init = home / "__init__.py"
        says = f": {sentence(init)}" if ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) else ""
        yield f"- **`{room}/`**{says}"
        for module in sorted(home.rglob("*.py"), key=lambda path: (len(path.parts), path)):
            if module.name != "__init__.py":
                yield f"  - `{module.relative_to(home)}`: {sentence(module)}"


def page() -> str:
    """docs/architecture.md with the map as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n".join(lines()) + "\n" + END + after


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
