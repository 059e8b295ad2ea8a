"""Scopes within a workspace: the person, the agent and the run that memories and messages are of."""

from reme_core.postgres.migrate import run_sql

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    run_sql("0020_scopes.up.sql")


def downgrade() -> None:
    run_sql("0020_scopes.down.sql")
