"""Jobs: one of a workspace is under way at a time, and the others take no place of a worker."""

from reme_core.postgres.migrate import sql_steps

revision, down_revision = "0036", "0035"
upgrade, downgrade = sql_steps("0036_turns")
