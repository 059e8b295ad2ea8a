"""The core schema: memories with evidence and history, what recall needs, row-level security."""

from reme_core.store.migrate import run_sql

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_sql("0001_core.up.sql")


def downgrade() -> None:
    run_sql("0001_core.down.sql")
