"""The note: what an agent is told of what was recalled, as fenced data within a budget of tokens.

Standing instructions come first, then statements with their dates, the newest first, then what was said in earlier
conversations, word for word. Vague times stay as they were said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from typing import Final, TypeVar

from reme_core.given import zone_of
from reme_core.marks import is_quote, messages_replaced_by
from reme_core.prompts import Language, phrase
from reme_core.prompts.budget import count_tokens
from reme_core.prompts.fence import NOTE_METADATA, as_text, note
from reme_core.prompts.transcript import condense, person_of, shown_name
from reme_core.text.named import MONTHS
from reme_core.types import Hit, Kind, Memory, Message

Item = TypeVar("Item")

STANDING_SHARE: Final = 0.5
"""The share of the budget that standing memories may take: a long list of wishes leaves room for what was asked."""
LONGEST: Final = 1_200
"""Characters of one memory that a note quotes: a pasted file is not worth a whole budget."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a turn may tell its model. Falsy where nothing was recalled.

    Attributes:
        text: The fenced note, for a user-role message or the system prompt.
        hits: The recalled memories in it, best first.
        standing: The instructions and profile facts in it, which stand there whatever was asked.
        tokens: About how many tokens it costs the model.
        turn_id: The turn that it was made for.
        error: Why there is no note, if memory failed and errors are logged rather than raised.
    """

    text: str = ""
    hits: tuple[Hit, ...] = ()
    standing: tuple[Memory, ...] = ()
    tokens: int = 0
    turn_id: str = ""
    error: Exception | None = None

    def __bool__(self) -> bool:
        return bool(self.text)

    def as_message(self) -> Message:
        """The note as a message of the user role, marked so that it is never recorded."""
        return Message(role="user", author="memory", content=self.text, metadata=dict(NOTE_METADATA))


def why_missing(made: Note, hit: Hit, offered: Sequence[Hit]) -> str:
    """Why a hit does not stand in the note that was made of the hits that were offered; empty if it does.

    The reasons are those of the log of recalls (`retrieval_hit.left_out`).
    """
    name = hit.memory.memory_id
    if name in {one.memory.memory_id for one in made.hits}:
        return ""
    if name in {memory.memory_id for memory in made.standing}:
        return "standing"
    if hit.memory.kind == Kind.CONVERSATION and is_quoted(hit.memory, made.standing):
        return "repeated"
    if name in {one.memory.memory_id for one in offered}:
        return "budget"
    alike = {one.content.strip() for one in offered if one.memory.kind == hit.memory.kind}
    return "repeated" if hit.content.strip() in alike else "places"


def is_quoted(message: Memory, memories: Iterable[Memory]) -> bool:
    """Whether one of some memories has all the words of a message, or others that correct them."""
    said = message.content.strip()
    return any(said in memory.content or message.memory_id in messages_replaced_by(memory) for memory in memories)


def render(
    hits: Sequence[Hit],
    budget: int,
    language: Language = "en",
    *,
    standing: Sequence[Memory] = (),
    timezone: str = "UTC",
) -> Note:
    """Write a note of at most `budget` tokens (as `count_tokens` counts them), the fence included.

    Args:
        hits: What was recalled, best first; messages (kind `conversation`) are quoted below the memories.
        budget: Tokens. Memories that do not fit any more are left out whole, the worst first.
        language: The language of the few words around the memories.
        standing: Memories that are always given (instructions, profile). One that was also recalled is not repeated,
            nor is a message that one of them quotes.
        timezone: The time zone in which days begin.

    Returns:
        The note; its text is empty if nothing fits or nothing is known.
    """
    zone = zone_of(timezone)

    def line(memory: Memory) -> str:
        return f"- {_statement(memory, language, zone)}"

    def quote(message: Memory) -> str:
        day = f", {message.observed_at.astimezone(zone):%Y-%m-%d}" if message.observed_at else ""
        return f"- {shown_name(message.author)}{day}: {condense(message.content, LONGEST)}"

    # An empty note costs what the fence and the words around the memories cost.
    left = budget - count_tokens(note("-", language))
    titles = [phrase(name, language) for name in ("note_standing", "note_remembered", "note_said")]
    # Instructions hold whatever is asked, so they are the first to get a place.
    instructions = [memory for memory in standing if memory.kind == Kind.INSTRUCTION]
    instructions.sort(key=_time_of, reverse=True)
    facts = [memory for memory in standing if memory.kind != Kind.INSTRUCTION]
    share = min(left, int(budget * STANDING_SHARE))
    always, spent = _fit_lines(instructions, share, titles[0], line)
    known_facts, facts_spent = _fit_lines(facts, share - spent, titles[1], line)
    left -= spent + facts_spent
    told = tuple(memory for memory, _ in (*always, *known_facts))
    known = {memory.memory_id for memory in told}
    recalled = [hit for hit in hits if hit.memory.memory_id not in known]
    memories = [hit for hit in recalled if hit.memory.kind != Kind.CONVERSATION]
    messages = [hit for hit in recalled if hit.memory.kind == Kind.CONVERSATION]
    messages = [hit for hit in messages if not is_quoted(hit.memory, told)]
    kept, spent = _fit_lines(memories, left, titles[1], lambda hit: line(hit.memory))
    quoted, _ = _fit_lines(messages, left - spent, titles[2], lambda hit: quote(hit.memory))
    # The newest first: of two statements about one thing the current one stands before the one that it replaced.
    statements = [*known_facts, *((hit.memory, text) for hit, text in kept)]
    statements.sort(key=lambda statement: _time_of(statement[0]), reverse=True)
    parts = [[text for _, text in part] for part in (always, statements, quoted)]
    text = note(
        "\n".join("\n".join([title, *part]) for title, part in zip(titles, parts, strict=True) if part), language
    )
    return Note(text, tuple(hit for hit, _ in (*kept, *quoted)), told, count_tokens(text))


def _fit_lines(
    items: Sequence[Item], budget: int, title: str, text_of: Callable[[Item], str]
) -> tuple[list[tuple[Item, str]], int]:
    """The items, best first, with their lines, as far as these fit below their title; and the tokens of all of it."""
    kept: list[tuple[Item, str]] = []
    spent = count_tokens(title) + 1  # with the line break behind it
    for item in items:
        text = text_of(item)
        spent += count_tokens(text) + (1 if kept else 0)
        if spent > budget:
            break  # not `continue`: a worse item never takes a better one's place
        kept.append((item, text))
    return kept, count_tokens("\n".join([title, *(text for _, text in kept)])) + 1 if kept else 0


_DATES: Final[dict[Language, dict[str, str]]] = {
    "en": {"on": "{since}", "span": "{since} to {until}", "since": "since {since}", "until": "until {until}",
           "said": "said {said}", "join": ", "},
    "zh": {"on": "{since}", "span": "{since} 至 {until}", "since": "自 {since} 起", "until": "至 {until}",
           "said": "{said} 所说", "join": "，"},
}  # fmt: skip


def _statement(memory: Memory, language: Language, zone: tzinfo) -> str:
    text = condense(as_text(memory, language), LONGEST)
    # What somebody said is quoted; what a model read from it stands as a sentence.
    if is_quote(memory) and memory.observed_at:
        speaker = f", {shown_name(memory.author)}" if person_of(memory.author) else ""
        text = f"{_long_date(memory.observed_at.astimezone(zone).date(), language)}{speaker}: “{text}”"
        when = _DATES[language]["until"].format(until=_last_day(memory, zone)) if memory.valid_until else ""
    else:
        when = dates_of(memory, language, zone)
    return f"{text} ({when})" if when else text


def dates_of(memory: Memory, language: Language, zone: tzinfo) -> str:
    """When a memory holds, if its words do not tell that, and when it was said, if that was on another day."""
    words = _DATES[language]
    said, since = _day(memory.observed_at, zone), _day(memory.valid_from, zone)
    until = _last_day(memory, zone)
    # A date of the same year in the words is taken for the date since which it holds.
    told = since is not None and since != said and f"{since:%Y}" in memory.content
    from_then = None if told or since == said else since
    # Where its words tell when something happened, they tell how long; a state may have ended after they were said.
    till_then = None if (told and memory.metadata.get("event")) or until == said else until
    if from_then and till_then:
        holds = words["on" if from_then == till_then else "span"]
    else:
        holds = words["since"] if from_then else words["until"] if till_then else ""
    dates = {"since": from_then, "until": till_then, "said": said}
    # A bare date would read as that since which it holds, so "said" tells the two apart.
    said_when = (words["said"] if holds or told else "{said}") if said else ""
    return words["join"].join(part.format(**dates) for part in (holds, said_when) if part)


def _long_date(day: date, language: Language) -> str:
    if language == "zh":
        return f"{day.year}年{day.month}月{day.day}日"
    return f"on {day.day} {MONTHS[day.month - 1]} {day.year}"


def _time_of(memory: Memory) -> datetime:
    return memory.observed_at or memory.created_at


def _last_day(memory: Memory, zone: tzinfo) -> date | None:
    # `valid_until` is the first moment at which it holds no more: what ends at midnight held until the day before.
    return _day(memory.valid_until and memory.valid_until - timedelta(microseconds=1), zone)


def _day(moment: datetime | None, zone: tzinfo) -> date | None:
    return moment.astimezone(zone).date() if moment else None
