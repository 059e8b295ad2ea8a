"""Postings stand in segments, each a list of documents, and the frequencies of terms are read off them."""

from reme_core.store.migrate import run_sql

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    run_sql("0009_segments.up.sql")


def downgrade() -> None:
    run_sql("0009_segments.down.sql")
