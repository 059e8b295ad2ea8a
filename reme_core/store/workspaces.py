"""Whole workspaces: listing, loading, dumping, copying, clearing, and moving to another embedding model."""

from __future__ import annotations

from reme_core.store.database import Database
from reme_core.store.memories import Memories
from reme_core.store.serving import Serving


class Workspaces:
    """The workspaces of one database."""

    def __init__(self, database: Database, serving: Serving, memories: Memories) -> None:
        self._database = database
        self._serving = serving
        self._memories = memories

    async def list(self) -> list[str]:
        """The names of all workspaces, in order."""
        async with self._database.maintenance() as conn:
            cursor = await conn.execute("select workspace_id from reme.workspace order by workspace_id")
            return [row[0] for row in await cursor.fetchall()]
