"""API keys of the service, kept as slow hashes."""

from reme_core.store.migrate import run_sql

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    run_sql("0005_api_keys.up.sql")


def downgrade() -> None:
    run_sql("0005_api_keys.down.sql")
