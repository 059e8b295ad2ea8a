"""What Citus needs to spread the tables over several servers, by workspace."""

from reme_core.postgres.migrate import run_sql

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    run_sql("0022_distributable.up.sql")


def downgrade() -> None:
    run_sql("0022_distributable.down.sql")
