"""`reme episodes`: what scored attempts taught, how scores develop, and the helper's file in and out."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from reme_core.cli import output
from reme_core.cli.plot import line_plot
from reme_core.cli.session import Commands, Session, Workspace
from reme_core.errors import NotFoundError

app = Commands(help="Scored attempts: their notes, curves and rules.", no_args_is_help=True)

Task = Annotated[str | None, typer.Argument(metavar="[TASK]", help="Only this task.")]
_MOST_PLOTS = 8  # beyond that a table says more


@app.command()
def curve(
    session: Session,
    workspace: Workspace,
    task: Task = None,
    k: Annotated[list[int], typer.Option("--pass-at", "-k", help="Attempts in a group; may be given again.")] = [1],  # noqa: B006 - typer copies it
    solved_from: Annotated[float, typer.Option(help="Score from which an attempt is solved.")] = 1.0,
    width: Annotated[int, typer.Option(min=10, max=200, help="Columns of the plot.")] = 60,
) -> None:
    """Draw the learning curve of each task: the mean of its last ten attempts, and the share of solved ones."""
    with session.open() as reme:
        points = reme.episodes.curve(workspace, task)
        rates = {n: reme.episodes.pass_at_k(workspace, n, solved_from=solved_from) for n in k}
    if not points:
        of_task = f" of task {task!r}" if task else ""
        raise NotFoundError(f"workspace '{workspace}' has no episodes{of_task}; `reme workspaces` shows where some are")
    tasks = {name: list(found) for name, found in groupby(points, key=lambda point: point.task_id)}
    passed = {(n, rate.task_id): rate.rate for n, of_k in rates.items() for rate in of_k}
    names = [f"pass@{n}" for n in k]
    shown = output.table("task", "attempts", "mean", "last 10", "best", *names, right=("attempts",), wide="task")
    plots: list[RenderableType] = []
    for name, found in tasks.items():
        last = found[-1]
        solved = [output.bar(rate) if (rate := passed[n, name]) is not None else Text("–", "dim") for n in k]
        bars = [output.bar(value) for value in (last.mean_score, last.mean_of_last_10, last.best_score)]
        shown.add_row(name, str(len(found)), *bars, *solved)
        if len(tasks) <= _MOST_PLOTS:
            drawn = line_plot([point.mean_of_last_10 for point in found], width=width)
            plots += [Text(f"\n{name}, mean of the last 10 of {len(found)} attempts", "bold"), Text(drawn, "cyan")]
    data = {"points": points, "pass_at_k": [{"k": n, "tasks": of_k} for n, of_k in rates.items()]}
    session.show(data, *plots, shown)


@app.command()
def context(
    session: Session,
    workspace: Workspace,
    task: Task = None,
    max_rules: Annotated[int, typer.Option(min=0, help="Rules of the task, and for all tasks, at most.")] = 5,
    max_recent: Annotated[int, typer.Option(min=0, help="Earlier episodes at most.")] = 3,
    budget: Annotated[int | None, typer.Option(min=0, help="Tokens that the note may take.")] = None,
) -> None:
    """Print the note for the top of a system prompt, exactly as an agent is given it."""
    with session.open() as reme:
        note = reme.episodes.context(workspace, task, max_rules=max_rules, max_recent=max_recent, token_budget=budget)
    if session.options.as_json:
        session.show({"context": note})
    elif note:
        output.print_text(note)


@app.command()
def summary(session: Session, workspace: Workspace) -> None:
    """Show what the episodes left behind, in numbers."""
    with session.open() as reme:
        counted = reme.episodes.summary(workspace)
    facts = output.table("what", "how many", right=("how many",))
    for name in ("total_episodes", "global_rules", "mistakes_stored", "mistake_cards_stored"):
        facts.add_row(name.replace("_", " "), str(counted[name]))
    tasks = output.table("task", "mean score", "rules", title="Tasks", right=("rules",))
    for name in sorted(counted["scores_by_task"]):
        tasks.add_row(name, output.bar(counted["scores_by_task"][name]), str(counted["task_rules"].get(name, 0)))
    cards = output.table("seen", "mistake", "task", title="Mistakes seen most", right=("seen",))
    for card in counted["top_mistake_cards"]:
        cards.add_row(str(card["seen_count"]), card["mistake_type"], card["task_id"])
    session.show(counted, facts, tasks, cards)


@app.command("import")
def import_(
    session: Session, path: Annotated[Path, typer.Argument(help="An agent_memory.json.")], workspace: Workspace
) -> None:
    """Import an agent_memory.json. Nothing is imported if it is broken, or lacks episodes that the workspace has."""
    with session.open() as reme:
        count = reme.episodes.load(workspace, path)
        counted = reme.episodes.summary(workspace)
    data = {"imported": count, "total_episodes": counted["total_episodes"]}
    told = f"imported {output.count_of(count, 'episodes')}; the workspace has {counted['total_episodes']}"
    session.show(data, Text(told, "green"))


@app.command()
def export(
    session: Session,
    path: Annotated[Path, typer.Argument(help="Where to write the agent_memory.json.")],
    workspace: Workspace,
    bounded: Annotated[
        bool, typer.Option("--bounded", help="Only what the helper would have kept: 100 episodes, 10 rules a task.")
    ] = False,
) -> None:
    """Export to an agent_memory.json, in one step: a reader sees the old file or the new one."""
    with session.open() as reme:
        count = reme.episodes.dump(workspace, path, bounded=bounded)
    told = f"wrote {output.count_of(count, 'episodes')} to {path}"
    session.show({"path": path, "episodes": count}, Text(told, "green"))
