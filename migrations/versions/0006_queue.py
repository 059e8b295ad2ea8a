"""The queue of background work."""

from reme_core.store.migrate import run_sql
from reme_core.store.queue_schema import install

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    run_sql("0006_queue.up.sql")
    install()


def downgrade() -> None:
    run_sql("0006_queue.down.sql")
