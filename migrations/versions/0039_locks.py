"""Jobs: no two conversations have the same lock."""

from reme_core.postgres.migrate import run_sql

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    run_sql("0039_locks.up.sql")


def downgrade() -> None:
    run_sql("0039_locks.down.sql")
