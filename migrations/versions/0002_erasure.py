"""When something was erased, for those who would still write it."""

from reme_core.store.migrate import run_sql

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_sql("0002_erasure.up.sql")


def downgrade() -> None:
    run_sql("0002_erasure.down.sql")
