"""Episodes, what they taught, and calls of tools."""

from reme_core.postgres.migrate import run_sql

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    run_sql("0030_episodes_and_tools.up.sql")


def downgrade() -> None:
    run_sql("0030_episodes_and_tools.down.sql")
