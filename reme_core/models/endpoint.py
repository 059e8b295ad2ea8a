"""The HTTP endpoint of a model: shared connections, a limit on concurrency, errors that say what to do.

All requests go through the client of the official `openai` SDK, also those to endpoints of others. It has timeouts, a
pool of connections, and retries after connection errors, 408, 409, 429 and 5xx, with growing, random pauses that
respect `Retry-After`.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import openai
from pydantic import BaseModel, SecretStr

from reme_core.errors import ConfigurationError, ModelAnswerError, ModelError, ModelRefusedError, ModelUnavailableError
from reme_core.given import storable
from reme_core.models.base import TOO_MUCH

CONNECT_SECONDS: Final = 10.0
"""Seconds that connecting may take."""
# Less than an answer may take: a model may think for a minute, but a running server accepts a connection at once.

_MOST_BYTES, _MOST_EMBEDDING_BYTES = 8 * 2**20, 64 * 2**20  # of one answer: a model may repeat itself for ever
_MOST_TOLD = 500  # characters of what a server says about an error: some send a web page
_PAGE_READ = 10_000  # characters of such a page: its patterns are slow where nothing closes what is opened
_LONGEST_SECONDS = 1800.0  # for one answer: while a request waits, DeepSeek sends blank lines for up to half an hour

_ADVICE: Final = {
    "CERTIFICATE_VERIFY": "name the file with its certificate, or with that of who signed it, in SSL_CERT_FILE",
    "WRONG_VERSION": "it speaks no https here: write http:// in base_url",
}

_IS_VERSION_2 = openai.__version__.startswith("2.")
_transport: Any = importlib.import_module("httpx" if _IS_VERSION_2 else "httpx2")
# In the middle of a stream, version 2 of the SDK raises the errors of its transport, and version 3 wraps them.
_CONNECTION_ERRORS: Final[tuple[type[Exception], ...]] = (
    (openai.APIConnectionError, _transport.HTTPError) if _IS_VERSION_2 else (openai.APIConnectionError,)
)


class _LimitedStream(_transport.AsyncByteStream):  # type: ignore[misc]  # which of two packages it is from is open
    """The body of an answer; reading more than `most` bytes, or for longer than `_LONGEST_SECONDS`, raises an error."""

    def __init__(self, body: Any, most: int, where: str) -> None:
        self._body = body
        self._most = most
        self._where = where

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read, begun = 0, time.monotonic()
        async for part in self._body:
            read += len(part)
            if read > self._most:
                raise ModelAnswerError(
                    f"the answer of {self._where} is longer than {self._most:,} bytes; set max_tokens for the model"
                )
            if time.monotonic() - begun > _LONGEST_SECONDS:
                raise ModelUnavailableError(
                    f"the answer of {self._where} did not end within {_LONGEST_SECONDS:g} s; see the server's log"
                )
            yield part

    async def aclose(self) -> None:
        await self._body.aclose()


async def _limit_body(response: Any) -> None:
    """Limit the body of an answer; and let the SDK not ask again for what is too much for the server."""
    url = response.request.url
    most = _MOST_EMBEDDING_BYTES if url.path.endswith("/embeddings") else _MOST_BYTES
    response.stream = _LimitedStream(response.stream, most, f"{url.scheme}://{url.netloc.decode()}{url.path}")
    if response.status_code == 500 and TOO_MUCH.search((await response.aread()).decode(errors="replace")):
        response.headers["x-should-retry"] = "false"


def shorten(text: str) -> str:
    """The beginning of what a server says, for a message; without "; ", behind which messages say what to do."""
    text = text.replace("; ", ", ")
    return text if len(text) <= _MOST_TOLD else f"{text[:_MOST_TOLD].rstrip()} …"


def text_of_error(told: object) -> str:
    """What a server said is wrong, in whatever form: the SDK's own message has it only in that of OpenAI."""
    if isinstance(told, list) and len(told) == 1:  # as Gemini has it
        told = told[0].get("error", told[0]) if isinstance(told[0], dict) else told[0]
    if isinstance(told, dict):
        told = next((told[name] for name in ("message", "detail") if told.get(name)), told)
    text = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False) if told else ""
    if page := re.search("<title>(.*?)</title>|<body.*", text[:_PAGE_READ], re.IGNORECASE | re.DOTALL):
        text = page[1] or re.sub("<[^>]*>", " ", page[0])
    return " ".join(text.split())


@dataclass(slots=True)
class _Connections:
    """The connections of one event loop, and how many endpoints use them."""

    http: Any
    holders: int = 0


@dataclass(slots=True)
class _Lease:
    """What one endpoint has in one event loop: a client over the shared connections, and slots for its requests."""

    client: openai.AsyncOpenAI
    slots: asyncio.Semaphore


# Connections belong to the event loop that opened them.
_open: WeakKeyDictionary[asyncio.AbstractEventLoop, _Connections] = WeakKeyDictionary()


class Endpoint:
    """The address of a model, with its timeout, retries and limit on concurrency.

    All endpoints of an event loop share its connections.

    Args:
        base_url: The address before the paths, such as `https://api.openai.com/v1`; white space around it is left out.
            What it asks for (`?api-version=2024-10-21`) is asked for with each request.
        api_key: The key, which appears in no repr, log or error; white space around it is left out. Many local servers
            need none.
        timeout_seconds: How long each attempt waits for the server to send something.
        max_retries: How often to try again after a failure that may pass.
        max_concurrency: How many requests are sent at the same time; further ones wait.

    Raises:
        ConfigurationError: The key has a character that no HTTP header may have, or the address is none.
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
        # What is read from a file ends with a line break.
        self.base_url = base_url.strip().rstrip("/")
        try:
            _transport.URL(self.base_url)
            _ = urlsplit(self.base_url).port  # the transport itself finds only while it connects that it is too large
        except (_transport.InvalidURL, ValueError) as error:
            raise ConfigurationError(f"base_url {self.base_url!r} is no address: {error}; correct it") from None
        if not re.match("https?://[^/]", self.base_url):
            raise ConfigurationError(
                f"base_url {self.base_url!r} is no address; it begins with http:// or https:// and a host"
            )
        key = (api_key.get_secret_value() if isinstance(api_key, SecretStr) else api_key).strip()
        if not (key.isascii() and key.isprintable()):
            raise ConfigurationError(
                f"the api_key for {self.address} has a line break or another character that no key has; copy it again"
            )
        self._key = SecretStr(key)
        self._timeout_seconds = timeout_seconds
        self._timeout = openai.Timeout(timeout_seconds, connect=min(CONNECT_SECONDS, timeout_seconds))
        self._max_retries = max_retries
        self._max_concurrency = max_concurrency
        self._leases: WeakKeyDictionary[asyncio.AbstractEventLoop, _Lease] = WeakKeyDictionary()

    @property
    def address(self) -> str:
        """The base URL without user, password and query, for messages."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def __repr__(self) -> str:
        return f"Endpoint({self.address!r})"

    @asynccontextmanager
    async def session(self, model: str) -> AsyncIterator[openai.AsyncOpenAI]:
        """The client for one exchange with `model`, as soon as fewer than `max_concurrency` others run.

        Raises:
            ModelUnavailableError: The endpoint can't be reached, takes too long, limits the rate or fails (5xx).
            ModelAnswerError: It answers with something that isn't JSON, or with too much.
            ModelError: It refuses the key or the request.
        """
        lease = await self._lease()
        async with lease.slots:
            try:
                yield lease.client
            except openai.APITimeoutError:
                raise ModelUnavailableError(
                    f"{self._where(model)} did not answer within {self._timeout_seconds:g} s; raise "
                    "timeout_seconds, or see whether the server is overloaded"
                ) from None
            except _CONNECTION_ERRORS as error:
                # The SDK takes the error of `_LimitedStream` for one of the connection.
                if isinstance(error.__cause__, ModelError):
                    raise error.__cause__ from None
                cause = self._redact(str(error.__cause__ or error)) or "the connection broke off"
                advice = next(
                    (told for sign, told in _ADVICE.items() if sign in cause), "check base_url, and that it is running"
                )
                raise ModelUnavailableError(f"{self._where(model)} could not be reached ({cause}); {advice}") from None
            except openai.APIStatusError as error:
                raise self._status_error(model, error) from None
            except openai.APIError as error:
                message = f"{model} at {self.address} failed: {self._redact(error.message)}; see the server's log"
                raise ModelError(message) from None
            except (json.JSONDecodeError, UnicodeDecodeError) as error:
                # The SDK does not wrap these.
                message = f"{model} at {self.address} answered with broken JSON: {error}"
                raw = error.doc if isinstance(error, json.JSONDecodeError) else error.object.decode(errors="replace")
                raise ModelAnswerError(message, raw=raw) from None

    async def post(self, model: str, path: str, body: dict[str, Any]) -> dict[str, Any] | list[Any]:
        """Post JSON to a path that the SDK has no method for; returns the JSON object or array of the answer."""
        async with self.session(model) as client:
            answer = await client.post(path, body=storable(body), cast_to=object)
        if not isinstance(answer, dict | list):
            raise self.not_json_error(model, answer)
        return answer

    def check(self, model: str, answer: BaseModel) -> None:
        """Raise the error that an answer tells of: LM Studio, OpenRouter and others do that with the status 200."""
        if told := self._redact(text_of_error((answer.model_extra or {}).get("error"))):
            raise ModelError(f"{self._where(model)} answered with an error ({shorten(told)}); correct what it names")

    def not_json_error(self, model: str, answer: object) -> ModelAnswerError:
        """The error to raise for an answer that is no JSON object."""
        # Most often it is a web page, because the address is wrong.
        return ModelAnswerError(
            f"{model} at {self.address} did not answer with a JSON object; check base_url (it often ends in /v1)",
            raw=str(answer),
        )

    async def aclose(self) -> None:
        """Release the connections; the last endpoint that uses them closes them."""
        loop = asyncio.get_running_loop()
        if self._leases.pop(loop, None) is not None:
            _open[loop].holders -= 1
            if _open[loop].holders == 0:
                await _open.pop(loop).http.aclose()

    async def _lease(self) -> _Lease:
        loop = asyncio.get_running_loop()
        if loop not in _open:
            # In a thread, since it reads files.
            try:
                http = await asyncio.to_thread(openai.DefaultAsyncHttpxClient, event_hooks={"response": [_limit_body]})
            except (ImportError, OSError, ValueError, _transport.InvalidURL) as error:
                # Of a variable of the environment, or of what it names.
                raise ModelError(
                    f"no model can be reached from here ({error or type(error).__name__}); see HTTP_PROXY, HTTPS_PROXY,"
                    " ALL_PROXY and SSL_CERT_FILE in the environment"
                ) from None
            _open.setdefault(loop, _Connections(http))  # another request may have made them meanwhile
        if loop not in self._leases:
            _open[loop].holders += 1
            address, _, query = self.base_url.partition("?")
            asked = dict(parse_qsl(query))
            # Azure's older addresses name a version, and take the key by another header.
            version = asked.get("api-version")
            client = (partial(openai.AsyncAzureOpenAI, api_version=version) if version else openai.AsyncOpenAI)(
                base_url=address,
                default_query=asked,
                # Without a key the SDK would take one from the environment and send it to this server.
                api_key=self._key.get_secret_value() or "unset",
                http_client=_open[loop].http,
                timeout=self._timeout,
                max_retries=self._max_retries,
            )
            self._leases[loop] = _Lease(client, asyncio.Semaphore(self._max_concurrency))
        return self._leases[loop]

    def _where(self, model: str) -> str:
        parts, proxies = urlsplit(self.base_url), getproxies()
        is_by_proxy = (proxies.get(parts.scheme) or proxies.get("all")) and not proxy_bypass(parts.hostname or "")
        by = " (by the proxy that the environment names, unless NO_PROXY has the host)" if is_by_proxy else ""
        return f"{model} at {self.address}{by}"

    def _status_error(self, model: str, error: openai.APIStatusError) -> ModelError:
        status, told = error.status_code, self._redact(text_of_error(error.body))
        where = self._where(model)
        reason = f"{status}: {shorten(told)}" if told else str(status)
        if status in (401, 403):
            return ModelError(f"{where} refused the key ({reason}); check api_key")
        if status == 402:
            return ModelError(f"{where} wants to be paid first ({reason}); see your account there")
        if status in (404, 405):
            hint = "check model_name, and base_url: it often ends in /v1, and never in /chat/completions or the like"
            return ModelError(f"{where} was not found ({reason}); {hint}")
        if status in (408, 409, 429) or (status >= 500 and not (status == 500 and TOO_MUCH.search(told))):
            return ModelUnavailableError(f"{where} is not available now ({reason}); try again later")
        return ModelRefusedError(f"{where} refused the request ({reason}); correct what it names")

    def _redact(self, text: str) -> str:
        key = self._key.get_secret_value()
        # A placeholder such as "x" is no secret, and replacing it would make the message unreadable.
        return text.replace(key, "***") if len(key) > 4 else text
