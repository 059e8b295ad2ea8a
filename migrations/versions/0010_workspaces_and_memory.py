"""Workspaces, and their memories with evidence and history."""

from reme_core.postgres.migrate import run_sql

revision = "0010"
down_revision = None


def upgrade() -> None:
    run_sql("0010_workspaces_and_memory.up.sql")


def downgrade() -> None:
    run_sql("0010_workspaces_and_memory.down.sql")
