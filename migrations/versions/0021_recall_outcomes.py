"""What became of recalls: relevance, what stands in the note, and why the rest does not."""

from reme_core.postgres.migrate import run_sql

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    run_sql("0021_recall_outcomes.up.sql")


def downgrade() -> None:
    run_sql("0021_recall_outcomes.down.sql")
