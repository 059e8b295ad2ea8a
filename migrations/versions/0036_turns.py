"""Jobs of a workspace take turns: which of them has its turn stands in the workspace's row."""

from reme_core.postgres.migrate import run_sql

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    run_sql("0036_turns.up.sql")


def downgrade() -> None:
    run_sql("0036_turns.down.sql")
