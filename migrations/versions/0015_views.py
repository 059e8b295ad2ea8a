"""Views and functions for people."""

from reme_core.postgres.migrate import run_sql

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    run_sql("0015_views.up.sql")


def downgrade() -> None:
    run_sql("0015_views.down.sql")
