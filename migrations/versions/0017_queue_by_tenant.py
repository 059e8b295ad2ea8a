"""Row-level security on the queue's tables."""

from reme_core.postgres.migrate import run_sql

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    run_sql("0017_queue_by_tenant.up.sql")


def downgrade() -> None:
    run_sql("0017_queue_by_tenant.down.sql")
