"""Runs the services: opens the engine, prints the addresses to stderr, and listens until stopped."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import uvicorn
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from starlette.types import ASGIApp
from uvicorn.server import HANDLED_SIGNALS

from reme_core._version import __version__
from reme_core.engine import Engine
from reme_core.errors import ConfigurationError, require_extra
from reme_core.jobs.log import log_to_stderr
from reme_core.models.registry import embedder, offline_reason
from reme_core.postgres.errors import mask_password
from reme_core.server.auth import ApiKeys
from reme_core.server.hosts import LOOPBACK
from reme_core.server.service import open_with_worker
from reme_core.server.stream import GRACE_SECONDS
from reme_core.settings import Settings

log = logging.getLogger(__name__)


async def serve_http(settings: Settings) -> None:
    """Run the HTTP service until it is stopped.

    Raises:
        ReMeError: The database cannot be opened, a flow cannot be built, or the port is taken.
    """
    from reme_core.server.http import PLACES, create_app  # noqa: PLC0415 - its routes take time, and MCP does without

    http = settings.http
    with _bind(http.host, http.port) as listening:
        async with open_with_worker(settings) as reme:
            await _listen(
                reme,
                create_app(reme),
                listening,
                PLACES,
                timeout_keep_alive=http.timeout_keep_alive,
                root_path=http.root_path,
            )


async def serve_mcp(settings: Settings) -> None:
    """Run the MCP service, over the transport that the settings name, until it is stopped.

    Raises:
        ReMeError: The database cannot be opened, a flow cannot be built, or the port is taken.
    """
    with require_extra("mcp"):
        from reme_core.server.mcp import create_mcp_app, run_stdio  # noqa: PLC0415 - the SDK is not needed for HTTP

    mcp = settings.mcp
    if mcp.transport == "stdio":
        async with open_with_worker(settings) as reme:
            await _announce(reme, [("listens", "MCP on stdin and stdout")])
            _raise_if_stopped()
            await run_stdio(reme)
        return
    kind: Literal["sse", "http"] = "sse" if mcp.transport == "sse" else "http"
    with _bind(mcp.host, mcp.port) as listening:
        async with open_with_worker(settings) as reme:
            await _listen(reme, create_mcp_app(reme, kind), listening, {"MCP": "/sse" if kind == "sse" else "/mcp"})


def run_until_stopped(serve: Callable[[Settings], Coroutine[Any, Any, None]], settings: Settings) -> None:
    """Run a service, which logs to stderr, in a new event loop until it ends; SIGTERM or Ctrl-C cancels it once."""
    log_to_stderr(settings.log)
    # What a shell starts in the background ignores SIGINT, and asyncio leaves it so: SIGTERM would be lost as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    # uvloop serves more requests on the same CPU, but is not available everywhere (Windows).
    factory = importlib.import_module("uvloop").new_event_loop if importlib.util.find_spec("uvloop") else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(settings))


async def _announce(reme: Engine, rows: list[tuple[str, str]], *, host: str = "127.0.0.1") -> None:
    """Print to stderr the rows, and which database and models are in use; warn if the service is open to everybody."""
    rows = [*rows, ("database", _database_name(reme.settings)), *_model_rows(reme)]
    warning = ""
    if host not in LOOPBACK and not await ApiKeys(reme.database).has_any():
        warning = (
            f"This service listens on {host} and asks for no key: everybody who reaches it can read, change and"
            " delete all memories.\nMake a key with `reme keys create`, or listen on 127.0.0.1."
        )
    if reme.settings.log.format == "json":
        log.info("ReMe core %s: %s", __version__, "; ".join(f"{name} {value}" for name, value in rows))
        if warning:
            log.warning(warning)
        return
    console = Console(stderr=True, highlight=False)
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(f"[bold]{name}", value)
    console.print(Panel(table, title=f"ReMe core {__version__}", title_align="left", expand=False))
    if warning:
        console.print(Panel(warning, title="WARNING: open to everybody", style="bold red"))


async def _listen(reme: Engine, app: ASGIApp, listening: socket.socket, paths: dict[str, str], **options: Any) -> None:
    _start_listening(listening)
    url = _url_of(listening)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=GRACE_SECONDS + 5,
        **options,
    )
    await _announce(reme, [(name, url + path) for name, path in paths.items()], host=listening.getsockname()[0])
    server = uvicorn.Server(config)
    with _signals_to(server):
        _raise_if_stopped()
        await server.serve(sockets=[listening])


def _raise_if_stopped() -> None:
    # A signal that comes while the engine opens cancels the task, and before Python 3.12 `wait_for` may swallow that.
    if (task := asyncio.current_task()) is not None and task.cancelling():
        raise asyncio.CancelledError


@contextmanager
def _signals_to(server: uvicorn.Server) -> Iterator[None]:
    """Signals stop this server, and do nothing else, within this block."""

    # uvicorn handles them while it serves, and at its end raises them again: that would end the process, or cancel the
    # task, before the engine is closed. Only the main thread gets signals.
    def stop(*_: object) -> None:
        server.should_exit = True

    is_main = threading.current_thread() is threading.main_thread()
    before = {signum: signal.signal(signum, stop) for signum in HANDLED_SIGNALS} if is_main else {}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _bind(host: str, port: int) -> socket.socket:
    """A socket at this address, before the database is opened; it takes no connections yet."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without the protocol, asyncio does not recognise TCP and leaves Nagle's algorithm on, which costs 40 ms an answer.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with _closing_if_refused(listening, host, port):
        listening.bind((host, port))
    return listening


def _start_listening(listening: socket.socket) -> None:
    with _closing_if_refused(listening, *listening.getsockname()[:2]):
        listening.listen()  # two services that start together may both be bound


@contextmanager
def _closing_if_refused(listening: socket.socket, host: str, port: int) -> Iterator[None]:
    try:
        yield
    except (OSError, OverflowError) as error:
        listening.close()
        reason = error.strerror if isinstance(error, OSError) else "a port is a number from 0 to 65535"
        raise ConfigurationError(f"cannot listen on {host}:{port}: {reason}; set another host or port") from None


def _url_of(listening: socket.socket) -> str:
    """The address that was bound; if port 0 was asked for, the system has chosen the port."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _database_name(settings: Settings) -> str:
    if settings.database_url is not None:
        return mask_password(settings.database_url.get_secret_value())
    return f"embedded Postgres in {settings.data_dir}"


def _model_rows(reme: Engine) -> list[tuple[str, str]]:
    settings = reme.settings
    chat = reme.chat.name if reme.chat is not None else offline_reason(settings)
    asked = settings.embedding_model.get("default")
    embedding = embedder(settings).name
    if asked is not None and asked.model_name and not embedding.startswith(asked.model_name):
        embedding += f" (offline: neither a URL nor a key is set for {asked.model_name})"
    ranker = [("reranker", reme.reranker.name)] if reme.reranker is not None else []
    return [("chat", chat), ("embedding", embedding), *ranker]
