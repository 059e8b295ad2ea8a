"""The blocks of code on the project's pages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md", "integrations/*/README.md")
    for path in ROOT.glob(pattern)
)
LANGUAGES = {"python", "sh", "sql", "yaml", "json", "env", "text"}
"""`env` sets variables; `text` is nothing that runs: output, a formula, a grammar."""
_FENCE = re.compile(
    r"(?:^\*Not run by the tests: (?P<reason>.+)\*\n\n)?"
    r"^```(?P<language>\w*)(?: (?P<mark>\w+))?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block. `reason`: why it is not run, as the page says above it; `mark`: a word behind its language."""

    page: str
    line: int
    language: str
    mark: str
    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in order."""
    whole = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(
            page,
            whole.count("\n", 0, found.start("text")),
            found["language"],
            found["mark"] or "",
            found["text"],
            found["reason"] or "",
        )
        for found in _FENCE.finditer(whole)
    ]


def unfenced(page: str) -> list[str]:
    """Lines that Markdown shows as code, and that no fence surrounds."""
    whole = _FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    return re.findall(r"(?<=\n\n)    .+", whole) + re.findall(r"^```.*", whole, re.MULTILINE)
