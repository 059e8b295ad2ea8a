"""The HTTP and MCP services, and their API keys."""

from reme_core.errors import require_extra

with require_extra("server,mcp"):
    import fastapi  # noqa: F401 - every module here needs it
