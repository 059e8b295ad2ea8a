"""Jobs: no two conversations have the same lock."""

from reme_core.postgres.migrate import sql_steps

revision, down_revision = "0039", "0038"
upgrade, downgrade = sql_steps("0039_locks")
