"""Items, and artifacts of working memory."""

from reme_core.postgres.migrate import sql_steps

revision, down_revision = "0031", "0030"
upgrade, downgrade = sql_steps("0031_items_and_artifacts")
