"""procrastinate's tables in our schema: a migration makes them, and `catch_up` brings them to the installed version."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import psycopg


def install(connection: psycopg.Connection[Any]) -> None:
    """Create the queue's tables, in the schema that the search path names first."""
    connection.execute(files("procrastinate.sql").joinpath("schema.sql").read_text(encoding="utf-8"))


def note_installed(connection: psycopg.Connection[Any]) -> None:
    """Note in `queue_migration` that the tables have all migrations of the installed procrastinate."""
    insert = "insert into reme.queue_migration (name) values (%s)"
    connection.cursor().executemany(insert, [(name,) for name in _shipped_migrations()])


def catch_up(connection: psycopg.Connection[Any]) -> None:
    """Apply those migrations of the installed procrastinate that the database does not have yet."""
    # Only their order matters: with each of them, both the old and the new code of procrastinate run.
    for name in _missing_migrations(connection):
        connection.execute(files("procrastinate.sql.migrations").joinpath(name).read_text(encoding="utf-8"))
        connection.execute("insert into reme.queue_migration (name) values (%s)", [name])


def is_current(connection: psycopg.Connection[Any]) -> bool:
    """Whether the database has all migrations of the installed procrastinate."""
    return not _missing_migrations(connection)


def _missing_migrations(connection: psycopg.Connection[Any]) -> list[str]:
    known = {row[0] for row in connection.execute("select name from reme.queue_migration")}
    return [name for name in _shipped_migrations() if name not in known]


def _shipped_migrations() -> list[str]:
    # Their names begin with their versions, and so sort in the order in which they apply.
    return sorted(f.name for f in files("procrastinate.sql.migrations").iterdir() if f.name.endswith(".sql"))
