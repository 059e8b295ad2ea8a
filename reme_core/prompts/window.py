"""The windows in which a conversation is read: a stretch of new messages, with what was said right before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final

from reme_core.prompts import Language
from reme_core.prompts.budget import count_tokens
from reme_core.prompts.transcript import MAX_MESSAGE, condense, message_before, shown_name, speech_in
from reme_core.text.timex import render_date
from reme_core.types import Message

MESSAGES: Final = 24
"""New messages of one window: a session of 20 is read at once."""
OVERLAP: Final = 6
"""Messages before them, which only explain the new ones."""
TOKENS: Final = 2_000
"""Tokens of new messages: with prompt, memories and answer about half of the 8,000 that small local models read."""
_LOOKED_AT: Final = 30  # messages before, of which some may be notes and system prompts


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of one conversation.

    Attributes:
        ids: All messages that count as read with this window, also those that say nothing.
        new: The messages that are read, without notes and system prompts; numbered from 1 in the prompt.
        context: What was said right before them, oldest first.
    """

    ids: list[str]
    new: list[Message]
    context: list[Message]

    @property
    def people(self) -> list[Message]:
        """What people said in it."""
        return [message for message in self.new if message.role == "user"]

    def evidence(self, numbers: Sequence[int]) -> list[Message]:
        """The messages of these numbers, in order."""
        # A model may name numbers that there are not.
        return [self.new[n - 1] for n in sorted(set(numbers)) if 0 < n <= len(self.new)]

    def before(self, message: Message) -> Message | None:
        """The message that one of the new ones may answer; see `message_before`."""
        return message_before(message, [*self.context, *self.new])

    def as_text(self, speech: Language, unnamed: str, zone: tzinfo) -> str:
        """The window for a prompt: below each day a line a message. Messages that only explain have no number.

        Days are those of the speakers' time zone, since "today" and "tonight" mean these.
        """
        numbers = {message.message_id: number for number, message in enumerate(self.new, 1)}
        lines, day = [], ""
        for message in [*self.context, *self.new]:
            if (sent := render_date(message.sent_at.astimezone(zone), speech)) != day:
                day = sent
                lines.append(f"— {day}")
            number = numbers.get(message.message_id)
            speaker = shown_name(message.author) or (unnamed if message.role == "user" else message.role)
            mark = f"[{number}] " if number else ""
            lines.append(f"{mark}{speaker}: {condense(message.content, MAX_MESSAGE)}")
        return "\n".join(lines)


def windows(conversations: Sequence[Message], waiting: Sequence[Message]) -> Iterator[Window]:
    """The windows of all conversations in which messages wait, in the order in which these begin to wait.

    The conversations have the messages that wait, each behind what was said before it.
    """
    new = {message.message_id for message in waiting}
    sessions: dict[str, list[Message]] = {}
    for message in conversations:
        sessions.setdefault(message.session_id, []).append(message)
    begun = {message.session_id: message.sent_at for message in reversed(waiting)}
    for said in (sessions[session] for session in sorted(sessions, key=begun.__getitem__)):
        for start, end in _stretches(said, new):
            # What one window reads explains the next one.
            before = speech_in(said[max(start - _LOOKED_AT, 0) : start])
            stretch = said[start:end]
            yield Window([m.message_id for m in stretch], speech_in(stretch), before[-OVERLAP:])


def _stretches(said: Sequence[Message], new: Set[str]) -> Iterator[tuple[int, int]]:
    """From where to where the messages stand that are read together; no other message stands between them."""
    start, spent = 0, 0
    for place, message in enumerate(said):
        cost = count_tokens(message.content[:MAX_MESSAGE])
        is_new = message.message_id in new
        # A single message that is too long is a window of its own.
        if place > start and not (is_new and place - start < MESSAGES and spent + cost <= TOKENS):
            yield start, place
            start, spent = place, 0
        start, spent = (start, spent + cost) if is_new else (place + 1, 0)
    if start < len(said):
        yield start, len(said)
