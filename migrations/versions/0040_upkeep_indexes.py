"""Memories: what changed since a moment, and what no chat model has read, is found without a look at all others."""

from reme_core.postgres.migrate import run_sql

revision = "0040"
down_revision = "0039"


def upgrade() -> None:
    run_sql("0040_upkeep_indexes.up.sql")


def downgrade() -> None:
    run_sql("0040_upkeep_indexes.down.sql")
