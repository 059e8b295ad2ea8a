"""Items: values under keys in namespaces, for LangGraph's store."""

from reme_core.store.migrate import run_sql

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run_sql("0003_items.up.sql")


def downgrade() -> None:
    run_sql("0003_items.down.sql")
