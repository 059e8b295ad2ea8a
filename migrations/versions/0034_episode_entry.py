"""What the memory itself keeps of an episode, apart from the metadata of its caller."""

from reme_core.postgres.migrate import run_sql

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    run_sql("0034_episode_entry.up.sql")


def downgrade() -> None:
    run_sql("0034_episode_entry.down.sql")
