"""Access to Postgres, which knows nothing of memory: connections, errors, migrations, backups, the embedded server."""
