"""Log: of a call that was made before a workspace was cleared, no text is kept."""

from reme_core.postgres.migrate import sql_steps

revision, down_revision = "0041", "0040"
upgrade, downgrade = sql_steps("0041_cleared_log")
