"""The services: `reme serve`, `reme mcp`, and the keys to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from reme_core.cli import output
from reme_core.cli.session import Commands, Session, confirm, parse_time
from reme_core.errors import InputError

if TYPE_CHECKING:
    from reme_core.server.auth import ApiKeys

Answer = TypeVar("Answer")

app = Commands()
keys_app = Commands(help="API keys of the services.", no_args_is_help=True)


@app.command()
def serve(
    session: Session,
    host: Annotated[str | None, typer.Option(help="Address to listen on; default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; default: 8002.")] = None,
) -> None:
    """Run the HTTP service: every flow as POST /FLOW, /v1, /mcp, /health, /metrics and /docs."""
    from reme_core.server.run import run_until_stopped, serve_http

    settings = session.settings
    settings.http.host = host or settings.http.host
    settings.http.port = settings.http.port if port is None else port
    run_until_stopped(serve_http, settings)


@app.command()
def mcp(
    session: Session,
    transport: Annotated[
        Literal["stdio", "sse", "http"] | None, typer.Option(help="How to speak it; default: stdio.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on (sse, http).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (sse, http); default: 8002.")] = None,
) -> None:
    """Run the MCP service: the flows as tools, memories as resources."""
    from reme_core.server.run import run_until_stopped, serve_mcp

    settings = session.settings
    if transport is not None:
        settings.mcp.transport = transport
    if settings.mcp.transport == "stdio" and (host is not None or port is not None):
        raise InputError("--host and --port are for --transport sse and http; stdio listens nowhere")
    settings.mcp.host = host or settings.mcp.host
    settings.mcp.port = settings.mcp.port if port is None else port
    run_until_stopped(serve_mcp, settings)


@keys_app.command("create")
def create_key(
    session: Session,
    label: Annotated[str, typer.Argument(help="Whom or what it is for.")] = "",
    workspace: Annotated[
        list[str], typer.Option("--workspace", "-w", help="A workspace that it opens; default: all. Repeatable.")
    ] = [],  # noqa: B006 - typer copies it
    expires: Annotated[
        datetime | None,
        typer.Option(
            parser=parse_time, metavar="TIME", help="When it ends, such as 2099-01-01; UTC unless it has a zone."
        ),
    ] = None,
) -> None:
    """Make a key and show it once; it cannot be shown again. From then on the services ask for a key."""
    if expires is not None and expires <= datetime.now(UTC):
        raise InputError(f"--expires takes a time to come, and {expires.isoformat(' ')} is over")
    key = _use_keys(session, lambda keys: keys.create(label, workspace or None, expires_at=expires))
    session.show({"key": key}, key)


@keys_app.command("list")
def list_keys(session: Session) -> None:
    """List all keys, without their secrets."""
    found = _use_keys(session, lambda keys: keys.list())
    shown = output.table("id", "label", "workspaces", "created", "state")
    for key in found:
        until = f" until {output.moment(key.expires_at)}" if key.expires_at else ""
        state = f"active{until}" if key.is_active else "revoked" if key.revoked_at else "expired"
        shown.add_row(key.key_id, key.label, ", ".join(key.workspaces or ["all"]), f"{key.created_at:%Y-%m-%d}", state)
    session.show([asdict(key) for key in found], shown)


@keys_app.command("revoke")
def revoke_key(session: Session, key_id: Annotated[str, typer.Argument(help="The id that `list` shows.")]) -> None:
    """Make a key invalid. The services go on asking for keys."""
    _use_keys(session, lambda keys: keys.revoke(key_id))
    session.show({"revoked": key_id}, f"Revoked {key_id}.")


@keys_app.command("clear")
def clear_keys(session: Session, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Delete all keys: the services ask for none afterwards."""
    if not yes:
        confirm("Delete all keys, so that whoever reaches the services may use them?")
    count = _use_keys(session, lambda keys: keys.clear())
    session.show({"deleted_count": count}, f"Deleted {output.count_of(count, 'keys')}; the services ask for none now.")


def _use_keys(session: Session, use: Callable[[ApiKeys], Awaitable[Answer]]) -> Answer:
    from reme_core.postgres.database import Database
    from reme_core.server.auth import ApiKeys

    async def run() -> Answer:
        async with await Database.open(session.settings) as database:
            return await use(ApiKeys(database))

    return asyncio.run(run())
