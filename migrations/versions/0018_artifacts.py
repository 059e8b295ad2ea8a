"""Working memory: what left the window of a long task."""

from reme_core.postgres.migrate import run_sql

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    run_sql("0018_artifacts.up.sql")


def downgrade() -> None:
    run_sql("0018_artifacts.down.sql")
