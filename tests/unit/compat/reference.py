"""The training helper itself, run from the text it was handed down in, which lies outside of the project.

That text is a table without indentation: a block's beginning shows by its colon, its end does not. The ends are told
here, by line, so they hold for one very text.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from types import ModuleType

import pytest

_FOLDER = Path(os.environ.get("REME_REFERENCE", "../shared/reference"))  # read now: tests run without such variables
_FILE = "seeds/004_df369bee8afa5dc1.txt"
_DIGEST = "59a44ba8fe97fb62301d61cee6f2cda02dce440bc488251ac454318363026352"
# Line of the text: how deep it stands, where it stands less deep than the line before it would have it.
_ENDS = {
    69: 1, 78: 1, 111: 1, 124: 1, 127: 1, 130: 1, 133: 1, 139: 1, 169: 1, 190: 1, 198: 1, 204: 1, 228: 1, 234: 1,
    239: 1, 256: 1, 268: 1, 273: 1, 275: 1, 293: 1, 295: 1, 297: 1, 299: 1, 314: 1, 321: 2, 355: 1, 358: 1,
}  # fmt: skip


def helper() -> ModuleType:
    """The helper as a module; skips the test where its text is not at hand."""
    path = _FOLDER / _FILE
    if not path.exists():
        pytest.skip(f"the helper's text is not at {path}; name its folder in REME_REFERENCE")
    text = path.read_text(encoding="utf-8")
    if hashlib.sha256(text.encode()).hexdigest() != _DIGEST:
        pytest.skip(f"{path} is another text than the one whose indentation is known here")
    module = ModuleType("helper")
    exec(compile(_indented(text), str(path), "exec"), module.__dict__)
    return module


def _indented(text: str) -> str:
    rows = [line for line in text.splitlines() if line.startswith("|")]
    lines = [
        row.removeprefix("|").removeprefix(" ").removesuffix("|").rstrip().removesuffix("|").rstrip() for row in rows
    ]
    depth = brackets = 0
    quoted = False
    written = []
    for number, line in enumerate(lines):
        begins = not (quoted or brackets)
        if begins:
            if re.match(r"(def |from |import |[A-Z_]+ =|logger =|#)", line) and not line.startswith("# "):
                depth = 0
            depth = _ENDS.get(number, depth)
        written.append("    " * depth + line if begins else line)
        if line.count('"""') % 2:
            quoted = not quoted
            continue
        if quoted:
            continue
        code = re.sub(r'f?"(?:[^"\\]|\\.)*"', '""', line).split("#")[0].rstrip()
        brackets += sum(map(code.count, "([{")) - sum(map(code.count, ")]}"))
        if not brackets and code.endswith(":"):
            depth += 1
    return "\n".join(written)
