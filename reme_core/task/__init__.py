"""Task memory: lessons of attempts at tasks, by a chat model or by rules."""
