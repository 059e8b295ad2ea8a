"""`with` and `async with`, for whatever an adapter gives to be closed."""

from __future__ import annotations

from typing import Any, Self


class Closing:
    """A base of classes that have `close` and `aclose`."""

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
        raise NotImplementedError

    async def aclose(self) -> None:
        """Deliver what waits, and close what was opened here."""
        raise NotImplementedError
