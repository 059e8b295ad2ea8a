"""Workspaces, memories, their evidence and their history."""

from reme_core.postgres.migrate import run_sql

revision = "0027"
down_revision = None


def upgrade() -> None:
    run_sql("0027_workspaces_and_memory.up.sql")


def downgrade() -> None:
    run_sql("0027_workspaces_and_memory.down.sql")
