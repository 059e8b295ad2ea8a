"""Episodes: what the memory itself keeps of them, and lessons that they wait for. History: many changes at once."""

from reme_core.postgres.migrate import sql_steps

revision, down_revision = "0034", "0033"
upgrade, downgrade = sql_steps("0034_episodes_and_history")
