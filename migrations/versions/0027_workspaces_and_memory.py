"""Workspaces, memories, their evidence and their history."""

from reme_core.postgres.migrate import sql_steps

revision, down_revision = "0027", None
upgrade, downgrade = sql_steps("0027_workspaces_and_memory")
