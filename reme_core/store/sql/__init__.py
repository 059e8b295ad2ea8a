"""SQL that stands where it can be read: named statements in `.sql` files beside this module.

A statement begins with a line `-- name: some_name`; what follows, up to the next name, is its text.
"""

from __future__ import annotations

import re
from importlib.resources import files
from string import Template

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def load(file: str, **marks: str) -> dict[str, str]:
    """The statements of one file, by name, with these texts in the places of the `${marks}` that they are named by.

    >>> "insert_memories" in load("memory.sql")
    True
    """
    text = Template(files(__package__).joinpath(file).read_text(encoding="utf-8")).safe_substitute(marks)
    pieces = _NAME.split(text)[1:]
    return {name: body.strip() for name, body in zip(pieces[::2], pieces[1::2], strict=True)}


ENSURE_WORKSPACE = "insert into reme.workspace (workspace_id) values (%(workspace)s) on conflict do nothing"
"""Makes a workspace, unless it exists: writing to it is what creates it."""

LOCK_LOG = "select pg_advisory_xact_lock(hashtextextended('reme.log ' || %(workspace)s, 0))"
"""Lets those who write the log of a workspace wait, so that no entry comes in between what is erased and its commit."""

WITHOUT_HISTORY = "call reme.set_local('reme.erasing', 'on')"
"""Lets the trigger on memories write no history until the end of the transaction."""

NUMBERS = "select array(select nextval(%(sequence)s) from generate_series(1, %(count)s))"
"""The next numbers of a sequence, by a statement of their own: one server gives them, and others may hold the rows."""
