"""procrastinate's tables, inside our schema: installed by a migration, and kept up with the package that is there."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import psycopg


def install() -> None:
    """Create the queue's tables, as part of the running Alembic migration."""
    from alembic import op  # noqa: PLC0415 - only while migrating: importing Alembic takes a third of a second

    raw: Any = op.get_bind().connection.driver_connection
    raw.execute(files("procrastinate.sql").joinpath("schema.sql").read_text(encoding="utf-8"))
    raw.cursor().executemany("insert into reme.queue_migration (name) values (%s)", [(n,) for n in _shipped()])


def catch_up(connection: psycopg.Connection[Any]) -> list[str]:
    """Apply what a newer procrastinate ships than the database has seen; returns the names.

    Its migrations are written so that old and new code both run meanwhile, so their order is all that matters.
    """
    known = {row[0] for row in connection.execute("select name from reme.queue_migration")}
    due = [name for name in _shipped() if name not in known]
    for name in due:
        connection.execute(files("procrastinate.sql.migrations").joinpath(name).read_text(encoding="utf-8"))
        connection.execute("insert into reme.queue_migration (name) values (%s)", [name])
    return due


def _shipped() -> list[str]:
    return sorted(f.name for f in files("procrastinate.sql.migrations").iterdir() if f.name.endswith(".sql"))
