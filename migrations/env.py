"""Run by Alembic for every migration; the connection comes from `reme_core.postgres.migrate`, under its lock."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table_schema="reme",
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
