"""Keys to the service, and its queue of background work."""

from reme_core.postgres import queue_schema
from reme_core.postgres.migrate import migrating_connection, run_sql

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    queue_schema.install(migrating_connection())
    run_sql("0033_service.up.sql")
    queue_schema.note_installed(migrating_connection())


def downgrade() -> None:
    run_sql("0033_service.down.sql")
