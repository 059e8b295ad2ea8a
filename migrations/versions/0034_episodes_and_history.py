"""Episodes: what the memory itself keeps of them, and lessons that they wait for. History: many changes at once."""

from reme_core.postgres.migrate import run_sql

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    run_sql("0034_episodes_and_history.up.sql")


def downgrade() -> None:
    run_sql("0034_episodes_and_history.down.sql")
