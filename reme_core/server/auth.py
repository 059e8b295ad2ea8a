"""API keys: optional, valid for some workspaces or for all, and stored only as slow hashes.

A key has the form `reme_<id>_<secret>`. The id names its row; the secret is 256 random bits, of which the database
stores a scrypt hash.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar, cast

import anyio
import anyio.to_thread
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from reme_core.errors import DatabaseError, NotFoundError, ReMeError
from reme_core.postgres.database import Database, check_workspace
from reme_core.server.errors import AccessError, answer_to
from reme_core.server.hosts import LOOPBACK
from reme_core.types import now

_PREFIX: Final = "reme"
# The least that OWASP recommends for passwords. It is enough here: nobody can guess 256 random bits.
_SCRYPT: Final = {"n": 2**14, "r": 8, "p": 1}
# A verified key is not verified again for this long, so that most requests cost no hash. A key that another process
# revokes may work for as long.
_CACHE_SECONDS: Final = 5.0
_CACHE_SIZE: Final = 10_000
_ANY: Final = b""
_ACCESS: Final = "reme.access"  # where the scope of a request has what its caller may do

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Access:
    """What a caller may do.

    Attributes:
        key_id: The caller's API key; empty where no keys are used.
        workspaces: The workspaces it may read and write; None means all.
        is_local: Whether the request came to an address that nobody but this machine reaches.
    """

    key_id: str = ""
    workspaces: frozenset[str] | None = None
    is_local: bool = True

    def allows(self, workspace: str) -> bool:
        """Whether the caller may use this workspace."""
        return self.workspaces is None or workspace in self.workspaces

    def reason_for_caller(self, reason: str | None) -> str | None:
        """Why a job or a model failed; who may not use all workspaces is told where that stands."""
        # The reason may name the addresses of the database and of models, or be what a model's provider says.
        return reason and (reason if self.workspaces is None else "the service's log says why")

    def check(self, *workspaces: str) -> None:
        """Raise an `AccessError` of status 403 if the caller's key is not for one of these workspaces."""
        for name in workspaces:
            if not self.allows(name):
                # A flow that is told no workspace takes the one of the settings, which the caller has not named.
                opened = ", ".join(f"'{own}'" for own in sorted(self.workspaces or ())) or "none"
                problem = f"this API key is not for the workspace '{name}'; it opens {opened}: give one as workspace_id"
                raise AccessError(problem, status=403)


FULL_ACCESS: Final = Access()
"""What everybody may do while there are no keys."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key without its secret, which is not stored. If `workspaces` is None, the key is valid for all."""

    key_id: str
    label: str
    workspaces: list[str] | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    @property
    def is_active(self) -> bool:
        """Whether it is accepted: neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now())


class ApiKeys:
    """The keys of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # By the fingerprint of a key what it permits, and under `_ANY` whether there are keys; first the time on the
        # monotonic clock until which that counts.
        self._found: dict[bytes, tuple[float, Any]] = {}

    async def create(
        self, label: str = "", workspaces: Iterable[str] | None = None, *, expires_at: datetime | None = None
    ) -> str:
        """Make a key and return it; it cannot be shown again. Without workspaces it is valid for all.

        Raises:
            InputError: One of the names cannot be that of a workspace.
        """
        named = None if workspaces is None else sorted({check_workspace(name) for name in workspaces})
        key_id, secret, salt = secrets.token_hex(6), secrets.token_urlsafe(32), secrets.token_bytes(16)
        digest = await anyio.to_thread.run_sync(_digest, secret, salt)
        await self._database.execute_anywhere(
            "insert into reme.api_key (key_id, label, salt, digest, workspaces, expires_at)"
            " values (%s, %s, %s, %s, %s, %s)",
            [key_id, label, salt, digest, named, expires_at],
        )
        self._found.clear()
        return f"{_PREFIX}_{key_id}_{secret}"

    async def list(self) -> list[ApiKey]:
        """All keys, revoked and expired ones included, the newest first."""
        rows = await self._database.execute_anywhere(
            "select key_id, label, workspaces, created_at, expires_at, revoked_at from reme.api_key"
            " order by created_at desc, key_id"
        )
        return [ApiKey(*row) for row in rows]

    async def revoke(self, key_id: str) -> None:
        """Make a key invalid; other processes notice within five seconds.

        Raises:
            NotFoundError: No key has this id.
        """
        revoke = "update reme.api_key set revoked_at = coalesce(revoked_at, now()) where key_id = %s returning key_id"
        if not await self._database.execute_anywhere(revoke, [key_id]):
            raise NotFoundError(f"there is no API key '{key_id}'; `reme keys list` lists all keys")
        self._found.clear()

    async def clear(self) -> int:
        """Delete all keys, and return how many there were. Afterwards requests need no key."""
        gone = await self._database.execute_anywhere("delete from reme.api_key returning key_id")
        self._found.clear()
        return len(gone)

    async def access(self, key: str) -> Access:
        """What a caller with this API key may do; with an empty one, what a caller without a key may do.

        Raises:
            AccessError: Requests need a key, and this one is empty, unknown, revoked or expired; the status is 401.
        """
        if not await self.has_any():
            return FULL_ACCESS
        if not key:
            raise AccessError("an API key is needed; send it as `Authorization: Bearer reme_…`", status=401)
        return await self._find_seldom(_fingerprint(key), partial(self._verify, key))

    async def has_any(self) -> bool:
        """Whether there are keys. If so, every request needs one."""
        return await self._find_seldom(_ANY, self._look_for_any)

    async def _look_for_any(self) -> bool:
        # Revoked and expired keys count: a service must not open to everybody when its last key expires.
        ((exists,),) = await self._database.execute_anywhere("select exists (select from reme.api_key)")
        return bool(exists)

    async def _find_seldom(self, name: bytes, look_up: Callable[[], Awaitable[Found]]) -> Found:
        """What was found in the last seconds, or else what is found now."""
        until, found = self._found.get(name, (0.0, None))
        if time.monotonic() > until:
            try:
                found = await look_up()
            except AccessError:
                self._found.pop(name, None)
                raise
            if len(self._found) >= _CACHE_SIZE:
                self._found.clear()
            self._found[name] = (time.monotonic() + _CACHE_SECONDS, found)
        return cast("Found", found)

    def last_access(self, key: str) -> Access | None:
        """What the caller with a key might do when the database was last asked; None if it was never let in."""
        _, has_any = self._found.get(_ANY, (0.0, True))
        _, access = self._found.get(_fingerprint(key), (0.0, None))
        return access if has_any else FULL_ACCESS

    async def _verify(self, key: str) -> Access:
        refusal = AccessError("this API key is unknown, revoked or expired", status=401)
        prefix, _, rest = key.partition("_")
        key_id, _, secret = rest.partition("_")
        if prefix != _PREFIX or not secret or "\0" in key or not key.isascii():
            raise refusal
        found = await self._database.execute_anywhere(
            "select salt, digest, workspaces from reme.api_key where key_id = %s"
            " and revoked_at is null and coalesce(expires_at, 'infinity') > now()",
            [key_id],
        )
        # An unknown id is refused without a hash, so that a flood of them costs little. Callers can measure which ids
        # exist, but an id without its secret is of no use.
        if not found:
            raise refusal
        ((salt, digest, workspaces),) = found
        if not hmac.compare_digest(await anyio.to_thread.run_sync(_digest, secret, salt), digest):
            raise refusal
        return Access(key_id, None if workspaces is None else frozenset(workspaces))


class KeyCheck:
    """Middleware that answers 401 to a request without a valid API key, where there are keys, before it reads the body.

    It finds the keys in the `state.service` of the app. `needs_no_key` is asked with the method and the path of a
    request; by default every request needs a key. Paths of `need_no_database` answer while the database is away, too,
    to whom they were open before.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        needs_no_key: Callable[[str, str], bool] = lambda *_: False,
        need_no_database: Collection[str] = (),
    ) -> None:
        self._app = app
        self._needs_no_key = needs_no_key
        self._need_no_database = need_no_database

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI defines it."""
        if scope["type"] == "http":
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            if not self._needs_no_key(scope["method"], path):
                keys: ApiKeys = scope["app"].state.service.keys
                key = key_in_headers(HTTPConnection(scope))
                try:
                    access = await self._access(keys, key, path)
                except ReMeError as error:
                    await answer_to(error, scope)(scope, receive, send)
                    return
                # The settings name the address of `reme serve`, and not that of another server in which the app runs.
                address, _ = scope.get("server") or ("", None)
                scope[_ACCESS] = replace(access, is_local=address in LOOPBACK)
        await self._app(scope, receive, send)

    async def _access(self, keys: ApiKeys, key: str, path: str) -> Access:
        try:
            return await keys.access(key)
        except DatabaseError:
            last = keys.last_access(key) if path in self._need_no_database else None
            if last is None:
                raise
            return last


def access_of(connection: HTTPConnection) -> Access:
    """What the caller of a request may do, as `KeyCheck` found."""
    access: Access = connection.scope[_ACCESS]
    return access


async def wait_for_refusal(connection: HTTPConnection) -> None:
    """Return once the key of a request that is still being answered is no longer good."""
    keys: ApiKeys = connection.scope["app"].state.service.keys
    with suppress(AccessError):
        while True:
            await anyio.sleep(_CACHE_SECONDS)
            with suppress(DatabaseError):  # a database that is away refuses no key
                await keys.access(key_in_headers(connection))


def key_in_headers(connection: HTTPConnection) -> str:
    """The API key in the headers of a request, as `Authorization: Bearer` or as `X-API-Key`; empty if there is none."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return connection.headers.get("x-api-key", "").strip()


def _fingerprint(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _digest(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode(), salt=salt, **_SCRYPT)
