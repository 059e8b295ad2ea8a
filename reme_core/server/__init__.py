"""The HTTP and MCP services, and the keys to them."""

from reme_core.extras import needing

with needing("server,mcp"):
    import fastapi  # noqa: F401 - all of it stands on this
