"""The windows in which a conversation is read: a stretch of new messages, with what was said right before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from reme_core.prompts import Language
from reme_core.prompts.budget import count_tokens
from reme_core.prompts.transcript import condense, message_before, shown_name, speech_in
from reme_core.text.timex import render_date
from reme_core.types import Message

MESSAGES: Final = 24
"""New messages of one window: a session of 20 is read at once."""
OVERLAP: Final = 6
"""Messages before them, which only explain the new ones."""
TOKENS: Final = 2_000
"""Tokens of new messages: with prompt, memories and answer about half of the 8,000 that small local models read."""
_LONGEST: Final = 1_500  # characters of one message that are shown


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

    def question_before(self, message: Message) -> Message | None:
        """The assistant's message that a message may answer."""
        return message_before(message, [*self.context, *self.new])

    def as_text(self, speech: Language, unnamed: str) -> str:
        """The window for a prompt: below each day a line a message. Messages that only explain have no number."""
        numbers = {message.message_id: number for number, message in enumerate(self.new, 1)}
        lines, day = [], ""
        for message in [*self.context, *self.new]:
            if (sent := render_date(message.sent_at, speech)) != day:
                day = sent
                lines.append(f"— {day}")
            number = numbers.get(message.message_id)
            speaker = shown_name(message.author) or (unnamed if message.role == "user" else message.role)
            mark = f"[{number}] " if number else ""
            lines.append(f"{mark}{speaker}: {condense(message.content, _LONGEST)}")
        return "\n".join(lines)


def windows(waiting: Sequence[Message], context: Sequence[Message]) -> Iterator[Window]:
    """The windows of all conversations in which messages wait, in the order in which these began."""
    sessions: dict[str, list[Message]] = {}
    for message in waiting:
        sessions.setdefault(message.session_id, []).append(message)
    for session, messages in sorted(sessions.items(), key=lambda item: item[1][0].sent_at):
        earlier = [m for m in context if m.session_id == session]
        for stretch in _stretches(messages):
            # What one window reads explains the next one.
            yield Window([m.message_id for m in stretch], speech_in(stretch), speech_in(earlier)[-OVERLAP:])
            earlier = [*earlier, *stretch]


def _stretches(messages: Sequence[Message]) -> Iterator[list[Message]]:
    stretch: list[Message] = []
    spent = 0
    for message in messages:
        cost = count_tokens(message.content[:_LONGEST])
        # A single message that is too long is a window of its own.
        if stretch and (len(stretch) == MESSAGES or spent + cost > TOKENS):
            yield stretch
            stretch, spent = [], 0
        stretch.append(message)
        spent += cost
    if stretch:
        yield stretch
