"""The index of the offline model's vectors holds them centred."""

from reme_core.postgres.migrate import run_sql

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    run_sql("0034_centred_index.up.sql")


def downgrade() -> None:
    run_sql("0034_centred_index.down.sql")
