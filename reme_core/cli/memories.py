"""Single memories: `reme recall`, `add`, `list`, `show`, `update`, `history`, `restore`, `undo`, `delete`."""

from __future__ import annotations

import json
import shlex
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from reme_core.cli import output
from reme_core.cli.session import Commands, Scope, Session, Workspace, hint_at_missing, parse_time, read_input
from reme_core.errors import InputError, NotFoundError

if TYPE_CHECKING:
    from reme_core import ReMe
    from reme_core.types import Evidence, HistoryEntry, Memory, TimeRange

app = Commands()

Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", "-k", help="observation, task, …; a family (personal, task, tool); conversation: messages."),
]


@app.command()
def recall(
    session: Session,
    query: Annotated[str, typer.Argument(help="What to look for, in any language.")],
    workspace: Workspace,
    scope: Scope,
    kind: Kinds = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many, at the most.")] = 10,
    explain: Annotated[bool, typer.Option("--explain", "-e", help="Show what each leg gave to the score.")] = False,
    during: Annotated[
        str | None, typer.Option(help="Only what holds or was said then: 'May 2024', 'last week', '上个月'.")
    ] = None,
    as_of: Annotated[
        datetime | None, typer.Option(parser=parse_time, metavar="TIME", help="Only what was known at this moment.")
    ] = None,
    held_at: Annotated[
        datetime | None, typer.Option(parser=parse_time, metavar="TIME", help="Only what holds at this moment.")
    ] = None,
    subject: Annotated[str | None, typer.Option(help="Only what is about this.")] = None,
    author: Annotated[str | None, typer.Option(help="Only what this author made or said.")] = None,
    conversation: Annotated[str | None, typer.Option("--session", help="Only messages of this session.")] = None,
    min_relevance: Annotated[
        float, typer.Option(help="Find nothing if the chance that anything fits is below this, 0 to 1.")
    ] = 0.0,
    min_stored_score: Annotated[float | None, typer.Option(help="Only memories of at least this stored score.")] = None,
    metadata: Annotated[str | None, typer.Option(metavar="JSON", help="Only what has all this as metadata.")] = None,
    closed: Annotated[bool, typer.Option("--closed", help="Superseded, expired and deleted ones as well.")] = False,
    read_time: Annotated[
        bool, typer.Option("--time/--no-time", help='Heed a time in the query ("in May", "two chats ago").')
    ] = True,
) -> None:
    """Find what is remembered, by meaning and by words."""
    with session.open() as reme:
        found = reme.recall(
            workspace,
            query,
            kind=kind or None,
            limit=limit,
            min_relevance=min_relevance,
            subject=subject,
            status=None if closed else "active",
            happened=None if during is None else _parse_period(session, during),
            as_of=as_of,
            held_at=held_at,
            metadata=None if metadata is None else _parse_metadata(metadata),
            min_stored_score=min_stored_score,
            author=author,
            session_id=conversation,
            time="query" if read_time else None,
            **scope,
        )
        hints = [] if found else hint_at_missing(reme, workspace)
        if not found and "conversation" not in (kind or ()):
            hints += _how_to_see_messages(reme, workspace, query)
    if found:
        session.show(found, output.hits_table(found.hits, explain=explain))
    else:
        session.show(found, f"Nothing in workspace '{workspace}' answers that.", *hints)


@app.command()
def add(
    session: Session,
    text: Annotated[
        list[str],
        typer.Argument(help="What to remember, one memory each; - reads one from each line that is piped in."),
    ],
    workspace: Workspace,
    scope: Scope,
    kind: Annotated[str, typer.Option("--kind", "-k", help="What sort of statement it is.")] = "custom",
    subject: Annotated[str, typer.Option(help="Whom or what it is about.")] = "",
    when_to_use: Annotated[str, typer.Option(help="The situation in which it helps (for tasks and tools).")] = "",
    metadata: Annotated[str, typer.Option(metavar="JSON", help="Whatever else belongs to it.")] = "{}",
) -> None:
    """Remember something."""
    from reme_core.types import Memory

    values = {"kind": kind, "subject": subject, "when_to_use": when_to_use, "metadata": _parse_metadata(metadata)}
    memories = [Memory(**values, content=content) for content in _expand(text)]
    with session.open() as reme:
        added = reme.memories.add(workspace, memories, actor="command line", **scope)
    session.show(added, *map(_added_line, added))


def _added_line(memory: Memory) -> Text:
    times = f" (there already; seen {memory.seen_count} times)" if memory.seen_count > 1 else ""
    return Text.assemble(("remembered ", "green"), (memory.memory_id, "bold"), times)


def _expand(texts: list[str]) -> list[str]:
    """The texts; a `-` is replaced by the lines of the standard input that are not empty."""
    # Not `splitlines`, to which a form feed within a line, or U+2028, ends it.
    read = [line.strip() for line in read_input().split("\n") if line.strip()] if "-" in texts else []
    return [line for text in texts for line in (read if text == "-" else [text])]


@app.command("list")
def list_memories(
    session: Session,
    workspace: Workspace,
    scope: Scope,
    kind: Annotated[list[str] | None, typer.Option("--kind", "-k", help="Only these kinds; may be repeated.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, at the most.")] = 50,
    closed: Annotated[bool, typer.Option("--closed", help="Superseded, expired and deleted ones as well.")] = False,
) -> None:
    """List what is remembered, newest first."""
    from reme_core.store.filters import Filters

    with session.open() as reme:
        filters = Filters.of(kind=kind or None, status=None if closed else "active", **scope)
        found = reme.memories.list(workspace, filters, limit=limit)
        hints = [] if found else hint_at_missing(reme, workspace)
        hints += [] if found else _how_to_see_messages(reme, workspace, "What was said?")
    if not found:
        session.show(found, f"Nothing is remembered in workspace '{workspace}'.", *hints)
        return
    shown = output.table("id", "kind", "status", "recorded", "content", wide="content")
    for memory in found:
        status = Text(str(memory.status), output.STATUS_STYLES[memory.status])
        shown.add_row(
            memory.memory_id, str(memory.kind), status, output.day(memory.recorded_at), output.memory_text(memory)
        )
    session.show(found, shown)


def _how_to_see_messages(reme: ReMe, workspace: str, query: str) -> list[str]:
    """A hint, if there are messages although no memory was found, with the command that shows them."""
    messages = reme.workspaces.count_messages(workspace)
    if not messages:
        return []
    command = shlex.join(["reme", "recall", query, "--workspace", workspace, "--kind", "conversation"])
    there, them = ("1 message is", "it") if messages == 1 else (f"{messages:,} messages are", "them")
    return [f"{there} recorded there, and this shows {them}: {command}"]


@app.command()
def update(
    session: Session,
    memory_id: Annotated[str, typer.Argument(metavar="ID")],
    text: Annotated[str, typer.Argument(help="What it says from now on.")],
    workspace: Workspace,
    reason: Annotated[str, typer.Option(help="Why, for the history.")] = "",
) -> None:
    """Change the words of a memory; the earlier ones stay in its history."""
    with session.open() as reme:
        changed = reme.memories.update(workspace, memory_id, content=text, actor="command line", reason=reason)
    session.show(changed, Text.assemble(("changed ", "green"), (changed.memory_id, "bold")))


@app.command()
def history(session: Session, memory_id: Annotated[str, typer.Argument(metavar="ID")], workspace: Workspace) -> None:
    """Show every change of one memory, oldest first."""
    with session.open() as reme:
        entries = reme.memories.history(workspace, memory_id)
    session.show(entries, _history_table(entries))


@app.command()
def restore(
    session: Session,
    memory_id: Annotated[str, typer.Argument(metavar="ID")],
    workspace: Workspace,
    to: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="The change, as `reme history` numbers them, to go back to.")
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, for the history.")] = "",
) -> None:
    """Bring a memory back to how it was before its last change, or after any of its changes."""
    with session.open() as reme:
        memory = reme.memories.restore(workspace, memory_id, number=to, actor="command line", reason=reason)
    session.show(memory, Text.assemble(("restored ", "green"), (memory.memory_id, "bold"), f": {memory.content}"))


@app.command()
def undo(session: Session, workspace: Workspace) -> None:
    """Undo the last change of several memories: a load, a deletion, a summary. A second undo takes it back."""
    with session.open() as reme:
        undone = reme.memories.undo(workspace, actor="command line")
    who = " ".join(part for part in (undone.changed_by, f"({undone.reason})" if undone.reason else "") if part)
    told = f"undid the change of {output.moment(undone.changed_at)}{f' by {who}' if who else ''}:"
    session.show(undone, Text(f"{told} {undone.restored} are as before, {undone.removed} are deleted", "green"))


@app.command()
def show(session: Session, memory_id: Annotated[str, typer.Argument(metavar="ID")], workspace: Workspace) -> None:
    """Show one memory: all that is known of it, the evidence it rests on, and its history."""
    with session.open() as reme:
        memory = reme.memories.get(workspace, memory_id)
        evidence = reme.memories.evidence(workspace, memory_id)
        history = reme.memories.history(workspace, memory_id)
    data = memory.model_dump(mode="json") | {"evidence": evidence, "history": history}
    session.show(data, *_memory_details(memory, evidence, history))


@app.command()
def delete(
    session: Session,
    memory_ids: Annotated[list[str], typer.Argument(metavar="ID…")],
    workspace: Workspace,
    erase: Annotated[
        bool, typer.Option("--erase", help="Leave no trace of the text, not even in the history. Final.")
    ] = False,
) -> None:
    """Delete memories. The history keeps them, unless they are erased."""
    with session.open() as reme, session.spinner("Deleting …"):
        count = reme.memories.delete(
            workspace, memory_ids, erase=erase, actor="command line", reason="deleted by a user"
        )
    if count == 0:
        wanted = " or ".join(f"'{memory_id}'" for memory_id in memory_ids)
        raise NotFoundError(f"workspace '{workspace}' has no memory {wanted}; `reme list` shows the ids")
    done = "erased" if erase else "deleted"
    session.show({done: count}, Text(f"{done} {count} of {len(memory_ids)}", "green"))


def _parse_period(session: Session, words: str) -> TimeRange:
    from reme_core.text.timex import find_times
    from reme_core.types import now

    found = [m for m in find_times(words, now=now(), timezone=session.settings.timezone) if not m.recurring]
    if len(found) != 1 or found[0].anchor:
        raise InputError(f"'{words}' does not name one stretch of time; write '2024-05', 'May 2024' or 'last week'")
    return found[0].range


def _parse_metadata(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:  # the latter where it is nested a thousand deep
        raise InputError(f'--metadata is not JSON ({error}); write for example \'{{"source": "mail"}}\'') from None
    if not isinstance(value, dict):
        raise InputError('--metadata must be a JSON object, such as \'{"source": "mail"}\'')
    return value


def _memory_details(memory: Memory, evidence: list[Evidence], history: list[HistoryEntry]) -> list[RenderableType]:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    held = f"{output.moment(memory.valid_from) or 'ever'} – {output.moment(memory.valid_until) or 'open'}"
    rows: dict[str, str | Text | None] = {
        "id": memory.memory_id,
        "kind": str(memory.kind),
        "status": Text(str(memory.status), output.STATUS_STYLES[memory.status]),
        "superseded by": memory.superseded_by,
        "subject": memory.subject,
        "keywords": ", ".join(memory.keywords),
        "observed": output.moment(memory.observed_at),
        "holds": held if memory.valid_from or memory.valid_until else "",
        "recorded": output.moment(memory.recorded_at),
        "known until": output.moment(memory.expired_at),
        "author": memory.author,
        "of": ", ".join(f"{name[:-3]} {value}" for name, value in memory.scope.items() if value),
        "importance": f"{memory.importance:g}",
        "score": f"{memory.score:g}" if memory.score else "",
        "stated": f"{memory.seen_count} times" if memory.seen_count > 1 else "",
        "used": f"{memory.freq} times, {memory.utility} with success" if memory.freq else "",
        "metadata": json.dumps(memory.metadata, ensure_ascii=False) if memory.metadata else "",
    }
    for name, value in rows.items():
        if value:
            facts.add_row(name, value)
    said = Text(memory.content, "bold")
    if memory.when_to_use:
        said = Text.assemble((f"{memory.when_to_use}\n", "italic"), said)
    parts: list[RenderableType] = [Group(said, ""), facts]
    if evidence:
        parts.append(_evidence_table(evidence))
    parts.append(_history_table(history))
    return parts


def _evidence_table(evidence: list[Evidence]) -> Table:
    shown = output.table("when", "who", "said", "id", title="\nRests on", wide="said")
    for item in evidence:
        shown.add_row(output.moment(item.at), item.by, Text(item.text), Text(f"{item.kind} {item.id}", "dim"))
    return shown


def _history_table(history: list[HistoryEntry]) -> Table:
    shown = output.table("number", "when", "what", "by", "why", "change", title="\nHistory")
    for entry in history:
        before, after = entry.before or {}, entry.after or {}
        changed = [
            f"{name}: {before.get(name)} → {after.get(name)}"
            for name in after
            if entry.operation == "update" and before.get(name) != after.get(name) and name != "updated_at"
        ]
        at, what = output.moment(entry.changed_at), Text("\n".join(changed))
        shown.add_row(str(entry.number), at, entry.operation, entry.changed_by, entry.reason, what)
    return shown
