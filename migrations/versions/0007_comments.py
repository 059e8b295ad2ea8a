"""Comments on what had none: the columns of the views, the queue's tables, Alembic's own."""

from reme_core.store.migrate import run_sql

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    run_sql("0007_comments.up.sql")


def downgrade() -> None:
    run_sql("0007_comments.down.sql")
