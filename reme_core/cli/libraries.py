"""Whole workspaces: `reme workspaces`."""

from __future__ import annotations

import typer

from reme_core.cli import output
from reme_core.cli.session import Session, with_session

app = typer.Typer()


@app.command()
@with_session
def workspaces(session: Session) -> None:
    """List the workspaces."""
    with session.opened() as reme:
        names = reme.workspaces.list()
    shown = output.table("workspace")
    for name in names:
        shown.add_row(name)
    session.show(names, shown)
