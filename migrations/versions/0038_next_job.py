"""Jobs: the next one is found without a look at all that wait."""

from reme_core.postgres.migrate import run_sql

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    run_sql("0038_next_job.up.sql")


def downgrade() -> None:
    run_sql("0038_next_job.down.sql")
