"""Views and functions for people."""

from reme_core.postgres.migrate import sql_steps

revision, down_revision = "0032", "0031"
upgrade, downgrade = sql_steps("0032_views")
