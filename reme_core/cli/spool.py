"""`reme spool`: turns that wait for the database on this machine, and what it refuses."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from reme_core.cli import output
from reme_core.cli.session import Commands, Session
from reme_core.errors import InputError, NotFoundError

if TYPE_CHECKING:
    from reme_core.spool.waiting import Spool

app = Commands(help="Turns of agents that the database has not taken, on this machine.", no_args_is_help=True)

_ELSEWHERE = "They wait for a database of another address. If it is this one: `reme spool deliver --file FILE`."
File = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="A spool of your own; default: the one in `data_dir`.")
]


@app.command("list")
def list_turns(session: Session, file: File = None) -> None:
    """List what waits, and what the database refuses and why. Refused turns are kept until they are erased."""
    from reme_core.spool.waiting import other_spools

    spool = _open_spool(session, file)
    waiting, refused = spool.entries(), spool.refusals()
    table = output.table("STATUS", "WORKSPACE", "WHAT", "WHY", wide="WHY")
    for entry in (*refused, *waiting):
        messages, calls = len(entry.messages), len(entry.calls)
        what = output.count_of(messages, "messages") if messages else output.count_of(calls, "tool calls")
        status = Text("refused", "bold red") if entry.refusal else Text("waits", "cyan")
        table.add_row(status, entry.workspace, what, entry.refusal)
    nothing = f"Nothing waits in {spool}, and nothing was refused."
    elsewhere = {} if file else other_spools(session.settings)
    session.show(
        {"waiting": waiting, "refused": refused, "elsewhere": {str(path): turns for path, turns in elsewhere.items()}},
        table if waiting or refused else nothing,
        *(Text(f"{output.count_of(turns, 'turns')} in {path}", "yellow") for path, turns in elsewhere.items()),
        *([_ELSEWHERE] if elsewhere else []),
    )


@app.command()
def deliver(session: Session, file: File = None) -> None:
    """Store in the database what waits. With `--file` also what waited while the database had another address."""
    from reme_core.turn.accounts import Counts
    from reme_core.turn.connections import TurnConnection
    from reme_core.turn.outbox import Outbox

    spool, counts = _open_spool(session, file), Counts()
    waited = len(spool.entries())
    with session.open() as reme, session.spinner("Storing …"):
        outbox = Outbox(TurnConnection(None, reme), spool, counts)
        reme.connection.wait(lambda _: outbox.deliver_all())
    refused, why = len(spool.refusals()), f"`reme spool list{f' --file {file}' if file else ''}` says why"
    session.show(
        {"waited": waited, "messages": counts.messages, "tool_calls": counts.tool_calls, "refused": refused},
        f"{output.count_of(waited, 'turns')} waited in {spool}: {output.count_of(counts.messages, 'new messages')} and "
        f"{output.count_of(counts.tool_calls, 'tool calls')} stored{f'; {refused} refused, {why}' if refused else ''}.",
    )


@app.command()
def retry(session: Session, file: File = None) -> None:
    """Let what was refused wait again: the next turn that is recorded there delivers it, or `reme spool deliver`."""
    again = _open_spool(session, file).accept()
    session.show(
        {"again": again}, f"{output.count_of(again, 'turns')} will be tried again." if again else "Nothing was refused."
    )


def _open_spool(session: Session, file: Path | None) -> Spool:
    from reme_core.spool.waiting import Spool, spool_path

    if file is not None and not os.path.exists(file):  # noqa: PTH110 - `Path.exists` raises where nobody may look
        raise NotFoundError(f"there is no file {file}; a spool is made when a turn first has to wait")
    if file is not None and not _is_spool(file):
        raise InputError(f"{file} is no spool; name the file that the adapter was given")
    spool = Spool(spool_path(file or "file", session.settings))
    spool.check()
    return spool


def _is_spool(file: Path) -> bool:
    # A `Spool` takes any other file for a broken one, which it renames.
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as opened:
            return opened.execute("select 1 from sqlite_schema where name = 'turn'").fetchone() is not None
    except sqlite3.DatabaseError as error:
        return error.sqlite_errorcode != sqlite3.SQLITE_NOTADB
