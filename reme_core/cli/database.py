"""`reme db`: the database's schema and address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from reme_core.cli.output import table
from reme_core.cli.session import Session, with_session

if TYPE_CHECKING:
    from reme_core import Settings

app = typer.Typer(help="The database: its schema, its address.", no_args_is_help=True)


@app.command()
@with_session
def upgrade(session: Session) -> None:
    """Bring the schema up to this release. Safe to run from several machines at once.

    The embedded Postgres needs none of it: that one is brought up to date whenever it is opened.
    """
    from reme_core.postgres import migrate

    url = _url(session.settings)
    before, newest = migrate.status(url)
    migrate.upgrade(url)
    done = f"is at {newest} already" if before == newest else f"went from {before or 'nothing'} to {newest}"
    session.show({"before": before, "now": newest}, f"The schema {done}.")


@app.command()
@with_session
def status(session: Session) -> None:
    """Show which database is used, and its schema's version. Ends with 4 when that isn't this release's."""
    from reme_core.postgres import migrate
    from reme_core.postgres.errors import mask_password

    settings = session.settings
    embedded = settings.database_url is None
    url = _url(settings)
    version, newest = migrate.status(url)
    facts = {
        "database": mask_password(url),
        "embedded": embedded,
        "data_dir": settings.data_dir if embedded else None,
        "version": version,
        "newest_version": newest,
        "current": version == newest,
    }
    shown = table("setting", "value")
    for name, value in facts.items():
        words = {True: "yes", False: "no", None: "–"}
        shown.add_row(name.replace("_", " "), words[value] if isinstance(value, bool | None) else str(value))
    advice = "Run `reme db upgrade`."
    if version is not None and version not in migrate.versions():
        advice = f"It was {migrate.unknown_version_advice(version)}."
    session.show(facts, shown, *([] if version == newest else [advice]))
    if version != newest:
        raise typer.Exit(4)


@app.command()
@with_session
def url(session: Session) -> None:
    """Print the address of the database, password included: [bold]psql "$(reme db url)"[/bold].

    The embedded Postgres is started if it isn't running, and goes on for as long as somebody is connected.
    """
    address = _url(session.settings)
    if session.options.as_json:
        session.show({"url": address})
    else:
        typer.echo(address)


def _url(settings: Settings) -> str:
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
