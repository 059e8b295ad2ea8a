"""`reme db`: the database's schema, its address, backups of it, and its spreading over several servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from reme_core.cli.output import count_of, print_text, table
from reme_core.cli.session import Commands, Session

if TYPE_CHECKING:
    from rich.table import Table

    from reme_core import Settings
    from reme_core.postgres.backup import BackupReport
    from reme_core.postgres.distribute import Node, Step
    from reme_core.postgres.index_builds import IndexBuild

app = Commands(help="The database: its schema, its address, backups, several servers.", no_args_is_help=True)


@app.command()
def upgrade(session: Session) -> None:
    """Bring the schema up to this release. Safe to run from several machines at once.

    The embedded Postgres does not need this: it is brought up to date whenever it is opened.
    """
    from reme_core.postgres import migrate

    url = address_of(session.settings)
    before, newest = migrate.status(url)
    with session.spinner("Upgrading …"):
        migrate.upgrade(url)
    done = f"is at {newest} already" if before == newest else f"went from {before or 'nothing'} to {newest}"
    session.show({"before": before, "now": newest}, f"The schema {done}.", *_unspread_lines(url))


@app.command()
def status(
    session: Session,
    workspace: Annotated[str, typer.Option("--workspace", "-w", help="Also show which server it is on.")] = "",
) -> None:
    """Show which database is used, and its schema's version. Ends with 4 if that is not this release's.

    Where the tables are distributed, their servers are shown; and indexes that are being built, with how far they are.
    """
    from reme_core.postgres import distribute, migrate
    from reme_core.postgres.embedded.files import postgres_binary
    from reme_core.postgres.errors import mask_password
    from reme_core.postgres.index_builds import index_builds

    settings = session.settings
    embedded = settings.database_url is None
    url = address_of(settings)
    version, newest = migrate.status(url)
    facts = {
        "database": mask_password(url),
        "embedded": embedded,
        "data_dir": settings.data_dir if embedded else None,
        "programs": postgres_binary("psql").parent if embedded else None,
        "version": version,
        "newest_version": newest,
        "current": version == newest,
    }
    nodes, node = distribute.nodes(url, workspace)
    if nodes and workspace:
        facts["workspace_is_on"] = node
    shown = table("setting", "value")
    for name, value in facts.items():
        words = {True: "yes", False: "no", None: "–"}
        shown.add_row(name.replace("_", " "), words[value] if isinstance(value, bool | None) else str(value))
    advice = "Run `reme db upgrade`."
    if version is not None and version not in migrate.versions():
        advice = f"It was {migrate.unknown_version_advice(version)}."
    servers = [_nodes_table(nodes)] if nodes else []
    builds = index_builds(url)
    answer = facts | ({"nodes": [asdict(node) for node in nodes]} if nodes else {})
    answer |= {"index_builds": [asdict(build) for build in builds]} if builds else {}
    lines = [] if version == newest else [advice]
    session.show(answer, shown, *servers, *map(_build_line, builds), *lines, *_unspread_lines(url))
    if version != newest:
        raise typer.Exit(4)


def _unspread_lines(url: str) -> list[str]:
    """What to do where a part of the tables is distributed only; nothing elsewhere."""
    from reme_core.postgres import distribute
    from reme_core.postgres.connect import connect

    with connect(url, autocommit=True) as connection:
        waiting = distribute.unspread(connection)
    return [f"Not distributed yet: {', '.join(waiting)}. Run `reme db distribute`."] if waiting else []


def _build_line(build: IndexBuild) -> str:
    far = "" if build.share_read is None else f", {build.share_read:.0%} of the table"
    return f"The index {build.index} is being built: {build.phase}{far}."


@app.command()
def distribute(
    session: Session,
    shards: Annotated[int, typer.Option(min=1, help="Into how many parts the tables are cut, for good.")] = 32,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
) -> None:
    """Spread the tables over the nodes of a Citus cluster, by workspace. What was done before is not done again.

    Citus has to be on all nodes, and the coordinator has to know them; that is checked before anything is changed.
    Nobody can write to a table while it is moved.
    """
    from reme_core.postgres.distribute import distribute, steps

    url = address_of(session.settings)
    if dry_run:
        _show_steps(session, "to do", steps(url, shards))
        return
    with session.progress("Spreading the tables …") as progress:
        done = distribute(url, shards, on_step=progress)
    _show_steps(session, "done", done)


@app.command()
def rebalance(session: Session) -> None:
    """Move parts of the tables until all nodes hold about the same amount. Others can go on working meanwhile."""
    from reme_core.postgres.distribute import rebalance

    with session.progress("Moving …") as progress:
        moved = rebalance(address_of(session.settings), on_step=progress)
    session.show({"moved": moved}, f"{moved} parts were moved." if moved else "The nodes hold about as much already.")


@app.command()
def url(session: Session) -> None:
    """Print the address of the database, password included: [bold]psql "$(reme db url)"[/bold].

    The embedded Postgres is started if it isn't running, and goes on for as long as somebody is connected.
    """
    address = address_of(session.settings)
    if session.options.as_json:
        session.show({"url": address})
    else:
        print_text(address)


@app.command()
def backup(
    session: Session, file: Annotated[Path, typer.Argument(help="Where to write it; a file that is there is replaced.")]
) -> None:
    """Write all workspaces to one file, from one snapshot, while others go on working."""
    from reme_core.postgres.backup import backup

    with session.spinner("Writing …"):
        report = backup(address_of(session.settings), file)
    session.show(asdict(report), _report_line(f"wrote {file}", report))


@app.command()
def restore(
    session: Session, file: Annotated[Path, typer.Argument(help="A file that `reme db backup` wrote.")]
) -> None:
    """Fill an empty database from a backup, and check that all of it is there; else nothing is restored."""
    from reme_core.postgres.backup import restore

    with session.spinner("Restoring …"):
        report = restore(address_of(session.settings), file)
    session.show(asdict(report), _report_line("restored", report))


def _show_steps(session: Session, state: str, steps: Sequence[Step]) -> None:
    lines = [f"{state}: {step.what}" for step in steps] or ["The tables are distributed; there is nothing to do."]
    session.show({state.replace(" ", "_"): [step.what for step in steps]}, *lines)


def _nodes_table(nodes: Sequence[Node]) -> Table:
    shown = table("server", "", "parts of tables", "MB", right=("parts of tables", "MB"))
    for node in nodes:
        state = "away" if not node.active else "" if node.holds_workspaces else "holds no workspaces"
        shown.add_row(f"{node.host}:{node.port}", state, f"{node.shards:,}", f"{node.bytes / 1e6:,.1f}")
    return shown


def _report_line(done: str, report: BackupReport) -> Text:
    memories, messages = report.rows["memory"], report.rows["message"]
    counted = ((report.workspaces, "workspaces"), (memories, "memories"), (messages, "messages"))
    return Text(f"{done}: {', '.join(count_of(*of) for of in counted)}", "green")


def address_of(settings: Settings) -> str:
    """The address of the database; an embedded server is started, and its schema upgraded."""
    from reme_core.postgres import migrate
    from reme_core.postgres.embedded.server import embedded_url
    from reme_core.postgres.errors import normalise_url

    if settings.database_url is not None:
        return normalise_url(settings.database_url.get_secret_value())
    url = embedded_url(settings)
    if len(set(migrate.status(url))) > 1:
        migrate.upgrade(url)
    return url
