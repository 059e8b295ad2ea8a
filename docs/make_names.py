"""Write into docs/coming-from-reme-0.1.md what became of ReMe 0.1's names: a row for each in settings/reme01.yaml.

    python docs/make_names.py

A test holds the page against the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reme_core.settings import reme01
from reme_core.settings.reme01 import Successor

PAGE = Path(__file__).parents[1] / "docs" / "coming-from-reme-0.1.md"
BEGIN, END = "<!-- names -->\n", "<!-- /names -->\n"


def rows() -> Iterator[str]:
    """The table, in Markdown."""
    yield "| ReMe 0.1 | here |"
    yield "|---|---|"
    for path, successor in reme01.settings().items():
        yield f"| `{'.'.join(path)}` | {_meaning(successor)} |"
    for name, successor in reme01.ops().items():
        if successor.name != name:
            yield f"| `{name}_op` | {_meaning(successor)} |"
        for parameter, its in successor.parameters.items():
            yield f"| `op.{name}_op.params.{parameter}` | {_meaning(its)} |"


def page() -> str:
    """The page with the table as it should be."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    return before + BEGIN + "\n".join(rows()) + "\n" + END + after


def _meaning(successor: Successor) -> str:
    if successor.instead:
        return f"no effect: {successor.instead}"
    if successor.refused:
        return f"an error: {successor.refused}"
    given = ", ".join(f'{name}="{value}"' for name, value in successor.given.items())
    return f"`{successor.name}({given})`" if given else f"`{successor.name}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
