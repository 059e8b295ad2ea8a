"""Log: of a call that was made before a workspace was cleared, no text is kept."""

from reme_core.postgres.migrate import run_sql

revision = "0045"
down_revision = "0040"


def upgrade() -> None:
    run_sql("0045_cleared_log.up.sql")


def downgrade() -> None:
    run_sql("0045_cleared_log.down.sql")
