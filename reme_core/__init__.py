"""Long-term memory for AI agents on your own Postgres."""
