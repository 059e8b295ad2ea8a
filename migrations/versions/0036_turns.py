"""Jobs: one of a workspace is under way at a time, and the others take no place of a worker."""

from reme_core.postgres.migrate import run_sql

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    run_sql("0036_turns.up.sql")


def downgrade() -> None:
    run_sql("0036_turns.down.sql")
