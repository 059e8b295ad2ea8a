"""Vectors and postings, which recall searches, and the logs of recalls and model calls."""

from reme_core.postgres.migrate import run_sql

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    run_sql("0012_recall.up.sql")


def downgrade() -> None:
    run_sql("0012_recall.down.sql")
