"""`reme doctor`: checks whether everything that memory needs is installed and works, and says what to do if not."""

from __future__ import annotations

import asyncio
import importlib.util
import platform
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

import reme_core
from reme_core.cli import output
from reme_core.cli.database import address_of
from reme_core.cli.session import Commands, Session
from reme_core.errors import ConfigurationError, DatabaseError, ReMeError, SchemaError

if TYPE_CHECKING:
    from reme_core import Settings
    from reme_core.postgres.connect import Connection
    from reme_core.settings.sections import ModelSettings

app = Commands()

_LEAST_DISK = 2**30  # bytes: the embedded Postgres is refused writes when the disk is full
_MOST_CLOCK_SECONDS = 5.0  # "yesterday" is computed by the clock of this machine, recorded_at by the database's
_MOST_JOB_SECONDS = 900.0  # a worker looks for due jobs every two seconds, and the longest take some minutes
_EXTRAS = {  # a module of each
    "server": "fastapi",
    "mcp": "mcp",
    "chat": "prompt_toolkit",
    "langchain": "langgraph",
    "autogen": "autogen_agentchat",
    "agentscope": "agentscope",
    "llamaindex": "llama_index",
}
_STYLES = {"fine": "green", "wrong": "bold red", "not checked": "dim"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found."""

    check: str
    state: str
    """`fine`, `wrong`, or `not checked` where it needs something that is wrong."""
    found: str
    to_do: str = ""


@app.command()
def doctor(session: Session) -> None:
    """Check packages, database, models (one call each), disk, spool and clock. Ends with 1 if anything is wrong."""
    with session.spinner("Checking …"):
        findings = list(_findings(session.settings))
    shown = output.table("check", "", "found", "what to do")
    for one in findings:
        shown.add_row(one.check, Text(one.state, _STYLES[one.state]), one.found, one.to_do)
    session.show([asdict(one) for one in findings], shown)
    if any(one.state == "wrong" for one in findings):
        raise typer.Exit(1)


def _findings(settings: Settings) -> Iterator[Finding]:
    yield _look("python", lambda: f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    yield _look("package", _package)
    yield _look("disk", lambda: _disk(settings))
    yield _look("spool", lambda: _spool(settings))
    yield from _check_database(settings)
    yield from _check_models(settings)


def _look(check: str, find: Callable[[], str], *, advice: str = "") -> Finding:
    """The finding of a check: the text that `find` returns, or the error that it raises and what to do about it."""
    try:
        return Finding(check, "fine", find())
    except ReMeError as error:
        problem, _, own_advice = str(error).partition("; ")
        return Finding(check, "wrong", problem, own_advice or advice)
    except Exception as error:  # whatever is wrong here is shown in its place, beside what else was found
        return Finding(check, "wrong", f"{type(error).__name__}: {error}", "this should not happen; please report it")


def _package() -> str:
    from reme_core.models.local import missing_for_manners

    if missing := missing_for_manners():
        raise ConfigurationError(
            f"{' and '.join(missing)}, for the offline model, is not installed, so without a chat model only what is"
            " commanded becomes a memory; run `pip install --force-reinstall reme-core`"
        )
    extras = [name for name, module in _EXTRAS.items() if importlib.util.find_spec(module)]
    return f"reme-core {reme_core.__version__}" + (f" with {', '.join(extras)}" if extras else "")


def _disk(settings: Settings) -> str:
    folder = settings.data_dir
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        probe = folder / ".doctor"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigurationError(
            f"cannot write to {folder}: {error.strerror}; set REME_HOME to a folder of your own"
        ) from None
    if free < _LEAST_DISK:
        raise ConfigurationError(
            f"{free / 2**20:,.0f} MiB are free in {folder}; make room, or set REME_HOME to another disk"
        )
    return f"{free / 2**30:,.0f} GiB free in {folder}"


def _spool(settings: Settings) -> str:
    """Check that no turn is left behind on this machine."""
    from reme_core.spool.waiting import Spool, other_spools, spool_path

    spool = Spool(spool_path("file", settings))
    spool.check()
    waiting, refused = spool.entries(), spool.refusals()
    if refused:
        raise ReMeError(f"the database refused {output.count_of(len(refused), 'turns')}; `reme spool list` says why")
    if elsewhere := other_spools(settings):
        raise ReMeError(
            f"left for a database of another address: {output.count_of(sum(elsewhere.values()), 'turns')}; "
            "`reme spool list` says where; if it is this one by now, run `reme spool deliver --file FILE`"
        )
    if waiting:
        return f"{output.count_of(len(waiting), 'turns')} to be stored, by the next turn or by `reme spool deliver`"
    return "no turn waits on this machine"


def _check_database(settings: Settings) -> Iterator[Finding]:
    from reme_core.postgres.connect import connect
    from reme_core.postgres.errors import mask_password, translating_errors
    from reme_core.postgres.migrate import require_postgres

    checks = {
        "encoding": lambda connection, _url: str(connection.info.parameter_status("server_encoding")),
        "pgvector": _pgvector,
        "schema": _schema,
        "rights": _rights,
        "room": _room,
        "clock": _clock,
        "jobs": _jobs,
    }
    usable: list[tuple[Connection, str]] = []

    with ExitStack() as stack:

        def reach() -> str:
            url = address_of(settings)
            with translating_errors(url):
                connection = stack.enter_context(closing(connect(url, autocommit=True)))
            require_postgres(connection, url)
            usable.append((connection, url))
            version = connection.info.parameter_status("server_version")
            return f"Postgres {version} at {mask_password(url)}{'' if settings.database_url else ', embedded'}"

        yield _look("postgres", reach)
        if settings.pooler_url is not None:
            yield _look("pooler", partial(_pooler, settings.pooler_url.get_secret_value()))
        for name, check in checks.items():
            if usable:
                yield _look(name, partial(_ask_database, check, *usable[0]))
            else:
                yield Finding(name, "not checked", "there is no database to ask")


def _pooler(given: str) -> str:
    """Check that the pooler, by which all transactions go, reaches the server: it lets callers in without that."""
    from reme_core.postgres.connect import connect
    from reme_core.postgres.errors import mask_password, normalise_url, translating_errors

    url = normalise_url(given)
    with translating_errors(url), closing(connect(url, autocommit=True)) as connection:
        connection.execute("select 1")
    return f"reaches the server from {mask_password(url)}"


def _ask_database(check: Callable[[Connection, str], str], connection: Connection, url: str) -> str:
    from reme_core.postgres.errors import translating_errors

    with translating_errors(url):
        return check(connection, url)


def _pgvector(connection: Connection, url: str) -> str:
    """Check that the extension is there, or that the login role may create it, which is rolled back."""
    from reme_core.postgres.migrate import create_pgvector, require_pgvector

    version = require_pgvector(connection, url)
    if version is None:
        with connection.transaction(force_rollback=True):
            create_pgvector(connection, url)
    return f"pgvector {version}" if version else "there, and made by the first `reme db upgrade`"


def _schema(connection: Connection, url: str) -> str:
    from reme_core.postgres.migrate import current_version, require_current

    require_current(connection, url)
    return f"version {current_version(connection)}, the newest"


def _rights(connection: Connection, url: str) -> str:
    """Check that the login role may write, and that row-level security holds. What is written is rolled back."""
    from reme_core.postgres.errors import mask_password

    with _transaction(connection, url, "reme doctor") as role:
        connection.execute("insert into reme.workspace (workspace_id) values ('reme doctor')")
        seen = connection.execute("select workspace_id from reme.workspace").fetchall()
    if seen != [("reme doctor",)]:
        raise DatabaseError(
            f"one workspace sees others at {mask_password(url)}; run `reme db upgrade` as the owner of the schema"
        )
    return f"reads and writes{f' as {role}' if role else ''}, one workspace at a time"


def _room(connection: Connection, _url: str) -> str:
    """Check that the disk of the server has room: a small row, as in `_rights`, is taken also by one that is full."""
    with connection.transaction():
        connection.execute("set local work_mem = '64kB'")  # the rest of the rows below goes into a file for a moment
        connection.execute("select count(*) from string_to_table(repeat(repeat('x', 1000) || ',', 8000), ',')")
    return "the server had room for a file of 8 MiB"


@contextmanager
def _transaction(connection: Connection, url: str, workspace: str) -> Iterator[str | None]:
    """A transaction as those of the memory, about one workspace or all (`*`), which is rolled back; yields the role."""
    from reme_core.postgres.migrate import current_version
    from reme_core.postgres.session import prepare

    if current_version(connection) is None:
        raise SchemaError("there is no schema yet; run `reme db upgrade`")
    session = prepare(url, embedded=False)
    with connection.transaction(force_rollback=True):
        if session.role is not None:
            connection.execute(f"set local role {session.role}".encode())
        connection.execute(f"set local search_path = {session.search_path}".encode())
        connection.execute(f"set local reme.workspace = '{workspace}'".encode())  # other nodes hear of no `set_config`
        yield session.role


def _jobs(connection: Connection, url: str) -> str:
    """Check that jobs are done, and that none fails."""
    from reme_core.jobs.worker import STALLED_SECONDS
    from reme_core.store.sql import load

    with _transaction(connection, url, "*"):
        queue = load("queue.sql")
        ((due, oldest, _, failed),) = connection.execute(
            queue["load"].encode(), {"stalled": STALLED_SECONDS}
        ).fetchall()
        ((retrying,),) = connection.execute(queue["failed_before"].encode()).fetchall()
    count, are = output.count_of, {True: "is", False: "are"}
    waiting = f"{count(due, 'jobs')} {are[due == 1]} due for {oldest:,.0f} s" if due else "nothing waits"
    if retrying or failed:
        again = f"{count(retrying, 'jobs')} failed and {are[retrying == 1]} tried again"
        raise ReMeError(f"{again}, and {failed} {'was' if failed == 1 else 'were'} given up; `reme jobs list` says why")
    if oldest > _MOST_JOB_SECONDS:
        raise ReMeError(f"{waiting}, and nobody does them; run `reme worker`, with the chat model if they need one")
    return f"{waiting}, and nothing failed"


def _clock(connection: Connection, _url: str) -> str:
    row = connection.execute("select clock_timestamp()").fetchone()
    assert row is not None
    apart = abs((datetime.now(UTC) - row[0]).total_seconds())
    if apart > _MOST_CLOCK_SECONDS:
        raise ConfigurationError(
            f"the clocks here and at the database are {apart:,.0f} seconds apart; synchronise both, as with chrony"
        )
    return f"{apart * 1000:.0f} ms from the database's"


def _check_models(settings: Settings) -> Iterator[Finding]:
    from reme_core.models import registry

    for told in registry.unused_models(settings):
        yield Finding("models", "wrong", *told.split(". ", 1))
    families = ("llm", "embedding_model", "rerank_model")
    settings = settings.model_copy(update={family: _without_retries(getattr(settings, family)) for family in families})
    if not settings.llm:
        yield Finding("llm.default", "fine", registry.offline_reason(settings))
    for name in settings.llm:
        yield from _ask(f"llm.{name}", partial(registry.chat_model, settings, name), _chat)
    for name in settings.embedding_model or ("default",):
        yield from _ask(f"embedding_model.{name}", partial(registry.embedder, settings, name), _embed)
    for name in settings.rerank_model:
        yield from _ask(f"rerank_model.{name}", partial(registry.reranker, settings, name), _rank)


def _without_retries(sections: Mapping[str, ModelSettings]) -> dict[str, ModelSettings]:
    return {name: section.model_copy(update={"max_retries": 0}) for name, section in sections.items()}


def _ask(check: str, make: Callable[[], Any], call: Callable[[Any], Awaitable[str]]) -> Iterator[Finding]:
    """The finding of one call of a model; none if the settings make no model, which `unused_models` reports."""

    async def ask() -> str:
        begun, model = time.perf_counter(), make()
        if model is None:
            return ""
        try:
            told = await call(model)
        finally:
            await model.aclose()
        return f"{model.name} {told} in {time.perf_counter() - begun:.1f} s"

    finding = _look(check, lambda: asyncio.run(ask()), advice="check its URL, key and name")
    if finding.found:
        yield finding


async def _chat(model: Any) -> str:
    await model.complete([{"role": "user", "content": "Answer with OK."}], purpose="doctor")
    return "answered"


async def _embed(model: Any) -> str:
    vectors = await model.embed(["hello"])
    return f"gave a vector of {vectors.shape[1]} dimensions"


async def _rank(model: Any) -> str:
    await model.rank("tea", ["green tea", "a train"])
    return "ranked two texts"
