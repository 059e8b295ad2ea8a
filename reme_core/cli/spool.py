"""`reme spool`: turns that wait for the database on this machine, and what it refuses."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from reme_core.cli import output
from reme_core.cli.session import Commands, Session
from reme_core.errors import InputError

if TYPE_CHECKING:
    from reme_core.spool.waiting import Spool

app = Commands(help="Turns of agents that the database has not taken, on this machine.", no_args_is_help=True)

File = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="A spool of your own; default: the one in `data_dir`.")
]


@app.command("list")
def list_turns(session: Session, file: File = None) -> None:
    """List what waits, and what the database refuses and why. Refused turns are kept until they are erased."""
    spool = _open_spool(session, file)
    waiting, refused = spool.entries(), spool.refusals()
    table = output.table("STATUS", "WORKSPACE", "WHAT", "WHY", wide="WHY")
    for entry in (*refused, *waiting):
        messages, calls = len(entry.messages), len(entry.calls)
        what = output.count_of(messages, "messages") if messages else output.count_of(calls, "tool calls")
        status = Text("refused", "bold red") if entry.refusal else Text("waits", "cyan")
        table.add_row(status, entry.workspace, what, entry.refusal)
    nothing = f"Nothing waits in {spool}, and nothing was refused."
    session.show({"waiting": waiting, "refused": refused}, table if waiting or refused else nothing)


@app.command()
def retry(session: Session, file: File = None) -> None:
    """Let what was refused wait again: the next turn that is recorded on this machine delivers it."""
    again = _open_spool(session, file).accept()
    session.show(
        {"again": again}, f"{output.count_of(again, 'turns')} will be tried again." if again else "Nothing was refused."
    )


def _open_spool(session: Session, file: Path | None) -> Spool:
    from reme_core.spool.waiting import Spool, spool_path

    if file is not None and file.exists() and not _is_spool(file):
        raise InputError(f"{file} is no spool; name the file that the adapter was given")
    return Spool(spool_path(file or "file", session.settings))


def _is_spool(file: Path) -> bool:
    # A `Spool` takes any other file for a broken one, which it renames.
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as opened:
            return opened.execute("select 1 from sqlite_schema where name = 'turn'").fetchone() is not None
    except sqlite3.DatabaseError as error:
        return error.sqlite_errorcode != sqlite3.SQLITE_NOTADB
