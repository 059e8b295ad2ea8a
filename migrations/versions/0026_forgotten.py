"""An index of memories that somebody asked to forget, or deleted."""

from reme_core.postgres.migrate import run_sql

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    run_sql("0026_forgotten.up.sql")


def downgrade() -> None:
    run_sql("0026_forgotten.down.sql")
