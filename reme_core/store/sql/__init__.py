"""SQL that stands where it can be read: named statements in `.sql` files beside this module.

A statement begins with a line `-- name: some_name`; what follows, up to the next name, is its text.
"""

from __future__ import annotations

import re
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def load(file: str) -> dict[str, str]:
    """The statements of one file, by name.

    >>> "insert_memories" in load("memory.sql")
    True
    """
    text = files(__package__).joinpath(file).read_text(encoding="utf-8")
    pieces = _NAME.split(text)[1:]
    return {name: body.strip() for name, body in zip(pieces[::2], pieces[1::2], strict=True)}


NUMBERS = "select array(select nextval(%(sequence)s) from generate_series(1, %(count)s))"
"""The next numbers of a sequence, by a statement of their own: one server gives them, whichever holds the rows."""
