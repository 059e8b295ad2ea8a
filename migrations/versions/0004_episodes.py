"""Cross-episode memory: score history, rules, mistake cards; tool calls with their statistics; learning curves."""

from reme_core.store.migrate import run_sql

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_sql("0004_episodes.up.sql")


def downgrade() -> None:
    run_sql("0004_episodes.down.sql")
