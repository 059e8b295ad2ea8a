"""Schema migrations: plain SQL files, forward and back, applied by Alembic under a lock.

Each version is a file in `migrations/versions` that names two in `migrations/sql`. They are found in a checkout and in
the installed wheel alike. Versions are numbered `0001`, `0002`, … without branches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors as pg

from reme_core.errors import SchemaError
from reme_core.store import queue_schema
from reme_core.store.connect import Connection, connect
from reme_core.store.translate import masked, translated

_LOCK = 0x72656D65  # "reme": the key of the advisory lock under which migrations run
_OLDEST_POSTGRES = 15
_OLDEST_PGVECTOR = (0, 8)


@cache
def migrations_dir() -> Path:
    """Where the migrations stand: inside the package when installed from a wheel, beside it in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "migrations"
    return installed if installed.is_dir() else package.parent / "migrations"


@cache
def versions() -> tuple[str, ...]:
    """All versions that this release knows, the oldest first."""
    return tuple(sorted(path.stem.partition("_")[0] for path in migrations_dir().glob("versions/[0-9]*.py")))


def status(url: str) -> tuple[str | None, str]:
    """The version that the database is at (None: none of ours yet), and the newest that this release knows.

    Raises:
        DatabaseUnavailableError: There is no connection; the message says why.
    """
    with translated(url), connect(url, autocommit=True) as connection:
        return current_version(connection), versions()[-1]


def current_version(connection: Connection) -> str | None:
    """The version that the database is at, or None."""
    found = connection.execute("select to_regclass('reme.alembic_version')").fetchone()
    if found is None or found[0] is None:
        return None
    row = connection.execute("select version_num from reme.alembic_version").fetchone()
    return str(row[0]) if row else None


def require_current(connection: Connection, url: str) -> None:
    """Check that the database is fit for this release.

    Raises:
        SchemaError: Postgres or pgvector is too old or missing, or the schema is older or newer than ours.
    """
    _require_postgres(connection, url)
    current = current_version(connection)
    _require_known(current, url)
    if current != versions()[-1]:
        at = f"is at version {current}" if current else "has no schema of reme-core"
        raise SchemaError(f"the database {masked(url)} {at}, and {versions()[-1]} is needed; run `reme db upgrade`")
    _require_pgvector(connection, url)


def upgrade(url: str, revision: str = "head") -> None:
    """Bring the database to `revision` (`head`: the newest). Does nothing when it is there; safe to run concurrently.

    Raises:
        DatabaseUnavailableError: There is no connection.
        SchemaError: No pgvector, too old a one, no right to create it or the schema, or a schema newer than ours.
    """
    with _locked(url) as (connection, raw):
        _require_postgres(raw, url)
        _require_known(current_version(raw), url)
        _create_pgvector(raw, url)
        raw.execute("create schema if not exists reme")
        raw.execute(
            "comment on schema reme is 'Long-term memory of AI agents, by ReMe core. Start at \\d+ reme.memory_current'"
        )
        _alembic("upgrade", connection, revision)
        if revision == "head":
            raw.execute("select set_config('search_path', %s, false)", [search_path(raw)])
            queue_schema.catch_up(raw)
            raw.commit()


def downgrade(url: str, revision: str) -> None:
    """Take the database back to `revision` (`base`: nothing of ours but the empty schema). What it held is lost.

    Raises:
        DatabaseUnavailableError: There is no connection.
        SchemaError: The schema is newer than this release, or the role may not change it.
    """
    with _locked(url) as (connection, raw):
        _require_known(current_version(raw), url)
        _alembic("downgrade", connection, revision)


def search_path(connection: Connection) -> str:
    """Where statements look for tables and types: our schema, `public`, and wherever pgvector was put."""
    row = connection.execute(
        "select quote_ident(nspname) from pg_extension join pg_namespace on pg_namespace.oid = extnamespace"
        " where extname = 'vector'"
    ).fetchone()
    return ", ".join(dict.fromkeys(("reme", "public", *(row or ()))))


def run_sql(name: str) -> None:
    """Run a file of `migrations/sql` inside the running migration; it may hold many statements, of all workspaces."""
    from alembic import op  # noqa: PLC0415 - only while migrating: importing Alembic takes a third of a second

    raw: Any = op.get_bind().connection.driver_connection
    values = [search_path(raw)]
    raw.execute("select set_config('reme.workspace', '*', true), set_config('search_path', %s, true)", values)
    raw.execute((migrations_dir() / "sql" / name).read_text(encoding="utf-8"))


@contextmanager
def _locked(url: str) -> Iterator[tuple[Any, Connection]]:
    """A SQLAlchemy connection, and the driver's below it, holding the lock that lets one migration run at a time."""
    from sqlalchemy import NullPool, create_engine  # noqa: PLC0415 - as above
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415

    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: connect(url, application_name="reme-core migrate"),
        poolclass=NullPool,
    )
    with translated(url), _failing_clearly(url):
        try:
            with engine.connect() as connection:
                raw: Any = connection.connection.driver_connection
                raw.execute("select pg_advisory_lock(%s)", [_LOCK])  # the session's: it ends with the connection
                raw.commit()
                yield connection, raw
                connection.commit()
        except DBAPIError as error:
            raise error.orig or error from None


@contextmanager
def _failing_clearly(url: str) -> Iterator[None]:
    try:
        yield
    except pg.InsufficientPrivilege as error:
        raise SchemaError(
            f"the login role of {masked(url)} may not change the schema ({error.diag.message_primary}); run"
            " `reme db upgrade` once as the owner of the database"
        ) from error
    except (psycopg.ProgrammingError, psycopg.IntegrityError, psycopg.DataError) as error:
        raise SchemaError(
            f"a migration of {masked(url)} failed ({error.diag.message_primary or error}), and its changes were undone;"
            " put right what it complains about and run `reme db upgrade` again"
        ) from error


def _alembic(direction: str, connection: Any, revision: str) -> None:
    from alembic import command  # noqa: PLC0415 - as above
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(migrations_dir()).replace("%", "%%"))
    try:
        getattr(command, direction)(config, revision)
    except CommandError as error:
        raise SchemaError(
            f"cannot {direction} to '{revision}': {error}; known are base, {', '.join(versions())}"
        ) from error


def _require_known(current: str | None, url: str) -> None:
    if current is not None and current not in versions():
        raise SchemaError(
            f"the database {masked(url)} is at version {current}, made by a newer release of reme-core than this one,"
            f" which knows up to {versions()[-1]}; run `pip install --upgrade reme-core`"
        )


def _require_postgres(connection: Connection, url: str) -> None:
    major = connection.info.server_version // 10_000
    if major < _OLDEST_POSTGRES:
        raise SchemaError(f"{masked(url)} runs Postgres {major}; {_OLDEST_POSTGRES} or newer is needed")


def _pgvector(connection: Connection) -> tuple[str | None, str | None]:
    """The pgvector version that is in the database, and the one that the server could put in."""
    row = connection.execute(
        "select (select extversion from pg_extension where extname = 'vector'),"
        " (select default_version from pg_available_extensions where name = 'vector')"
    ).fetchone()
    return row if row else (None, None)


def _too_old(version: str) -> bool:
    return tuple(int(part) for part in version.split(".")[:2]) < _OLDEST_PGVECTOR


def _require_pgvector(connection: Connection, url: str) -> None:
    installed, available = _pgvector(connection)
    needed = ".".join(map(str, _OLDEST_PGVECTOR))
    if installed is None and available is None:
        major = connection.info.server_version // 10_000
        raise SchemaError(
            f"the server of {masked(url)} has no pgvector; install it there (for example the package"
            f" postgresql-{major}-pgvector, version {needed} or newer)"
        )
    if installed is not None and _too_old(installed):
        if available is not None and not _too_old(available):
            raise SchemaError(
                f"the database {masked(url)} uses pgvector {installed}, and {needed} or newer is needed; the server has"
                f" {available}: run `ALTER EXTENSION vector UPDATE` in the database"
            )
        raise SchemaError(
            f"the server of {masked(url)} has pgvector {installed}; install {needed} or newer there, then run"
            " `ALTER EXTENSION vector UPDATE` in the database"
        )
    if installed is None and available is not None and _too_old(available):
        raise SchemaError(f"the server of {masked(url)} has pgvector {available}; install {needed} or newer there")


def _create_pgvector(connection: Connection, url: str) -> None:
    _require_pgvector(connection, url)
    try:
        connection.execute("create extension if not exists vector")
    except pg.InsufficientPrivilege as error:
        raise SchemaError(
            f"the login role of {masked(url)} may not create the extension pgvector; have a superuser run"
            " `CREATE EXTENSION vector` in the database once"
        ) from error
