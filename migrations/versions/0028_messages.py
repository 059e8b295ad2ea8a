"""Messages."""

from reme_core.postgres.migrate import run_sql

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    run_sql("0028_messages.up.sql")


def downgrade() -> None:
    run_sql("0028_messages.down.sql")
