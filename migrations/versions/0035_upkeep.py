"""Jobs: one that broke off keeps its pause. Planner: statistics of tables that have grown are made at once."""

from reme_core.postgres.migrate import sql_steps

revision, down_revision = "0035", "0034"
upgrade, downgrade = sql_steps("0035_upkeep")
