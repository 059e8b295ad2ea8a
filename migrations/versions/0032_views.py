"""Views and functions for people."""

from reme_core.postgres.migrate import run_sql

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    run_sql("0032_views.up.sql")


def downgrade() -> None:
    run_sql("0032_views.down.sql")
