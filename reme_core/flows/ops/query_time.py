"""Which time a query asks about: by rule, from memory ("two days before my birthday"), or by model."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from typing import Final, Literal

from pydantic import BaseModel, Field

from reme_core.flows.degraded import ask_model
from reme_core.flows.deps import Deps
from reme_core.flows.registry import op
from reme_core.flows.state import RetrievalState
from reme_core.given import zone_of
from reme_core.models import ChatModel
from reme_core.prompts import prompt
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import language as language_for
from reme_core.store.filters import Filters
from reme_core.text.terms import language_of, terms
from reme_core.text.timex import TimeMention, find_times, has_time, render_date, resolve
from reme_core.types import Kind, Memory, TimeRange

_CANDIDATES: Final = 10  # memories in which the date of an event is looked for
_STATED: Final = (Kind.OBSERVATION, Kind.CUSTOM, Kind.INSTRUCTION, Kind.PROFILE)


class _Days(BaseModel):
    first_day: str = Field("", description="YYYY-MM-DD, or empty")
    last_day: str = Field("", description="YYYY-MM-DD, or empty")


@op(reads={"search_query"}, uses={"now", "timezone"}, writes={"time_ranges"}, only_reads=True)
async def extract_time(
    state: RetrievalState, deps: Deps, *, enable_llm_time: bool = True, language: Literal["auto", "en", "zh", ""] = ""
) -> None:
    """Find the times that the query asks about, relative to `now` in the asker's time zone.

    Args:
        enable_llm_time: Ask the model where the rules find no time.
        language: In which language to ask it; default is that of the op's settings.

    Raises:
        InputError: The time zone is unknown.
    """
    zone = askers_zone(state, deps)
    now = state.now or deps.now()
    if not has_time(state.search_query):
        return
    mentions = [m for m in find_times(state.search_query, now=now, timezone=zone) if not m.recurring]
    ranges = [m.range for m in mentions if not m.anchor and (m.range.start or m.range.end)]
    for mention in mentions:
        if mention.anchor and (anchored := await _from_memory(mention, now, zone, state, deps)):
            ranges.append(anchored)
    # The rules answer in microseconds, so most queries never wait for the model: it is asked only where a query looks
    # as if it named a time, and the rules found none.
    if not (ranges or mentions) and deps.chat is not None and enable_llm_time:
        asking = _ask_model(state.search_query, now, zone, language or deps.language, deps.chat)
        ranges = await ask_model(asking, "extract_time", state, deps) or []
    state.time_ranges = ranges
    state.report["time_ranges"] = [r.model_dump(mode="json") for r in ranges]


def askers_zone(state: RetrievalState, deps: Deps) -> str:
    """The name of the time zone in which the asker's days begin, those of the question and those of the answer."""
    return state.timezone or deps.settings.timezone


def narrowest(ranges: list[TimeRange]) -> TimeRange | None:
    """The shortest of several times, of which an open one is the longest; None if there are none."""
    return min(ranges, key=lambda r: (r.end - r.start) if r.start and r.end else timedelta.max, default=None)


async def _from_memory(
    mention: TimeMention, now: datetime, zone: str, state: RetrievalState, deps: Deps
) -> TimeRange | None:
    """The time of a mention that is counted from an event, if a memory says when the event is."""
    hits = (
        await deps.recall(
            state.workspace_id,
            mention.anchor,
            Filters.of(kind=_STATED, subject=state.user_name or None, as_of=state.as_of, **state.scope),
            limit=_CANDIDATES,
            flow=deps.flow,
        )
    ).memories
    # The best hit may be about something else, so it has to share a word with the event.
    wanted = set(terms(mention.anchor))
    for memory in hits:
        if wanted & set(terms(memory.content)) and (day := _day_of(memory, mention.anchor, now, zone)):
            return resolve(mention, day)
    return None


def _day_of(memory: Memory, anchor: str, now: datetime, zone: str) -> datetime | None:
    """The day that a memory is about; if the day returns every year, the latest one."""
    local = now.astimezone(zone_of(zone))
    yearly = bool(_YEARLY.search(anchor))
    if not yearly and memory.valid_from is not None:
        return memory.valid_from.astimezone(zone_of(zone))
    said = memory.observed_at or memory.created_at
    found = find_times(memory.content, now=local if yearly else said, timezone=zone)
    day = next((m.range.start for m in found if m.range.start and m.precision == "day"), None)
    if day is not None and yearly:
        # A year of birth names the first birthday; without a year, the latest one is meant already.
        # In February the 29th is taken for the 28th, which every year has.
        year = local.year if (day.month, day.day) <= (local.month, local.day) else local.year - 1
        return datetime(year, day.month, min(day.day, 28) if day.month == 2 else day.day, tzinfo=zone_of(zone))
    return day


_YEARLY: Final = re.compile(r"birthday|anniversary|name day|生日|纪念日", re.IGNORECASE)


async def _ask_model(query: str, now: datetime, zone: str, setting: str, chat: ChatModel) -> list[TimeRange]:
    speech, there = language_for(setting, [query]), zone_of(zone)
    today = render_date(now.astimezone(there), language_of(query))
    request = prompt("personal/extract_time", speech, now=today, query=fence(query, "query"))
    answer = await chat.complete_as(request, _Days, purpose="extract_time")
    try:
        first = date.fromisoformat(answer.first_day)
        last = date.fromisoformat(answer.last_day or answer.first_day)
        # Models write the last of all days where no end was named.
        end = None if last == date.max else datetime.combine(last + timedelta(days=1), time.min, there)
        return [TimeRange(start=datetime.combine(first, time.min, there), end=end)]
    except ValueError:
        return []  # an answer that is no date says that there is none
