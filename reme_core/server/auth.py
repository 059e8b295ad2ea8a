"""API keys: optional, bound to workspaces or good for all, and kept only as slow hashes.

A key reads `reme_<id>_<secret>`. The id finds its row; the secret is 256 random bits, of which the database keeps a
scrypt hash. A key that was found good stays so for a few seconds without asking again, so a request costs no hash.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import anyio.to_thread
from starlette.requests import HTTPConnection

from reme_core.errors import NotFoundError
from reme_core.schema import now
from reme_core.server.errors import AccessError
from reme_core.store.database import Database, check_workspace

_PREFIX: Final = "reme"
_SCRYPT: Final = {"n": 2**14, "r": 8, "p": 1}  # OWASP's lowest for memory-hard hashes of guessable secrets; ours is not
_REMEMBERED_SECONDS: Final = 5.0
"""How long a revoked key may still work in a process that saw it just before."""
_MOST_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Access:
    """What a caller may do; `workspaces` None means all of them."""

    key_id: str = ""
    workspaces: frozenset[str] | None = None

    def check(self, *workspaces: str) -> None:
        """Let the caller pass.

        Raises:
            AccessError: Its key is not for one of these workspaces.
        """
        closed = [name for name in workspaces if self.workspaces is not None and name not in self.workspaces]
        if closed:
            raise AccessError(f"this API key is not for the workspace '{closed[0]}'", status=403)

    def check_all(self) -> None:
        """Let the caller do what concerns all workspaces.

        Raises:
            AccessError: Its key is for some workspaces only.
        """
        if self.workspaces is not None:
            raise AccessError("this API key is for single workspaces; use one that is for all of them", status=403)


EVERYTHING: Final = Access()
"""The access of everybody, where there are no keys."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is listed; its secret is kept nowhere."""

    key_id: str
    label: str
    workspaces: list[str] | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    @property
    def active(self) -> bool:
        """Whether it opens anything."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now())


class ApiKeys:
    """The keys of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._good: dict[bytes, tuple[float, Access]] = {}
        self._any: tuple[float, bool] = (0.0, False)

    async def create(
        self, label: str = "", workspaces: Iterable[str] | None = None, *, expires_at: datetime | None = None
    ) -> str:
        """Make a key and return it. This is the only time that it can be seen.

        Args:
            label: Whom or what it is for.
            workspaces: What it opens; None opens all.
            expires_at: From when on it opens nothing.

        Raises:
            InputError: A workspace id cannot be one.
        """
        named = None if workspaces is None else sorted({check_workspace(name) for name in workspaces})
        key_id, secret, salt = secrets.token_hex(6), secrets.token_urlsafe(32), secrets.token_bytes(16)
        digest = await anyio.to_thread.run_sync(_digest, secret, salt)
        async with self._database.maintenance() as connection:
            await connection.execute(
                "insert into reme.api_key (key_id, label, salt, digest, workspaces, expires_at)"
                " values (%s, %s, %s, %s, %s, %s)",
                [key_id, label, salt, digest, named, expires_at],
            )
        self._any = (0.0, False)
        return f"{_PREFIX}_{key_id}_{secret}"

    async def list(self) -> list[ApiKey]:
        """All keys ever made, the newest first."""
        async with self._database.maintenance() as connection:
            cursor = await connection.execute(
                "select key_id, label, workspaces, created_at, expires_at, revoked_at from reme.api_key"
                " order by created_at desc, key_id"
            )
            return [ApiKey(*row) for row in await cursor.fetchall()]

    async def revoke(self, key_id: str) -> None:
        """Take a key back. Other processes notice within seconds.

        Raises:
            NotFoundError: There is none of that id.
        """
        async with self._database.maintenance() as connection:
            cursor = await connection.execute(
                "update reme.api_key set revoked_at = coalesce(revoked_at, now()) where key_id = %s", [key_id]
            )
            if cursor.rowcount == 0:
                raise NotFoundError(f"there is no API key '{key_id}'; `reme keys list` shows those there are")
        self._good.clear()
        self._any = (0.0, False)

    async def clear(self) -> int:
        """Delete all keys, so that none is needed any more; returns how many there were."""
        async with self._database.maintenance() as connection:
            cursor = await connection.execute("delete from reme.api_key")
            count = cursor.rowcount
        self._good.clear()
        self._any = (0.0, False)
        return count

    async def access(self, connection: HTTPConnection) -> Access:
        """What whoever sent this request may do.

        Raises:
            AccessError: There are keys, and it brought none, or an unknown, revoked or expired one.
        """
        if not await self.any():
            return EVERYTHING
        given = _given(connection)
        if not given:
            raise AccessError("an API key is needed; send it as `Authorization: Bearer reme_…`", status=401)
        fingerprint = hashlib.sha256(given.encode("utf-8", "surrogatepass")).digest()
        until, access = self._good.get(fingerprint, (0.0, EVERYTHING))
        if time.monotonic() > until:
            access = await self._found(given)
            if len(self._good) >= _MOST_REMEMBERED:
                self._good.clear()
            self._good[fingerprint] = (time.monotonic() + _REMEMBERED_SECONDS, access)
        return access

    async def any(self) -> bool:
        """Whether one is needed: there are keys, if only expired ones; no door opens by losing its last key."""
        until, there = self._any
        if time.monotonic() > until:
            async with self._database.maintenance() as connection:
                cursor = await connection.execute("select exists (select from reme.api_key)")
                there = bool((await cursor.fetchall())[0][0])
            self._any = (time.monotonic() + _REMEMBERED_SECONDS, there)
        return there

    async def _found(self, given: str) -> Access:
        refused = AccessError("this API key is unknown, revoked or expired", status=401)
        prefix, _, rest = given.partition("_")
        key_id, _, secret = rest.partition("_")
        if prefix != _PREFIX or not secret or "\0" in given or not given.isascii():
            raise refused
        async with self._database.maintenance() as connection:
            cursor = await connection.execute(
                "select salt, digest, workspaces from reme.api_key where key_id = %s"
                " and revoked_at is null and coalesce(expires_at, 'infinity') > now()",
                [key_id],
            )
            row = await cursor.fetchone()
        # Only keys that exist cost a hash: guessing ids is cheap for us, and guessing secrets is hopeless.
        if row is None or not hmac.compare_digest(await anyio.to_thread.run_sync(_digest, secret, row[0]), row[1]):
            raise refused
        workspaces: Sequence[str] | None = row[2]
        return Access(key_id, None if workspaces is None else frozenset(workspaces))


def _given(connection: HTTPConnection) -> str:
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return connection.headers.get("x-api-key", "").strip()


def _digest(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode(), salt=salt, **_SCRYPT)
