"""Vectors, postings, and the logs of recalls and model calls."""

from reme_core.postgres.migrate import run_sql

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    run_sql("0029_recall.up.sql")


def downgrade() -> None:
    run_sql("0029_recall.down.sql")
