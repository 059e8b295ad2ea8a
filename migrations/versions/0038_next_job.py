"""Jobs: the next one is found without a look at all that wait."""

from reme_core.postgres.migrate import sql_steps

revision, down_revision = "0038", "0037"
upgrade, downgrade = sql_steps("0038_next_job")
