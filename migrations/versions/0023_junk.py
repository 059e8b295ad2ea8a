"""An index of memories that seldom helped."""

from reme_core.postgres.migrate import run_sql

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    run_sql("0023_junk.up.sql")


def downgrade() -> None:
    run_sql("0023_junk.down.sql")
