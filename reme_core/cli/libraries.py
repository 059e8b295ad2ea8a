"""Whole workspaces: `reme workspaces`, `load`, `dump`, `copy`, `clear`, `reembed`."""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.text import Text

from reme_core.cli import output
from reme_core.cli.output import count_of
from reme_core.cli.session import Commands, Scope, Session, Workspace, confirm, require_workspace

app = Commands()

_MOST_ROWS = 100
"""Workspaces that a terminal shows: more are slow to draw, and nobody reads them. A pipe gets all."""


@app.command()
def workspaces(session: Session) -> None:
    """List the workspaces, and what each of them holds."""
    with session.open() as reme:
        found = reme.workspaces.describe()
    numbers = ("memories", "closed", "messages", "episodes")
    shown = output.table("workspace", *numbers, "model", "since", right=numbers)
    drawn = found[:_MOST_ROWS] if output.stdout().is_terminal else found
    for one in drawn:
        counts = (one.memories, one.closed_memories, one.messages, one.episodes)
        model = (one.embedding_model or "") + (" (indexed)" if one.hnsw else "")
        shown.add_row(Text(one.workspace_id, "bold"), *(f"{n:,}" for n in counts), model, output.day(one.created_at))
    more = f"These are the first {_MOST_ROWS} of {len(found):,}; `reme workspaces --json` lists all."
    lines = [shown, *([more] if len(drawn) < len(found) else [])]
    session.show([asdict(one) for one in found], *(lines if found else [Text("There are none yet.", "dim")]))


@app.command()
def load(
    session: Session,
    path: Annotated[Path, typer.Argument(help="A JSONL file, or a folder that holds <workspace>.jsonl.")],
    workspace: Workspace,
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove the memories that are there, and put these in their place.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before replacing.")] = False,
) -> None:
    """Add the memories of a library. If a line is bad, the error names it, and nothing is changed."""
    from reme_core.store.filters import Filters

    with session.open() as reme:
        if replace and not yes and reme.memories.list(workspace, Filters(status=None), limit=1):
            confirm(f"Remove the memories of workspace '{workspace}', and put these in their place?")
        with session.progress("Embedding, then storing") as advance:
            loaded = reme.workspaces.load(workspace, path, replace=replace, on_progress=advance)
    done = f"loaded {count_of(loaded, 'memories')} into '{workspace}'"
    session.show({"workspace": workspace, "loaded": loaded}, Text(done, "green"))


@app.command()
def dump(
    session: Session,
    path: Annotated[
        Path, typer.Argument(help="The JSONL file, or a folder that gets <workspace>.jsonl. - is the standard output.")
    ],
    workspace: Workspace,
) -> None:
    """Write the memories of a workspace to a library."""
    from reme_core.store.libraries.format import library_path

    if str(path) == "-":
        with session.open() as reme, TemporaryDirectory(prefix="reme-dump-") as folder:
            whole = Path(folder, "memories.jsonl")
            reme.workspaces.dump(workspace, whole)
            with whole.open("rb") as lines, output.check_printing():
                shutil.copyfileobj(lines, sys.stdout.buffer)
        return
    with session.open() as reme, session.spinner("Writing …"):
        written = reme.workspaces.dump(workspace, path)
    file = library_path(path, workspace)
    done = f"wrote {count_of(written, 'memories')} of '{workspace}' to {file}"
    session.show({"workspace": workspace, "dumped": written, "path": file}, Text(done, "green"))


@app.command()
def copy(
    session: Session,
    source: Annotated[str, typer.Argument(help="The workspace to copy.")],
    target: Annotated[str, typer.Argument(help="The name of the copy.")],
    replace: Annotated[bool, typer.Option("--replace", help="Clear the target first, if it holds anything.")] = False,
) -> None:
    """Copy a workspace, with its messages, sources and history."""
    with session.open() as reme, session.spinner("Copying …"):
        copied = reme.workspaces.copy(source, target, replace=replace)
    done = f"copied {count_of(copied, 'memories')}"
    session.show({"source": source, "target": target, "copied": copied}, Text(done, "green"))


@app.command()
def clear(
    session: Session,
    workspace: Annotated[str, typer.Argument(help="The workspace to remove.")],
    scope: Scope,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove a workspace, or only what belongs to one person, agent or run in it. This cannot be undone."""
    with session.open() as reme:
        require_workspace(reme, workspace)
        what = f"what is of {' and '.join(map(str, scope.values()))} in '{workspace}'" if scope else f"'{workspace}'"
        if not yes:
            confirm(f"Remove {what} for good?" if scope else f"Remove all of workspace {what} for good?")
        with session.spinner("Removing …"):
            removed = reme.workspaces.clear(workspace, **scope)
    done = f"removed {what}, {count_of(removed, 'memories')}"
    session.show({"workspace": workspace, "removed": removed}, Text(done, "green"))


@app.command()
def reembed(
    session: Session,
    workspace: Workspace,
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Remove the vectors of other models afterwards.")
    ] = False,
) -> None:
    """Move a workspace to the configured embedding model. Until it is done, recall uses the old vectors.

    If it is interrupted, run it again: vectors that are made already are kept.
    """
    with session.open() as reme:
        with session.progress("Embedding") as advance:
            made = reme.workspaces.reembed(workspace, on_progress=advance)
        dropped = reme.workspaces.drop_old_vectors(workspace) if drop_old else 0
    data = {"workspace": workspace, "embedded": made, "dropped": dropped}
    session.show(data, Text(f"made {made:,} vectors, removed {dropped:,} old ones", "green"))
