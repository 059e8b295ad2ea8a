"""Jobs: one that broke off keeps its pause. Planner: statistics of tables that have grown are made at once."""

from reme_core.postgres.migrate import run_sql

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    run_sql("0035_upkeep.up.sql")


def downgrade() -> None:
    run_sql("0035_upkeep.down.sql")
