"""What is remembered, in Postgres: storing, changing, finding and erasing it."""
