"""Vectors, postings, and the logs of recalls and model calls."""

from reme_core.postgres.migrate import sql_steps

revision, down_revision = "0029", "0028"
upgrade, downgrade = sql_steps("0029_recall")
