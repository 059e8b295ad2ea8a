"""Episodes, what they taught, and calls of tools."""

from reme_core.postgres.migrate import sql_steps

revision, down_revision = "0030", "0029"
upgrade, downgrade = sql_steps("0030_episodes_and_tools")
