"""Items, and artifacts of working memory."""

from reme_core.postgres.migrate import run_sql

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    run_sql("0031_items_and_artifacts.up.sql")


def downgrade() -> None:
    run_sql("0031_items_and_artifacts.down.sql")
