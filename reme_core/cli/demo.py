"""`reme demo`: memory at work, in a terminal, within seconds of the installation."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from reme_core.cli import output
from reme_core.cli.session import Commands, Session
from reme_core.errors import ConflictError, DatabaseError, NotFoundError

if TYPE_CHECKING:
    from reme_core import Settings
    from reme_core.demo import DemoResult, Question
    from reme_core.engine import Engine
    from reme_core.types import Recollection

app = Commands()

_SQL = (
    "select query, rank, content, vector, lexical, time, final from reme.recall_log"
    " where workspace_id = 'demo' order by asked_at desc, rank limit 9"
)


@app.command()
def demo(
    session: Session,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="On a Postgres of its own, which is gone afterwards.")
    ] = False,
) -> None:
    """Show memory at work: what is stored, what is recalled for three questions, and why.

    It runs offline, in the workspace 'demo' of the embedded Postgres. If another database is set (DATABASE_URL), it
    runs there, in a workspace of its own that it erases in the end. It always uses the embedding model that came with
    the installation.
    """
    if session.settings.database_url is None or ephemeral:
        _show_on_embedded(session, ephemeral)
    else:
        _show_on_given(session)


def _show_on_embedded(session: Session, ephemeral: bool) -> None:
    with _embedded_settings(session, ephemeral) as settings, session.spinner("Remembering …"):
        story = asyncio.run(_tell(settings))
    # It also starts the server, which stops soon after its last user.
    plain = not session.options.assignments and not session.options.config
    url = f"{_reme()} db url" + ("" if plain else f" --set {shlex.quote(f'data_dir={settings.data_dir}')}")
    command = None if ephemeral else f'{_psql()} "$({url})" -c "{_SQL}"'
    session.show(_as_data(story, command), *_as_text(story, command))


@contextmanager
def _embedded_settings(session: Session, ephemeral: bool) -> Iterator[Settings]:
    """Settings that name an embedded Postgres and nothing else, whatever the environment says."""
    from reme_core import Settings
    from reme_core.postgres.embedded.server import stop_embedded

    if not ephemeral:
        yield Settings(data_dir=session.settings.data_dir)
        return
    folder = Path(tempfile.mkdtemp(prefix="reme-demo-"))
    try:
        yield Settings(data_dir=folder)
    finally:
        stop_embedded(folder)
        shutil.rmtree(folder, ignore_errors=True)  # the server may still be closing a file


async def _tell(settings: Settings) -> DemoResult:
    from reme_core.demo import run_demo
    from reme_core.engine import Engine

    async with Engine(settings) as reme:
        return await run_demo(reme)


def _show_on_given(session: Session) -> None:
    from reme_core import Settings
    from reme_core.settings import WorkerSettings

    given = session.settings
    settings = Settings(
        data_dir=given.data_dir,
        database_url=given.database_url,
        pooler_url=given.pooler_url,
        limits=given.limits,
        # The jobs of others need their settings; and a worker of theirs has to leave this conversation alone.
        worker=WorkerSettings(embedded=False, after_messages=1000, after_seconds=3600),
    )
    with session.spinner("Remembering …"):
        story, database = asyncio.run(_tell_and_erase(settings))
    where = f"This was in the workspace {story.workspace} of {database}, and erased there in the end."
    session.show(_as_data(story, None), *_as_text(story, None), "", where)


async def _tell_and_erase(settings: Settings) -> tuple[DemoResult, str]:
    """Tell the story in a new workspace, and erase that in the end, also if something fails."""
    from reme_core.demo import WORKSPACE, run_demo
    from reme_core.engine import Engine
    from reme_core.postgres.errors import mask_password
    from reme_core.types import new_id

    workspace = f"{WORKSPACE}-{new_id()}"
    # It erases also what the other engine writes while it closes, such as the log of recalls.
    async with Engine(settings) as eraser:
        try:
            async with Engine(settings) as reme:
                return await run_demo(reme, workspace), mask_password(reme.database.url)
        finally:
            await _erase(eraser, workspace)


async def _erase(reme: Engine, workspace: str) -> None:
    try:
        await reme.workspaces.clear(workspace)
    except NotFoundError:  # it failed before anything was stored
        return
    except (DatabaseError, ConflictError) as error:
        raise DatabaseError(
            f"the demonstration could not erase its workspace {workspace}: {error}; erase it later, with"
            f" `reme clear {workspace}`"
        ) from error


def _reme() -> str:
    """This program as a shell finds it: `make demo` runs it in an environment that is not the shell's."""
    return "reme" if shutil.which("reme") else shlex.quote(str(Path(sys.executable).with_name("reme")))


def _psql() -> str:
    """The user's own psql, or the one that came with the embedded server."""
    from reme_core.postgres.embedded.files import postgres_binary

    return "psql" if shutil.which("psql") else shlex.quote(str(postgres_binary("psql")))


def _as_data(story: DemoResult, command: str | None) -> dict[str, Any]:
    def answer_data(question: Question, found: Recollection) -> dict[str, Any]:
        hits = [
            {"rank": h.rank, "memory_id": h.memory.memory_id, "text": output.memory_text(h.memory), "parts": h.parts}
            for h in found.hits
        ]
        return {"question": question.text, "kind": question.kind, "time": question.time, "hits": hits}

    stored = {
        "messages": [
            m.model_dump(include={"message_id", "session_id", "sent_at", "author", "content"}) for m in story.messages
        ],
        "memories": [
            m.model_dump(include={"memory_id", "kind", "when_to_use", "content"})
            for m in (*story.observations, *story.experience)
        ],
    }
    return {
        "workspace": story.workspace,
        "stored": stored,
        "answers": [answer_data(*answer) for answer in story.answers],
        "psql": command,
    }


def _as_text(story: DemoResult, command: str | None) -> list[RenderableType]:
    lines: list[RenderableType] = ["", _title("What was stored"), _conversation(story), _memories(story)]
    lines.append(_title("What is recalled, and why"))
    for question, found in story.answers:
        lines += ["", _question(question), output.hits_table(found.hits, explain=True)]
    lines.append(_legend())
    if command:
        lines += ["", _title("Look for yourself"), Text("It is all in Postgres, the log of these recalls as well:\n")]
        lines.append(f"  {command}")
    return lines


def _title(text: str) -> Text:
    return Text.assemble(("━━ ", "cyan"), (text, "bold cyan"), (" ━━", "cyan"))


def _conversation(story: DemoResult) -> Table:
    sessions = len({message.session_id for message in story.messages})
    title = f"A conversation: {len(story.messages)} messages in {sessions} sessions"
    shown = output.table("when", "who", "said", title=title, wide="said")
    for message in story.messages:
        if message.role == "user":
            shown.add_row(output.day(message.sent_at), message.author, _line(message.content))
    return shown


def _memories(story: DemoResult) -> Table:
    from reme_core.demo import SUPERSEDED

    title = f"Memories: {len(story.observations)} about people, {len(story.experience)} of experience with tasks"
    shown = output.table("kind", "remembered", title=title, wide="remembered")
    for memory in (*story.observations, *story.experience):
        text = _line(output.memory_text(memory).replace("\n", " → "))
        if memory.memory_id == SUPERSEDED:
            text = Text.assemble(("superseded: ", "yellow"), (text.plain, "dim"), no_wrap=True, overflow="ellipsis")
        shown.add_row(str(memory.kind), text)
    return shown


def _line(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")


def _question(question: Question) -> Text:
    asked = Text.assemble(("» ", "cyan bold"), (question.text, "bold"), (f"   {question.remark}", "dim italic"))
    if question.time and question.time.start and question.time.end:
        asked.append(f"\n  {output.day(question.time.start)} ≤ time < {output.day(question.time.end)}", "dim")
    return asked


def _legend() -> Text:
    return Text(
        "meaning: similarity of the embeddings · words: BM25 · both from 0 to 1 over the candidates of a question, and"
        " mixed by `recall.vector_share` · time: a factor on that · score: what decides the rank · fits: the chance"
        " that it answers",
        "dim",
    )
