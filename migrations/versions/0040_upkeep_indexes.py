"""Memories: what changed since a moment, and what no chat model has read, is found without a look at all others."""

from reme_core.postgres.migrate import sql_steps

revision, down_revision = "0040", "0039"
upgrade, downgrade = sql_steps("0040_upkeep_indexes")
