"""Vectors: many that are added at once join the index of a large workspace afterwards."""

from reme_core.postgres.migrate import sql_steps

revision, down_revision = "0037", "0036"
upgrade, downgrade = sql_steps("0037_unindexed")
