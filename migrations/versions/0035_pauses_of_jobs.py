"""Jobs: one that broke off keeps its pause, however lively its conversation is."""

from reme_core.postgres.migrate import run_sql

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    run_sql("0035_pauses_of_jobs.up.sql")


def downgrade() -> None:
    run_sql("0035_pauses_of_jobs.down.sql")
