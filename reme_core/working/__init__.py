"""Working memory: what leaves the window of a long task is stored, and can be read back."""
