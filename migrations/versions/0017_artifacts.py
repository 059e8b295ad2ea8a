"""Working memory: what left the window of a long task."""

from reme_core.postgres.migrate import run_sql

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    run_sql("0017_artifacts.up.sql")


def downgrade() -> None:
    run_sql("0017_artifacts.down.sql")
