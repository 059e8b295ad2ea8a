"""Turns that wait on this machine while the database cannot be reached."""
