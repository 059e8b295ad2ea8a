"""Messages."""

from reme_core.postgres.migrate import run_sql

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    run_sql("0011_messages.up.sql")


def downgrade() -> None:
    run_sql("0011_messages.down.sql")
