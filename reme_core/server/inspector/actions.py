"""The actions of the inspector: signing in, changing and closing memories, undoing, retrying jobs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from reme_core.errors import InputError, NotFoundError
from reme_core.server.errors import AccessError
from reme_core.server.inspector.look import url
from reme_core.server.inspector.page import HEADERS, KEY_COOKIE, Page, PageRoute, ThePageOf, day_of, form_of, render
from reme_core.server.service import TheService
from reme_core.store.change import Change, Close

log = logging.getLogger(__name__)

router = APIRouter(prefix="/inspector", route_class=PageRoute)

_TEXTS: Final = ("content", "when_to_use", "subject")
_TIMES: Final = ("valid_from", "valid_until")
_MOST_SIGN_IN_BYTES: Final = 64 * 1024  # a key and an address; anybody may send this form


def _to(path: str, **values: Any) -> RedirectResponse:
    return RedirectResponse(url(path, **values), 303, headers=HEADERS)


@router.post("/sign-in")
async def sign_in(request: Request, service: TheService) -> Response:
    """Takes an API key, and keeps it in a cookie that no script and no other site can use."""
    form = await form_of(request, most_bytes=_MOST_SIGN_IN_BYTES)
    key, back = form.get("key", ""), form.get("next", "")
    try:
        access = await service.keys.access(key)
    except AccessError:
        return render(request, "sign_in.html", code=401, next=back, wrong=True)
    # Only to a page of the inspector, since the link to this page may have named any address as the next one.
    answer = RedirectResponse(back if back.startswith(url("")) else url(""), 303, headers=HEADERS)
    if access.key_id:  # else there are no keys, and the text may be any
        secure = request.url.scheme == "https"
        answer.set_cookie(KEY_COOKIE, key, path=url(""), httponly=True, samesite="strict", secure=secure)
    return answer


@router.post("/sign-out")
async def sign_out() -> Response:
    """Forgets the key."""
    answer = _to("/sign-in")
    answer.delete_cookie(KEY_COOKIE, path=url(""))
    return answer


def _to_changed(page: Page, memory_id: str, done: str, state_before: int) -> RedirectResponse:
    return _to("/memory", w=page.workspace, id=memory_id, done=done, undo=state_before)


async def _state_of(page: Page, memory_id: str) -> int:
    """The number of the last change of a memory: to restore its state after that undoes what comes now."""
    # "Before its last change" would be something else as soon as somebody else changes it, too.
    return (await page.reme.memories.history(page.workspace, memory_id))[-1].number


async def _memory_form(page: Page) -> tuple[str, str, Mapping[str, str]]:
    """The id of the memory that a form is about, the reason for the change, and all fields of the form."""
    form = await form_of(page.request)
    if not form.get("reason"):
        raise InputError("the reason is missing; go back and say why, for the history")
    return form.get("id", ""), form["reason"], form


@router.post("/memory/edit")
async def edit(page: ThePageOf) -> Response:
    """Changes what a memory says; its earlier wording stays in the history."""
    memory_id, reason, form = await _memory_form(page)
    # What is as the page showed it is left alone: others may have changed it meanwhile, and a day is no moment.
    edited = {
        name: form[name] for name in (*_TEXTS, *_TIMES) if name in form and form[name] != form.get(f"shown_{name}")
    }
    if not edited:
        raise InputError("nothing was changed; go back and change what is wrong")
    values = {name: day_of(text) if name in _TIMES else text for name, text in edited.items()}
    before = await _state_of(page, memory_id)
    await page.reme.memories.update(page.workspace, memory_id, actor=page.actor, reason=reason, **values)
    return _to_changed(page, memory_id, "edit", before)


@router.post("/memory/supersede")
async def supersede(page: ThePageOf) -> Response:
    """Closes a memory in favour of a new one, which holds from now on."""
    memory_id, reason, form = await _memory_form(page)
    if not form.get("content"):
        raise InputError("the new memory is empty; go back and write what holds instead")
    state = await _state_of(page, memory_id)
    before = await page.reme.memories.get(page.workspace, memory_id)
    moment = day_of(form.get("from", ""))
    kept = before.model_dump(include={"kind", "subject", "when_to_use", "keywords", "importance", *before.scope})
    after = type(before)(**kept, content=form["content"], author=page.actor, observed_at=moment, valid_from=moment)
    closing = Close(memory_id, "superseded", superseded_by=after.memory_id, holds_until=moment)
    change = Change(add=[after], close=[closing])
    await page.reme.memories.apply(page.workspace, change, actor=page.actor, reason=reason)
    return _to_changed(page, memory_id, "supersede", state)


@router.post("/memory/expire")
async def expire(page: ThePageOf) -> Response:
    """Closes a memory without a successor."""
    memory_id, reason, _ = await _memory_form(page)
    before = await _state_of(page, memory_id)
    change = Change(close=[Close(memory_id, "expired")])
    await page.reme.memories.apply(page.workspace, change, actor=page.actor, reason=reason)
    return _to_changed(page, memory_id, "expire", before)


@router.post("/memory/erase")
async def erase(page: ThePageOf) -> Response:
    """Removes every trace of a memory. The reason goes into the service's log, since the history is removed too."""
    memory_id, reason, _ = await _memory_form(page)
    await page.reme.memories.delete(page.workspace, memory_id, erase=True, actor=page.actor)
    log.warning("%s erased memory %s of workspace '%s': %s", page.actor, memory_id, page.workspace, reason)
    return _to("/memories", w=page.workspace, done="erase")


@router.post("/memory/restore")
async def restore(page: ThePageOf) -> Response:
    """Brings a memory back to its state after a change, or before its last change."""
    form = await form_of(page.request)
    memory_id, number = form.get("id", ""), _number_in(form, "number")
    if number is None and form.get("number"):
        raise InputError(f"{form['number']!r:.40} is not the number of a change; choose one in the history")
    await page.reme.memories.restore(
        page.workspace, memory_id, number=number, actor=page.actor, reason="restored by hand"
    )
    # The memory that replaced it is no longer needed. It goes last: if restoring fails, it still stands.
    if form.get("successor"):
        await page.reme.memories.delete(page.workspace, form["successor"], actor=page.actor, reason="undone by hand")
    return _to("/memory", w=page.workspace, id=memory_id, done="restore")


@router.post("/undo")
async def undo(page: ThePageOf) -> Response:
    """Undoes the last change that concerned several memories."""
    await page.reme.memories.undo(page.workspace, actor=page.actor)
    return _to("/times", w=page.workspace)


@router.post("/jobs/retry")
async def retry(page: ThePageOf) -> Response:
    """Puts a job that was given up back into the queue."""
    form = await form_of(page.request)
    number = _number_in(form, "id")
    jobs = await page.reme.background.jobs(page.workspace, ids=[number]) if number is not None else []
    if not jobs:  # or the job is one of another workspace, which the key may not be for
        raise NotFoundError(f"workspace '{page.workspace}' has no job {form.get('id', '')[:40]!r}")
    await page.reme.background.retry(jobs[0].id)
    return _to("/jobs", w=page.workspace)


def _number_in(form: Mapping[str, str], name: str) -> int | None:
    """The number in a field; None if it holds none, or one that is longer than any in the database."""
    text = form.get(name, "")
    return int(text) if text.isdecimal() and len(text) <= 18 else None
