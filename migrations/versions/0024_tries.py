"""Which failures of a job use up one of its tries."""

from reme_core.postgres.migrate import run_sql

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    run_sql("0024_tries.up.sql")


def downgrade() -> None:
    run_sql("0024_tries.down.sql")
