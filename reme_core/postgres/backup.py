"""Backup and restore of a whole database: every workspace, from one snapshot, in one file that checks itself.

The file is a zip: `manifest.json`, and the rows of each table as `COPY` writes them in text. So it needs no program of
Postgres, and can be restored into any supported version of it. The schema is not in the file: migrations make it, with
the roles that it needs.
"""

from __future__ import annotations

import json
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

from psycopg import DataError, IntegrityError, sql

from reme_core.errors import ConflictError, LibraryError, NotFoundError
from reme_core.postgres import distribute, migrate
from reme_core.postgres.connect import Connection, connect
from reme_core.postgres.errors import mask_password, translating_errors
from reme_core.text.whole_files import replacement_of

_MANIFEST: Final = "manifest.json"
# What reading a damaged file ends with: a lost entry, a wrong checksum, bytes that are no compressed data or end early,
# and marks of a method or a password that no backup has.
_DAMAGES: Final = (KeyError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
_CHUNK: Final = 2**20  # bytes read at once
_SETTINGS: Final = {
    "reme.workspace": "*",  # row-level security, which holds for the owner too, then lets all rows through
    "reme.erasing": "on",  # the history is copied, and restoring adds nothing to it
    "statement_timeout": "0",
    # The text of a row depends on these.
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
}
# Each table, the tables that it refers to, and its columns that can be copied. The two that are left out tell how the
# database that has them was made; the restored one is made anew.
_TABLES: Final = """
select c.relname,
       array(select distinct f.relname from pg_constraint k join pg_class f on f.oid = k.confrelid
             where k.conrelid = c.oid and k.contype = 'f' and f.oid <> c.oid),
       array(select a.attname from pg_attribute a
             where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' order by a.attnum)
from pg_class c
where c.relnamespace = 'reme'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
  and c.relname not in ('alembic_version', 'queue_migration')
order by c.relname
"""
_SEQUENCES: Final = (
    "select sequencename, last_value from pg_sequences where schemaname = 'reme' and last_value is not null"
)
# Indexes that no migration makes, since they are made when workspaces have grown.
_INDEXES: Final = (
    "select indexname, indexdef from pg_indexes where schemaname = 'reme' and indexdef like '%USING hnsw%'"
)


@dataclass(frozen=True, slots=True)
class BackupReport:
    """The content of a backup, in numbers."""

    version: str
    workspaces: int
    rows: dict[str, int]
    """By table."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description that a backup has of its content."""

    version: str
    """The version of the schema."""
    made_at: str
    columns: dict[str, list[str]]
    """By table."""
    sums: dict[str, dict[str, list[str]]]
    """By table and workspace (an empty name for rows of none): the number of rows, and a checksum over them."""
    sequences: dict[str, int]
    indexes: dict[str, str]

    @property
    def report(self) -> BackupReport:
        """The numbers for people."""
        rows = {table: sum(int(count) for count, _ in parts.values()) for table, parts in self.sums.items()}
        return BackupReport(self.version, rows.get("workspace", 0), rows)


def backup(url: str, path: Path) -> BackupReport:
    """Write all workspaces to a file that only its owner can read. If something fails, there is no file.

    Raises:
        NotFoundError: The database has no workspace, or no schema of ours.
        InputError: The file cannot be written.
    """
    # All tables are read from one snapshot, while others write.
    with _session(url, "isolation level repeatable read, read only") as connection:
        version = migrate.current_version(connection)
        if version is None:
            raise NotFoundError(f"the database {mask_password(url)} has no schema of reme-core: nothing to back up")
        columns = {table: names for table, _, names in connection.execute(_TABLES)}
        manifest = Manifest(
            version,
            datetime.now(UTC).isoformat(),
            columns,
            _sums(connection, columns),
            dict(connection.execute(_SEQUENCES).fetchall()),
            dict(connection.execute(_INDEXES).fetchall()),
        )
        if not manifest.report.workspaces:
            raise NotFoundError(f"the database {mask_password(url)} holds no workspace: nothing to back up")
        with (
            replacement_of(path, mode=0o600) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        ):
            archive.writestr(_MANIFEST, json.dumps(asdict(manifest), indent=1))
            for table, names in columns.items():
                _write_rows(connection, archive, table, names)
    return manifest.report


def restore(url: str, path: Path) -> BackupReport:
    """Fill a database without workspaces and API keys from a file: all of it, checked by its sums, or nothing.

    The schema is made at the file's version, or brought to it, and then upgraded to this release's version.

    Raises:
        LibraryError: The file is no backup, is damaged or empty, or its rows do not fit its sums.
        ConflictError: The database has workspaces or API keys already.
        SchemaError: The file is of a newer release, or the login role may not make the schema.
    """
    with _read_archive(path) as archive:
        manifest = _manifest(archive, path)
        _prepare(url, manifest.version)
        with _session(url) as connection:
            _fill(connection, archive, manifest, path, url)
        migrate.upgrade(url)
        distribute.continue_numbering(url)
        with _session(url) as connection:
            connection.execute("analyze")
    return manifest.report


def _prepare(url: str, version: str) -> None:
    """Bring an empty database to the version of the file."""
    current = migrate.status(url)[0]
    if current is not None:
        with _session(url) as connection:
            _refuse_filled(connection, url)
        if current > version:
            migrate.downgrade(url, version)
    newest = migrate.versions()[-1]
    migrate.upgrade(url, "head" if version == newest else version)


def _refuse_filled(connection: Connection, url: str) -> None:
    # Without its keys, a service that runs on this database would be open to everybody.
    there = {table for table, _, _ in connection.execute(_TABLES)}  # an older version has no keys
    for table, name in (("workspace", "workspaces"), ("api_key", "API keys")):
        if table not in there:
            continue
        count = sql.SQL("select count(*) from {}").format(sql.Identifier("reme", table))
        ((found,),) = connection.execute(count).fetchall()
        if found:
            held = f"the database {mask_password(url)} holds {name} already ({found:,})"
            raise ConflictError(f"{held}; restore into an empty one")


def _fill(connection: Connection, archive: zipfile.ZipFile, manifest: Manifest, path: Path, url: str) -> None:
    found = connection.execute(_TABLES).fetchall()
    if missing := set(manifest.columns) - {table for table, _, _ in found}:
        problem = f"{path} has tables that version {manifest.version} does not know: {', '.join(missing)}"
        raise LibraryError(problem, path=str(path))
    # Tables that others refer to come first.
    order = list(TopologicalSorter({table: set(refers) for table, refers, _ in found}).static_order())
    migrate.allow_triggers(connection)
    for table in order:
        # Postgres allows no `COPY FROM` under row-level security. If the restore fails, this is rolled back with it.
        connection.execute(_alter("no force row level security", table))
        connection.execute(_alter("disable trigger user", table))
    # Others may have written since `_prepare` looked. From here on they wait, for the locks that `alter` has taken.
    _refuse_filled(connection, url)
    names = sql.SQL(", ").join(sql.Identifier("reme", table) for table in order)
    connection.execute(sql.SQL("truncate {}").format(names))
    for table in order:
        if table in manifest.columns:
            _read_rows(connection, archive, table, manifest.columns[table], path)
    for name, value in manifest.sequences.items():
        connection.execute("select setval(format('reme.%%I', %s::text)::regclass, %s)", [name, value])
    for table in order:
        connection.execute(_alter("enable trigger user", table))
        connection.execute(_alter("force row level security", table))
    for name, definition in manifest.indexes.items():
        if not connection.execute("select to_regclass(format('reme.%%I', %s::text))", [name]).fetchall()[0][0]:
            connection.execute(definition.encode())
    sums = _sums(connection, manifest.columns)
    if wrong := sorted(table for table in manifest.sums if sums[table] != manifest.sums[table]):
        raise LibraryError(
            f"{path} holds other rows than it says, in {', '.join(wrong)}; nothing was restored", path=str(path)
        )


def _alter(what: str, table: str) -> sql.Composed:
    return sql.SQL("alter table {} " + what).format(sql.Identifier("reme", table))


def _sums(connection: Connection, columns: Mapping[str, Sequence[str]]) -> dict[str, dict[str, list[str]]]:
    sums: dict[str, dict[str, list[str]]] = {}
    for table, names in columns.items():
        # A sum of hashes is the same in any order of the rows. 60 bits of each fit a bigint without its sign.
        statement = sql.SQL(
            "select coalesce({key}, ''), count(*)::text,"
            " sum(('x' || left(md5(row({names})::text), 15))::bit(60)::bigint)::text from {table} group by 1"
        ).format(
            key=sql.Identifier("workspace_id") if "workspace_id" in names else sql.SQL("null::text"),
            names=_names(names),
            table=sql.Identifier("reme", table),
        )
        sums[table] = {workspace: [count, total] for workspace, count, total in connection.execute(statement)}
    return sums


def _names(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _write_rows(connection: Connection, archive: zipfile.ZipFile, table: str, names: Sequence[str]) -> None:
    statement = sql.SQL("copy (select {} from {}) to stdout").format(_names(names), sql.Identifier("reme", table))
    with (
        archive.open(f"{table}.copy", "w", force_zip64=True) as file,
        connection.cursor() as cursor,
        cursor.copy(statement) as rows,
    ):
        file.writelines(rows)


def _read_rows(connection: Connection, archive: zipfile.ZipFile, table: str, names: Sequence[str], path: Path) -> None:
    statement = sql.SQL("copy {} ({}) from stdin").format(sql.Identifier("reme", table), _names(names))
    try:
        with archive.open(f"{table}.copy") as file, connection.cursor() as cursor, cursor.copy(statement) as rows:
            shutil.copyfileobj(file, rows, _CHUNK)
    except (*_DAMAGES, DataError, IntegrityError) as error:
        why = str(error).partition("\n")[0]  # Postgres shows the row below that
        raise LibraryError(f"{path} is damaged ({why}); nothing was restored", path=str(path)) from None


@contextmanager
def _read_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except OSError as error:
        raise LibraryError(f"cannot read {path}: {error.strerror}", path=str(path)) from None
    except zipfile.BadZipFile as error:
        raise LibraryError(f"{path} is no backup, or a damaged one: {error}", path=str(path)) from None


def _manifest(archive: zipfile.ZipFile, path: Path) -> Manifest:
    try:
        manifest = Manifest(**json.loads(archive.read(_MANIFEST)))
    except (*_DAMAGES, ValueError, TypeError) as error:
        raise LibraryError(f"{path} is no backup of reme-core, or a damaged one: {error}", path=str(path)) from None
    for of_tables in (manifest.columns, manifest.sums):
        of_tables.pop("queue_migration", None)  # backups had it once
    if manifest.version not in migrate.versions():
        raise LibraryError(f"{path} was {migrate.unknown_version_advice(manifest.version)}", path=str(path))
    if not manifest.report.workspaces:
        raise LibraryError(f"{path} holds no workspace; nothing was restored", path=str(path))
    return manifest


@contextmanager
def _session(url: str, how: str = "") -> Iterator[Connection]:
    """A transaction of the login role that sees all workspaces; `how` is what `begin` says of it."""
    with translating_errors(url), connect(url, application_name="reme-core backup") as connection:
        search_path = migrate.search_path(connection)
        connection.rollback()  # psycopg began a transaction for `search_path`
        connection.execute(f"begin {how}".encode())
        connection.execute(f"set local search_path = {search_path}".encode())
        for name, value in _SETTINGS.items():
            # Of `set local` the nodes of a cluster hear, which calculate the sums.
            connection.execute(f"set local {name} = '{value}'".encode())
        yield connection
