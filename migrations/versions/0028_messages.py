"""Messages."""

from reme_core.postgres.migrate import sql_steps

revision, down_revision = "0028", "0027"
upgrade, downgrade = sql_steps("0028_messages")
