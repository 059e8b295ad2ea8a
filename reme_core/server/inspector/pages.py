"""The pages of the inspector: each reads what it shows, in plain SQL (`inspector.sql`), and changes nothing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import HTMLResponse

from reme_core.errors import InputError, NotFoundError
from reme_core.server.inspector.page import Page, PageRoute, Row, ThePage, ThePageOf, day_of, render
from reme_core.store.undo import COUNTS
from reme_core.types import PERSONAL_KINDS, Hit, Kind, Status

router = APIRouter(prefix="/inspector", route_class=PageRoute)

PageNumber = Annotated[int, Field(ge=1, le=100_000)]
Text = Annotated[str, Query(max_length=4_000)]
Id = Annotated[str, Query(min_length=1)]

_KINDS: Final = [str(kind) for kind in Kind if kind is not Kind.CONVERSATION]
_PER_PAGE: Final = 25
_MESSAGES: Final = 50  # of a conversation, on one page
_TASKS: Final = 12


def _slice(p: int, size: int = _PER_PAGE) -> dict[str, int]:
    """Which rows to read for a page: its own, and one more, which tells whether there is a next page."""
    return {"limit": size + 1, "offset": (p - 1) * size}


def _list(rows: list[Row], p: int, size: int = _PER_PAGE) -> dict[str, Any]:
    """What a template shows of the rows of a `_slice`."""
    return {"rows": rows[:size], "more": len(rows) > size, "p": p}


@router.get("/sign-in")
async def sign_in(request: Request, next: Text = "") -> HTMLResponse:  # noqa: A002 - the name in the address
    """Asks for an API key."""
    return render(request, "sign_in.html", next=next, wrong=False)


@router.get("")
@router.get("/")
async def workspaces(page: ThePage, q: Text = "", p: PageNumber = 1) -> HTMLResponse:
    """The workspaces that the reader may see, with their size, news, backlog and cost."""
    allowed = None if page.access.workspaces is None else sorted(page.access.workspaces)
    rows = await page.read_all("workspaces", allowed=allowed, q=q, kinds=_KINDS, **_slice(p))
    for row in rows:
        row["spend"] = _spend(page, row["spend"] or [])
    return page.show("workspaces.html", **_list(rows, p), q=q)


def _spend(page: Page, calls: list[Row]) -> Row:
    """The number of calls of models, their tokens, and their cost; the cost is None if no `prices` are set."""
    prices, cost = page.reme.settings.prices, 0.0
    for row in calls:
        sent, received = prices.get(row["model"], (0, 0))
        row["cost"] = (row["prompt_tokens"] * sent + row["completion_tokens"] * received) / 1e6
        cost += row["cost"]
    tokens = sum(row["prompt_tokens"] + row["completion_tokens"] for row in calls)
    return {"calls": sum(row["calls"] for row in calls), "tokens": tokens, "cost": cost if prices else None}


@router.get("/overview")
async def overview(page: ThePageOf) -> HTMLResponse:
    """One workspace: its size, growth and backlog, and its latest conversations and recalls."""
    newest = {"limit": 5, "offset": 0, "q": ""}
    kinds, growth, (backlog,), recalls, conversations, calls = await asyncio.gather(
        page.read("kinds", kinds=_KINDS),
        page.read("growth", kinds=_KINDS),
        page.read("backlog"),
        page.read("recalls", flow="", **newest),
        page.read("conversations", **newest),
        page.read("model_calls"),
    )
    return page.show(
        "overview.html", kinds=kinds, growth=growth, backlog=backlog, recalls=recalls, conversations=conversations,
        spend=_spend(page, calls),
    )  # fmt: skip


@router.get("/recalls")
async def recalls(page: ThePageOf, q: Text = "", flow: Text = "", p: PageNumber = 1) -> HTMLResponse:
    """The log of recalls: what was asked, how much was found, and how much of it was given."""
    rows, flows = await asyncio.gather(page.read("recalls", q=q, flow=flow, **_slice(p)), page.read("flows"))
    return page.show("recalls.html", **_list(rows, p), flows=[row["flow"] for row in flows], q=q, flow=flow)


@router.get("/recall")
async def recall(page: ThePageOf, id: Id) -> HTMLResponse:  # noqa: A002 - likewise
    """One recall: which hits the note contained, which it left out and why, and the answer of the agent."""
    parts = await page.read("recall", id=id)
    if not parts:
        raise NotFoundError("this recall is not in the log; it may be older than the log is kept, or was erased")
    head = parts[0]
    hits, answers = await asyncio.gather(
        page.read("hits", ids=[part["retrieval_id"] for part in parts]),
        page.read("answer", **{name: head[name] for name in ("session_id", "query", "asked_at")}),
    )
    flows = {part["retrieval_id"]: part["flow"] for part in parts}
    for hit in hits:
        hit["flow"] = flows[hit["retrieval_id"]]
    hits.sort(key=lambda hit: (hit["flow"] == "standing", hit["kind"] == "conversation", hit["rank"]))
    return page.show("recall.html", head=head, parts=parts, hits=hits, answer=answers[0] if answers else None)


@router.get("/ask")
async def ask(page: ThePageOf, q: Text = "", kind: Text = "", as_of: Text = "", held_at: Text = "") -> HTMLResponse:
    """Recalls, and shows what is found and why."""
    asked = {"q": q, "kind": kind, "as_of": as_of, "held_at": held_at}
    if not q.strip():
        return page.show("ask.html", **asked, hits=None)
    found = await page.reme.recall(
        page.workspace, q, kind=kind or None, limit=20, as_of=_end_of(as_of), held_at=_end_of(held_at), flow="inspector"
    )
    hits = [_hit_row(hit) for hit in found.hits]
    return page.show("ask.html", **asked, hits=hits, relevance=found.relevance, degraded=found.degraded)


def _hit_row(hit: Hit) -> Row:
    memory = hit.memory
    said = memory.kind is Kind.CONVERSATION
    return {
        **hit.parts.model_dump(), "rank": hit.rank, "relevance": hit.relevance, "memory_id": memory.memory_id,
        "kind": str(memory.kind), "content": memory.content, "when_to_use": memory.when_to_use, "helped": None,
        "status": None if said else str(memory.status), "at": memory.observed_at or memory.recorded_at,
        "session_id": memory.subject if said else None, "author": memory.author, "role": "", "flow": "inspector",
        "left_out": None, "quote": None,
    }  # fmt: skip


def _end_of(text: str) -> datetime | None:
    """The moment that a field names, of a day the last one, so that the day is included; None if the field is empty."""
    named = day_of(text)
    is_day = len(text) <= len("2026-11-23")
    return named + timedelta(days=1, microseconds=-1) if named and is_day else named


@router.get("/memories")
async def memories(
    page: ThePageOf,
    q: Text = "",
    kind: Text = "",
    status: Text = "active",
    subject: Text = "",
    user: Text = "",
    order: Text = "newest",
    p: PageNumber = 1,
) -> HTMLResponse:
    """Memories that contain a text and pass the filters."""
    chosen = {"q": q, "kind": kind, "status": status, "subject": subject, "user": user, "order": order}
    values = chosen | {"kinds": [kind] if kind else _KINDS, "status": "" if status == "any" else status}
    by_index = order == "newest" and not q and status != "junk"
    rows = await page.read("memories" if by_index else "memories_by_text", **values, **_slice(p))
    return page.show("memories.html", **_list(rows, p), kinds=_KINDS, statuses=[*Status, "junk"], **chosen)


@router.get("/people")
async def people(page: ThePageOf) -> HTMLResponse:
    """Whom the memories are about."""
    return page.show("people.html", rows=await page.read("subjects", kinds=[str(kind) for kind in PERSONAL_KINDS]))


@router.get("/memory")
async def memory(page: ThePageOf, id: Id, done: Text = "", undo: Text = "") -> HTMLResponse:  # noqa: A002 - likewise
    """One memory: its evidence, its history, what it replaced, and when it was recalled.

    When something was `done` to it, `undo` is the number of the change that it had before.
    """
    history = await page.reme.memories.history(page.workspace, id)
    evidence, related, uses = await asyncio.gather(
        page.read("evidence", id=id), page.read("related", id=id), page.read("uses", id=id)
    )
    try:
        shown = await page.reme.memories.get(page.workspace, id)
    except NotFoundError:
        shown = None  # a load removed it; its history can bring it back
    return page.show(
        "memory.html", id=id, memory=shown, history=history, evidence=evidence, uses=uses, done=done, undo=undo,
        related={name: [row for row in related if row["relation"] == name]
                 for name in ("successor", "predecessor", "conclusion")},
    )  # fmt: skip


@router.get("/conversations")
async def conversations(page: ThePageOf, q: Text = "", p: PageNumber = 1) -> HTMLResponse:
    """Conversations, the latest first."""
    rows = await page.read("conversations", q=q, **_slice(p))
    return page.show("conversations.html", **_list(rows, p), q=q)


@router.get("/conversation")
async def conversation(page: ThePageOf, s: Text = "", m: Text = "", p: PageNumber | None = None) -> HTMLResponse:
    """A conversation, each message beside the memories made from it; `m` is shown if no page is named."""
    if p is None:
        (place,) = await page.read("place", session_id=s, id=m, limit=_MESSAGES)
        p = place["page"]
    rows = await page.read("conversation", session_id=s, **_slice(p, _MESSAGES))
    if not rows and p == 1:
        raise NotFoundError("nothing was recorded of this conversation, or it was erased")
    return page.show("conversation.html", **_list(rows, p, _MESSAGES), s=s, m=m)


@router.get("/times")
async def times(page: ThePageOf, start: Text = "", end: Text = "") -> HTMLResponse:
    """What changed between two days: what the memory learned, and what began or ended in the world."""
    (span,) = await page.read("span")
    last = day_of(end) or day_of(span["last"]) or datetime.now(UTC)
    first = day_of(start) or min(last, max(day_of(span["first"]) or last, last - timedelta(days=7)))
    if first > last:
        raise InputError("the first day comes after the last one; move the upper slider to the left")
    between: dict[str, Any] = {"start": first, "end": last + timedelta(days=1)}
    learned, held = await asyncio.gather(page.read("learned", counts=COUNTS, **between), page.read("held", **between))
    return page.show("times.html", span=span, first=first, last=last, learned=learned, held=held)


@router.get("/jobs")
async def jobs(page: ThePageOf, status: Text = "") -> HTMLResponse:
    """Background jobs: which wait, which run, and which failed."""
    found = await page.reme.background.jobs(page.workspace, statuses=[status] if status else None, limit=100)
    (backlog,) = await page.read("backlog")
    return page.show("jobs.html", rows=found, status=status, backlog=backlog)


@router.get("/tasks")
async def tasks(page: ThePageOf, q: Text = "", p: PageNumber = 1) -> HTMLResponse:
    """Tasks with their learning curves."""
    rows = await page.read("tasks", q=q, **_slice(p, _TASKS))
    curves = await page.read("curves", tasks=[row["task_id"] for row in rows])
    points = {row["task_id"]: row["points"] for row in curves}
    return page.show("tasks.html", **_list(rows, p, _TASKS), points=points, q=q)


@router.get("/tools")
async def tools(page: ThePageOf) -> HTMLResponse:
    """Tools: how their calls went, and the guidance made from them."""
    return page.show("tools.html", rows=await page.read("tools"))


@router.get("/models")
async def models(page: ThePageOf) -> HTMLResponse:
    """Calls of models and their tokens, by day."""
    rows = await page.read("model_calls")
    most = max((row["prompt_tokens"] + row["completion_tokens"] for row in rows), default=0)
    return page.show("models.html", rows=rows, most=most, spend=_spend(page, rows))
