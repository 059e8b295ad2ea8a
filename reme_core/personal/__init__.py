"""Personal memory: what people say, kept as quotes, or read by a chat model."""
