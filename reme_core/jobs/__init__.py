"""Background work, as jobs in the same Postgres."""
