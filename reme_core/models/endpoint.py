"""How a model's HTTP endpoint is reached: pooled clients, a limit on concurrency, errors that say what to do.

The official `openai` SDK does the talking, for endpoints of other forms too: its client times out, retries (connection
errors, 408, 409, 429 and 5xx, with growing, jittered pauses that heed `Retry-After`) and pools connections.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import openai
from pydantic import SecretStr

from reme_core.errors import ModelAnswerError, ModelError, ModelUnavailableError

CONNECT_SECONDS: Final = 10.0
"""How long connecting may take; a model may think long, but a server that is there takes the call at once."""

# In the middle of a stream the SDK's 2.x lets the errors of its transport, httpx, through; 3.x wraps them.
_CONNECTION_ERRORS: Final[tuple[type[Exception], ...]] = (
    (openai.APIConnectionError, importlib.import_module("httpx").HTTPError)
    if openai.__version__.startswith("2.")
    else (openai.APIConnectionError,)
)


@dataclass(slots=True)
class _Pooled:
    client: openai.AsyncOpenAI
    holders: int = 0


@dataclass(slots=True)
class _Lease:
    client: openai.AsyncOpenAI
    slots: asyncio.Semaphore


# Connections belong to the event loop that opened them, so each loop has its own clients.
_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], _Pooled]] = WeakKeyDictionary()


class Endpoint:
    """Where a model is served, and how patiently it is asked.

    Endpoints of the same address and key share one client and its connections.

    Args:
        base_url: The address below which the paths lie, such as `https://api.openai.com/v1`.
        api_key: The key; many local servers need none. It appears in no repr, log or error.
        timeout_seconds: How long one attempt may take to send something.
        max_retries: Attempts after the first.
        max_concurrency: Requests at the same time by this model; further ones wait.
    """

    def __init__(
        self,
        base_url: str,
        api_key: SecretStr | str = "",
        *,
        timeout_seconds: float = 60.0,
        max_retries: int = 3,
        max_concurrency: int = 16,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._key = api_key if isinstance(api_key, SecretStr) else SecretStr(api_key)
        self._seconds = timeout_seconds
        self._timeout = openai.Timeout(timeout_seconds, connect=min(CONNECT_SECONDS, timeout_seconds))
        self._max_retries = max_retries
        self._max_concurrency = max_concurrency
        self._leases: WeakKeyDictionary[asyncio.AbstractEventLoop, _Lease] = WeakKeyDictionary()

    @property
    def address(self) -> str:
        """The base URL as it may be shown: without user, password or query."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def __repr__(self) -> str:
        return f"Endpoint({self.address!r})"

    @asynccontextmanager
    async def session(self, model: str) -> AsyncIterator[openai.AsyncOpenAI]:
        """The client, for one exchange with `model`, once a slot is free.

        Raises:
            ModelUnavailableError: The endpoint can't be reached, times out, limits the rate or fails (5xx).
            ModelAnswerError: It answers with something that isn't JSON.
            ModelError: It refuses the key or the request.
        """
        lease = self._lease()
        async with lease.slots:
            try:
                yield lease.client
            except openai.APITimeoutError:
                raise ModelUnavailableError(
                    f"{model} at {self.address} did not answer within {self._seconds:g} s; raise timeout_seconds, "
                    "or see whether the server is overloaded"
                ) from None
            except _CONNECTION_ERRORS as error:
                cause = self._without_key(str(error.__cause__ or error))
                raise ModelUnavailableError(
                    f"{model} at {self.address} could not be reached ({cause}); check base_url, and that it is running"
                ) from None
            except openai.APIStatusError as error:
                raise self._refusal(model, error) from None
            except openai.APIError as error:
                raise ModelError(f"{model} at {self.address} failed: {self._without_key(error.message)}") from None
            except json.JSONDecodeError as error:
                # The SDK lets the decoder's own error through.
                message = f"{model} at {self.address} answered with broken JSON: {error}"
                raise ModelAnswerError(message, raw=error.doc) from None

    async def post(self, model: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Post JSON to a path that the SDK doesn't know, with its retries, and return the JSON object it answers."""
        async with self.session(model) as client:
            answer = await client.post(path, body=body, cast_to=object)
        if not isinstance(answer, dict):
            raise self.not_json(model, answer)
        return answer

    def not_json(self, model: str, answer: object) -> ModelAnswerError:
        """The error for an answer that isn't a JSON object: most often a web page, from a wrong address."""
        return ModelAnswerError(
            f"{model} at {self.address} did not answer with a JSON object; check base_url (it often ends in /v1)",
            raw=str(answer),
        )

    async def aclose(self) -> None:
        """Give the client back; the last one to do so closes its connections."""
        loop = asyncio.get_running_loop()
        if self._leases.pop(loop, None) is None:
            return
        pool = _pools[loop]
        pooled = pool[self._identity]
        pooled.holders -= 1
        if pooled.holders == 0:
            del pool[self._identity]
            await pooled.client.close()

    @property
    def _identity(self) -> tuple[str, str]:
        return self.base_url, self._key.get_secret_value()

    def _lease(self) -> _Lease:
        loop = asyncio.get_running_loop()
        if (lease := self._leases.get(loop)) is None:
            pool = _pools.setdefault(loop, {})
            if (pooled := pool.get(self._identity)) is None:
                # Without a key the SDK would look for one in the environment, and send it to whatever server this is.
                key = self._key.get_secret_value() or "unset"
                pooled = pool[self._identity] = _Pooled(openai.AsyncOpenAI(base_url=self.base_url, api_key=key))
            pooled.holders += 1
            client = pooled.client.with_options(timeout=self._timeout, max_retries=self._max_retries)
            lease = self._leases[loop] = _Lease(client, asyncio.Semaphore(self._max_concurrency))
        return lease

    def _refusal(self, model: str, error: openai.APIStatusError) -> ModelError:
        status, said = error.status_code, self._without_key(error.message)
        where = f"{model} at {self.address}"
        if status in (401, 403):
            return ModelError(f"{where} refused the key ({status}: {said}); check api_key")
        if status == 404:
            return ModelError(f"{where} was not found (404: {said}); check model_name and base_url")
        if status in (408, 409, 429) or status >= 500:
            return ModelUnavailableError(f"{where} is not available now ({status}: {said}); try again later")
        return ModelError(f"{where} refused the request ({status}: {said})")

    def _without_key(self, text: str) -> str:
        key = self._key.get_secret_value()
        # A placeholder such as "x" is no secret, and would cut words to pieces.
        return text.replace(key, "***") if len(key) > 4 else text
