"""`Closing`: `with` and `async with` for the classes of adapters."""

from __future__ import annotations

from typing import Any, Self

from reme_core.connection import callers_portal


class Closing:
    """A base for classes with `aclose`; leaving the block closes them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    def close(self) -> Any:
        """`aclose` for code that does not await."""
        return callers_portal().wait(self.aclose())

    async def aclose(self) -> None:
        """Deliver what waits, and close the connection if it was opened here."""
        raise NotImplementedError
