"""Migrations of the schema: plain SQL files, forward and back, which Alembic applies under a lock.

Each version is a file in `migrations/versions` that names two files in `migrations/sql`. Versions are numbered in steps
of one, without branches, from `0027`. Development versions had lower numbers; their databases cannot be upgraded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors as pg

from reme_core.errors import SchemaError
from reme_core.postgres import queue_schema
from reme_core.postgres.connect import Connection, connect
from reme_core.postgres.errors import mask_password, translating_errors

ROLE = "reme_service"
"""The role under which services work, which sees one workspace at a time."""

_LOCK = 0x72656D65  # "reme": the key of the advisory lock under which migrations run
_OLDEST_POSTGRES = 15
_OLDEST_PGVECTOR = (0, 8)


@cache
def migrations_dir() -> Path:
    """The folder of the migrations: in the package if that is installed from a wheel, beside it in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "migrations"
    return installed if installed.is_dir() else package.parent / "migrations"


@cache
def versions() -> tuple[str, ...]:
    """All versions that this release knows, in order."""
    return tuple(sorted(path.stem.partition("_")[0] for path in migrations_dir().glob("versions/[0-9]*.py")))


def status(url: str) -> tuple[str | None, str]:
    """The version of the database's schema (None: it has none), and the newest that this release knows."""
    with translating_errors(url), connect(url, autocommit=True) as connection:
        return current_version(connection), versions()[-1]


def current_version(connection: Connection) -> str | None:
    """The version of the database's schema, or None if it has no schema of ours."""
    found = connection.execute("select to_regclass('reme.alembic_version')").fetchone()
    if found is None or found[0] is None:
        return None
    row = connection.execute("select version_num from reme.alembic_version").fetchone()
    return str(row[0]) if row else None


def unknown_version_advice(version: str) -> str:
    """What to do about a database at a `version` that this release does not know."""
    oldest, *_, newest = versions()
    if version < oldest:
        return (
            f"made by a development version of reme-core that cannot be upgraded (the oldest that can is {oldest}):"
            " make the database anew (drop it and create it, or remove the folder `postgres` in REME_HOME); what is to"
            " be kept, write out before with `reme dump` of that version and take in again with `reme load`"
        )
    return (
        f"made by a newer release of reme-core than this one, which knows up to {newest}; run `pip install --upgrade"
        " reme-core`"
    )


def require_current(connection: Connection, url: str) -> None:
    """Raise a `SchemaError` if Postgres or pgvector is too old, or the schema is not at the newest version."""
    require_postgres(connection, url)
    current = current_version(connection)
    _require_known(current, url)
    if current != versions()[-1]:
        at = f"is at version {current}" if current else "has no schema of reme-core"
        raise SchemaError(
            f"the database {mask_password(url)} {at}, and {versions()[-1]} is needed; run `reme db upgrade`"
        )
    require_pgvector(connection, url)


def upgrade(url: str, revision: str = "head") -> None:
    """Upgrade the database to `revision` (`head`: the newest version); several processes may do this at once.

    Where nothing is to do, the login role need not own the schema: a service may begin with this.

    Raises:
        SchemaError: pgvector is missing or too old, the role may not create it or the schema, or the schema has a
            version that this release does not know.
    """
    with _migration_lock(url) as (connection, raw):
        _require_known(current_version(raw), url)
        create_pgvector(raw, url)
        if revision == "head" and _is_done_by_owner(raw):
            return
        raw.execute("create schema if not exists reme")
        _run_alembic("upgrade", connection, revision)
        if revision == "head":
            queue_schema.catch_up(raw)
        grant_to_service(raw)
        raw.commit()


def _is_done_by_owner(connection: Connection) -> bool:
    """Whether the schema is at its newest version, and belongs to a role as which the login role may not act."""
    if current_version(connection) != versions()[-1] or not queue_schema.is_current(connection):
        return False
    row = connection.execute(
        "select pg_has_role(nspowner, 'usage') from pg_namespace where nspname = 'reme'"
    ).fetchone()
    return row == (False,)


def grant_to_service(connection: Connection) -> None:
    """Make the service's role, unless it exists, and let it use everything in our schema."""
    connection.execute("reset search_path")  # else Citus passes grants on with names that its nodes do not find
    connection.execute(_sql("roles.sql"))


def downgrade(url: str, revision: str) -> None:
    """Take the database back to `revision` (`base`: before the first one); data that it has no place for is lost.

    Raises:
        SchemaError: The schema has a version that this release does not know, or the role may not change it.
    """
    with _migration_lock(url) as (connection, raw):
        _require_known(current_version(raw), url)
        _run_alembic("downgrade", connection, revision)


def search_path(connection: Connection) -> str:
    """The schemas in which statements look for tables and types: ours, `public`, and that of pgvector."""
    row = connection.execute(
        "select quote_ident(nspname) from pg_extension join pg_namespace on pg_namespace.oid = extnamespace"
        " where extname = 'vector'"
    ).fetchone()
    return ", ".join(dict.fromkeys(("reme", "public", *(row or ()))))


def allow_triggers(connection: Connection) -> None:
    """Let this session make and drop our triggers on tables that Citus distributes; elsewhere it changes nothing."""
    # Citus calls triggers unsafe since they may touch rows of other nodes. Ours touch rows of one workspace.
    connection.execute("select set_config('citus.enable_unsafe_triggers', 'on', false)")


# What ends at a semicolon outside of a function's body, a text and a comment.
_STATEMENT = re.compile(r"(?:\$\$.*?\$\$|'(?:[^']|'')*'|--[^\n]*|[^;])+", re.DOTALL)


def sql_steps(name: str) -> tuple[Callable[[], None], Callable[[], None]]:
    """The `upgrade` and the `downgrade` of a migration that consists of its two files of `migrations/sql`."""

    def upgrade() -> None:
        run_sql(f"{name}.up.sql")

    def downgrade() -> None:
        run_sql(f"{name}.down.sql")

    return upgrade, downgrade


def run_sql(name: str) -> None:
    """Run a file of `migrations/sql` in the running migration, statement by statement."""
    # Citus passes a change of a table on to its nodes with all of the text in which it came.
    for statement in filter(str.strip, _STATEMENT.findall(_sql(name))):
        migrating_connection().execute(statement)


def _sql(name: str) -> str:
    return (migrations_dir() / "sql" / name).read_text(encoding="utf-8")


def migrating_connection() -> Any:
    """The connection of the running migration, as psycopg has it."""
    from alembic import op  # noqa: PLC0415 - only while migrating: importing Alembic takes a third of a second

    return op.get_bind().connection.driver_connection


@contextmanager
def _migration_lock(url: str) -> Iterator[tuple[Any, Connection]]:
    """SQLAlchemy's connection and the driver's below it, with the lock that lets one migration run at a time."""
    from sqlalchemy import NullPool, create_engine  # noqa: PLC0415 - as above
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415

    engine = create_engine("postgresql+psycopg://", creator=lambda: _connect(url), poolclass=NullPool)
    with translating_errors(url), _explaining_failures(url):
        try:
            with engine.connect() as connection:
                raw: Any = connection.connection.driver_connection
                # A lock of the session, which ends with the connection: migrations commit several times meanwhile.
                raw.execute("select pg_advisory_lock(%s)", [_LOCK])
                raw.commit()
                yield connection, raw
                connection.commit()
        except DBAPIError as error:
            raise error.orig or error from None  # the driver's error, which SQLAlchemy has wrapped


def _connect(url: str) -> Connection:
    connection = connect(url, application_name="reme-core migrate")
    try:
        require_postgres(connection, url)  # now: SQLAlchemy fails on a database without UTF-8, and does not say why
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _explaining_failures(url: str) -> Iterator[None]:
    try:
        yield
    except pg.InsufficientPrivilege as error:
        raise SchemaError(
            f"the login role of {mask_password(url)} may not change the schema ({error.diag.message_primary}); run"
            " `reme db upgrade` once as the owner of the database"
        ) from error
    except (psycopg.ProgrammingError, psycopg.IntegrityError, psycopg.DataError) as error:
        raise SchemaError(
            f"a migration of {mask_password(url)} failed ({error.diag.message_primary or error}), and its changes were"
            " undone; put right what it complains about and run `reme db upgrade` again"
        ) from error


def _run_alembic(command_name: str, connection: Any, revision: str) -> None:
    """Run Alembic's `upgrade` or `downgrade` in a session that sees all workspaces and finds our tables by name."""
    from alembic import command  # noqa: PLC0415 - as above
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    raw: Connection = connection.connection.driver_connection
    values = [search_path(raw)]
    raw.execute("select set_config('reme.workspace', '*', false), set_config('search_path', %s, false)", values)
    allow_triggers(raw)
    # Else Citus changes no function in a transaction that has changed rows of several shards at once.
    raw.execute("select set_config('citus.multi_shard_modify_mode', 'sequential', false)")
    config = Config(attributes={"connection": connection})
    # Alembic's configuration takes a single % for a placeholder.
    config.set_main_option("script_location", str(migrations_dir()).replace("%", "%%"))
    try:
        getattr(command, command_name)(config, revision)
    except CommandError as error:
        raise SchemaError(
            f"cannot {command_name} to '{revision}': {error}; known are base, {', '.join(versions())}"
        ) from error


def _require_known(current: str | None, url: str) -> None:
    if current is not None and current not in versions():
        raise SchemaError(
            f"the database {mask_password(url)} is at version {current}, {unknown_version_advice(current)}"
        )


def require_postgres(connection: Connection, url: str) -> None:
    """Raise a `SchemaError` unless the server is new enough, and its database can store every text."""
    major = connection.info.server_version // 10_000
    if major < _OLDEST_POSTGRES:
        raise SchemaError(f"{mask_password(url)} runs Postgres {major}; {_OLDEST_POSTGRES} or newer is needed")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise SchemaError(
            f"the database {mask_password(url)} has the encoding {encoding}, which cannot hold every text; make one by"
            " CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8'"
        )


def require_pgvector(connection: Connection, url: str) -> str | None:
    """The version of pgvector in the database; None if it can be installed in it, else a `SchemaError`."""
    row = connection.execute("select extversion from pg_extension where extname = 'vector'").fetchone()
    installed = row[0] if row else None
    if installed and _is_new_enough(installed):
        return str(installed)
    # Not asked before, since Postgres reads a file of each extension that it has for this.
    row = connection.execute("select default_version from pg_available_extensions where name = 'vector'").fetchone()
    available = row[0] if row else None
    where, needed = mask_password(url), f"{'.'.join(map(str, _OLDEST_PGVECTOR))} or newer"
    update = "run `ALTER EXTENSION vector UPDATE` in the database"
    has_new = available and _is_new_enough(available)
    if has_new and not installed:
        return None
    if has_new:
        old = f"the database {where} uses pgvector {installed}, and {needed} is needed"
        problem = f"{old}; the server has {available}: {update}"
    elif installed:
        problem = f"the server of {where} has pgvector {installed}; install {needed} there, then {update}"
    elif available:
        problem = f"the server of {where} has pgvector {available}; install {needed} there"
    else:
        package = f"postgresql-{connection.info.server_version // 10_000}-pgvector"
        advice = f"install it there (for example the package {package}, version {needed})"
        problem = f"the server of {where} has no pgvector; {advice}"
    raise SchemaError(problem)


def _is_new_enough(version: str) -> bool:
    return tuple(int(part) for part in version.split(".")[:2]) >= _OLDEST_PGVECTOR


def create_pgvector(connection: Connection, url: str) -> None:
    """Create the extension in the database, unless it is there. Raise a `SchemaError` that says why it cannot be."""
    require_pgvector(connection, url)
    try:
        connection.execute("create extension if not exists vector")
    except pg.InsufficientPrivilege as error:
        raise SchemaError(
            f"the login role of {mask_password(url)} may not create the extension pgvector; have a superuser run"
            " `CREATE EXTENSION vector` in the database once"
        ) from error
