"""`reme worker`, and `reme jobs`: what waits, what failed, trying again, and throwing away."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from reme_core.cli import output
from reme_core.cli.session import Commands, Session, hint_at_missing, require_workspace
from reme_core.errors import InputError, NotFoundError

if TYPE_CHECKING:
    from reme_core import Settings

log = logging.getLogger(__name__)

worker_app = Commands()
app = Commands(help="Background work: what waits, what was done, what was given up.", no_args_is_help=True)

_STYLES = {
    "todo": "cyan", "doing": "yellow", "succeeded": "green", "failed": "bold red", "cancelled": "dim", "aborted": "dim",
}  # fmt: skip
"""The statuses of jobs, and their styles."""
_MOST = 100_000
"""Jobs that are tried again, or counted, at once."""
_GIVEN_UP = "`reme jobs retry ID` puts a job that failed back into the queue, `reme jobs drop ID` throws it away."
Workspace = Annotated[str | None, typer.Option("--workspace", "-w", help="Only jobs of this workspace.")]


@worker_app.command()
def worker(
    session: Session,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="How many jobs at a time; never two of one workspace.")
    ] = None,
) -> None:
    """Work on background jobs until stopped. Any number of workers may run, on any machine."""
    from reme_core.jobs.log import log_to_stderr

    settings = session.settings
    if concurrency is not None:
        settings.worker.concurrency = concurrency
    log_to_stderr(settings.log)
    asyncio.run(_work(settings))


async def _work(settings: Settings) -> None:
    from reme_core.engine import Engine

    async with Engine(settings) as reme:
        reme.background.start()
        stopped = asyncio.Event()
        for signum in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(signum, stopped.set)
        log.info("working on jobs, %d at a time; Ctrl-C stops", settings.worker.concurrency)
        waiting = asyncio.ensure_future(stopped.wait())
        await asyncio.wait({waiting, reme.background.task}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not stopped.is_set():
            await reme.background.task  # it ended by itself: by an error, which is the command's


@app.command("list")
def list_jobs(
    session: Session,
    workspace: Workspace = None,
    status: Annotated[list[str] | None, typer.Option(help="todo, doing, succeeded or failed; may be repeated.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 50,
) -> None:
    """List jobs, newest first. `--status failed` shows those that were given up.

    A job that is due and stays 'todo' waits for a process that works on jobs: one that records, `reme serve` or
    `reme worker`. `reme summarise` does the jobs of one workspace at once.
    """
    with session.open() as reme:
        jobs = reme.background.jobs(workspace, statuses=status, limit=limit)
        hints = hint_at_missing(reme, workspace) if workspace and not jobs else []
    hints += [_GIVEN_UP] if any(job.status == "failed" for job in jobs) else []
    table = output.table(
        "ID", "TASK", "STATUS", "WORKSPACE", "SESSION", "TRIES", "DUE", "NEEDS", "LAST ERROR", right=["ID", "TRIES"]
    )
    for job in jobs:
        table.add_row(
            str(job.id),
            job.task,
            Text(job.status, _STYLES[job.status]),
            job.workspace,
            job.session_id,
            str(job.attempts),
            output.moment(job.scheduled_at),
            job.needs,
            "" if job.status == "succeeded" else job.error or "",
        )
    session.show(jobs, table if jobs else "No jobs.", *hints)


@app.command()
def show(session: Session, job_id: Annotated[int, typer.Argument(metavar="ID")]) -> None:
    """Show one job, and what happened to it."""
    with session.open() as reme:
        job, events = reme.background.job(job_id)
    table = output.table("WHEN", "EVENT")
    for event, at in events:
        table.add_row(output.moment(at), event)
    about = f"job {job.id}: {job.task} of session '{job.session_id}' in workspace '{job.workspace}', {job.status}"
    noted = "it reported" if job.status == "succeeded" else "it failed"
    why = f"{noted}: {job.error}" if job.error else "it never failed"
    hints = [_GIVEN_UP] if job.status == "failed" else []
    session.show({"job": job, "events": [{"event": e, "at": at} for e, at in events]}, about, why, table, *hints)


@app.command()
def retry(
    session: Session,
    job_ids: Annotated[list[int], typer.Argument(metavar="ID …")] = [],  # noqa: B006 - typer copies it
    workspace: Workspace = None,
    everything: Annotated[bool, typer.Option("--all", help="All that were given up.")] = False,
) -> None:
    """Put jobs that were given up back into the queue.

    Without a chat model here, also summaries that wait for one: what was said is kept word for word, and read later.
    """
    if bool(job_ids) == everything:
        raise InputError("give the ids of jobs, or --all; `reme jobs list --status failed` shows them")
    with session.open() as reme:
        if everything:
            job_ids = [job.id for job in reme.background.jobs(workspace, statuses=["failed"], limit=_MOST)]
        else:  # a wrong id is told before any job is put back
            theirs = {job.id for job in reme.background.jobs(workspace, ids=job_ids, limit=_MOST)}
            if others := set(job_ids) - theirs:
                where = "there is" if workspace is None else f"workspace '{workspace}' has"
                raise NotFoundError(f"{where} no job {min(others)}; `reme jobs list` shows all")
        for job_id in job_ids:
            reme.background.retry(job_id)
    session.show({"retried": job_ids}, f"Back in the queue: {', '.join(map(str, job_ids)) or 'none'}")


@app.command()
def drop(session: Session, job_ids: Annotated[list[int], typer.Argument(metavar="ID …")]) -> None:
    """Throw jobs away. What was said stays stored, and no memories are made of it unless a later job waits."""
    with session.open() as reme:
        for job_id in job_ids:
            reme.background.job(job_id)  # a wrong id is told before anything is thrown away
        for job_id in job_ids:
            reme.background.drop(job_id)
    session.show({"dropped": job_ids}, f"Dropped: {', '.join(map(str, job_ids))}")


@app.command()
def schedule(
    session: Session,
    workspace: Annotated[str, typer.Option("--workspace", "-w", help="Which workspace.")],
    reflect_every: Annotated[
        float | None,
        typer.Option(metavar="HOURS", min=0, help="0 is never; default: as worker.reflect_every_hours says."),
    ] = None,
) -> None:
    """Set how often the memories of a workspace are reflected upon, which forms and updates insights."""
    with session.open() as reme:
        require_workspace(reme, workspace)
        reme.workspaces.schedule(workspace, reflect_every_hours=reflect_every)
        hours = reme.settings.worker.reflect_every_hours if reflect_every is None else reflect_every
    often = f"every {hours:g} hours" if hours else "never"
    session.show({"workspace": workspace, "reflect_every_hours": hours}, f"'{workspace}' is reflected upon {often}.")


@app.command()
def run(session: Session, workspace: Workspace = None) -> None:
    """Do now what waits, and return when it is done."""
    with session.open() as reme, session.spinner("Working …"):
        told = reme.background.do_waiting(workspace)
        left = reme.background.jobs(workspace, statuses=["todo", "failed"], limit=_MOST)
    waiting = f"{output.count_of(len(left), 'jobs')} left" if left else "nothing waits"
    failed = [Text(f"failed: {job.task} of '{job.workspace}': {job.error}", "yellow") for job in told.failed]
    session.show({"left": left}, f"Done; {waiting}.", *failed)
