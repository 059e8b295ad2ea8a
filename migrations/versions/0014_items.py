"""Items: values under keys in namespaces, for LangGraph's store."""

from reme_core.postgres.migrate import run_sql

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    run_sql("0014_items.up.sql")


def downgrade() -> None:
    run_sql("0014_items.down.sql")
