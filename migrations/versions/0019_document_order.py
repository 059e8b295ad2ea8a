"""Segments of postings in the order of their documents."""

from reme_core.postgres.migrate import run_sql

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    run_sql("0019_document_order.up.sql")


def downgrade() -> None:
    run_sql("0019_document_order.down.sql")
