"""Vectors: many that are added at once join the index of a large workspace afterwards."""

from reme_core.postgres.migrate import run_sql

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    run_sql("0037_unindexed.up.sql")


def downgrade() -> None:
    run_sql("0037_unindexed.down.sql")
