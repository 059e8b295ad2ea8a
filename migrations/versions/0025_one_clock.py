"""One clock for a memory and for the history of its changes."""

from reme_core.postgres.migrate import run_sql

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    run_sql("0025_one_clock.up.sql")


def downgrade() -> None:
    run_sql("0025_one_clock.down.sql")
