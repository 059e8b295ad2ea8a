"""What held once is part of what is known, also after something else took its place."""

from reme_core.store.migrate import run_sql

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_sql("0008_what_held.up.sql")


def downgrade() -> None:
    run_sql("0008_what_held.down.sql")
