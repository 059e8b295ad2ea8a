"""A SQLAlchemy engine whose connections see one workspace: for pandas, notebooks and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.postgres.connect import Connection, connect
from reme_core.postgres.database import Database, check_workspace

if TYPE_CHECKING:
    from sqlalchemy import Connection as SqlConnection
    from sqlalchemy import Engine


def sql_engine(database: Database, workspace: str, *, write: bool) -> Engine:
    """An engine that sees the rows of one workspace by row-level security; without `write`, it only reads.

    Raises:
        InputError: `workspace` is no valid name of a workspace.
    """
    from sqlalchemy import NullPool, create_engine, event  # noqa: PLC0415 - few ask for it, and it takes a third of a second

    settings = database.sql_session | {
        "reme.workspace": check_workspace(workspace),
        "default_transaction_read_only": "off" if write else "on",
    }

    def open_connection() -> Connection:
        connection = connect(database.url, application_name="reme-core sql")
        calls = ", ".join(["set_config(%s, %s, false)"] * len(settings))
        connection.execute(f"select {calls}".encode(), [part for item in settings.items() for part in item])
        connection.commit()
        return connection

    engine = create_engine("postgresql+psycopg://", creator=open_connection, poolclass=NullPool)

    def name_workspace(connection: SqlConnection) -> None:
        # Other servers, which may hold the rows, get to know what is set for a transaction, and nothing else.
        connection.exec_driver_sql("call reme.set_local('reme.workspace', %s)", (workspace,))

    event.listen(engine, "begin", name_workspace)
    return engine
