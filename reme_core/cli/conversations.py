"""What was said: `reme record` stores it, `reme summarise` makes memories of it."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.text import Text

from reme_core.cli import output
from reme_core.cli.session import Commands, Scope, Session, Workspace, hint_at_missing, read_input
from reme_core.errors import InputError

app = Commands()


@app.command()
def record(
    session: Session,
    text: Annotated[
        list[str],
        typer.Argument(
            help='What was said, word for word. - reads the standard input: a list of {"role": …, "content": …} '
            "in JSON, as chat APIs take it."
        ),
    ],
    workspace: Workspace,
    scope: Scope,
    role: Annotated[str, typer.Option(help="Who said it: user, assistant, system or tool.")] = "user",
    conversation: Annotated[str, typer.Option("--session", help="The conversation that it belongs to.")] = "",
) -> None:
    """Store what was said, durably."""
    if any(not content.strip() for content in text):
        raise InputError("a text is empty; give what was said")
    said = _read_conversation() if text == ["-"] else [{"role": role, "content": content} for content in text]
    with session.open() as reme:
        fresh = reme.record(workspace, said, session_id=conversation, wait=True, **scope)
    session.show(fresh, Text(f"recorded {output.count_of(len(fresh), 'messages')} in '{workspace}'", "green"))


@app.command()
def summarise(session: Session, workspace: Workspace) -> None:
    """Make memories now from the conversations that wait, also from those whose summary was given up."""
    with session.open() as reme, session.spinner("Making memories …"):
        told = reme.summarise(workspace)
        missing = [] if told.done or told.failed or told.waiting else hint_at_missing(reme, workspace)
    lines = [Text(f"summarised {output.count_of(len(told.done), 'conversations')} of '{workspace}'", "green")]
    lines += [Text(f"failed: session '{job.session_id}': {job.error}", "yellow") for job in told.failed]
    awaited = [(job.session_id, f"a {job.needs}" if job.needs else "an earlier job") for job in told.waiting]
    lines += [Text(f"waits: session '{session_id}', for {what}", "yellow") for session_id, what in awaited]
    session.show(told, *lines, *missing)


_FORM = 'give [{"role": "user", "content": "…"}]'


def _read_conversation() -> list[dict[str, object]]:
    given = read_input()
    try:
        said = json.loads(given)
    except (ValueError, RecursionError) as error:  # the latter where it is nested a thousand deep
        raise InputError(f"the standard input is no JSON ({error}); {_FORM}") from None
    if not isinstance(said, list):
        raise InputError(f"the standard input is no list; {_FORM}")
    return said
