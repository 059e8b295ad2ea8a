"""The view of a conversation that fits a window: which messages are in it, and where the summarised turns end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from reme_core.prompts.fence import NOTE_METADATA, is_note
from reme_core.text.ids import stable_id
from reme_core.types import Message
from reme_core.working.offload import handle_of
from reme_core.working.window import CountTokens, cuts, tokens_of

SUMMARY: Final = -1
"""The place of a summary, which is not one of the given messages."""

Placed = tuple[int, Message]
"""A message of a view, after its place among the given messages."""


@dataclass(slots=True)
class Turns:
    """A conversation, and the places where it may be cut.

    Attributes:
        messages: All messages, with long outputs shortened.
        lead: How many system prompts they begin with.
        handles: For each place where the conversation may be cut, a handle made from all messages before it.
    """

    messages: list[Message]
    lead: int
    handles: dict[int, str]

    @classmethod
    def of(cls, given: Sequence[Message], shown: list[Message], session_id: str) -> Turns:
        """The turns of a conversation, from its messages as they were given and as they are shown."""
        lead = next((n for n, message in enumerate(given) if message.role != "system"), len(given))
        places, handles, before = set(cuts(given)), {}, session_id
        for place, message in enumerate(given):
            if place > lead and place in places:
                # A chain over all messages before it, so that a summary is found again only for the same turns.
                handles[place] = handle_of("turns", before)
            if place >= lead:
                calls = [(call.name, call.arguments) for call in message.tool_calls]
                before = stable_id(before, message.role, message.author, message.content, calls)
        return cls(shown, lead, handles)

    def view(self, cut: int, summary: Message | None) -> list[Placed]:
        """The messages in the window if a summary replaces everything before `cut`.

        System prompts stay, and so does the user's last request.
        """
        placed = list(enumerate(self.messages))
        if summary is None:
            return placed
        gone, kept = placed[self.lead : cut], placed[cut:]
        prompts = [one for one in gone if one[1].role == "system"]
        # The user's last request, unless it is kept anyway.
        asked = [] if any(map(_is_request, kept)) else [one for one in gone if _is_request(one)][-1:]
        return [*placed[: self.lead], *prompts, (SUMMARY, summary), *asked, *kept]

    def next_cut(self, after: int, room: int, count: CountTokens, *, keep_recent: int = 0) -> int | None:
        """The first place after `after` where a cut leaves at most `room` tokens.

        If there is none, the last place for a cut; None if there is no place at all.
        """
        latest = len(self.messages) - keep_recent
        places = [place for place in self.handles if after < place <= latest]
        rest, sizes = 0, {}  # sizes: by place, the tokens from there to the end
        for place in reversed(range(len(self.messages))):
            rest += tokens_of(self.messages[place], count)
            sizes[place] = rest
        return next((place for place in places if sizes[place] <= room), places[-1] if places else None)

    def newest(self, known: Collection[str]) -> int | None:
        """The last place whose handle is in `known`: everything before it is summarised already."""
        return next((place for place in reversed(self.handles) if self.handles[place] in known), None)


def _is_request(one: Placed) -> bool:
    return one[1].role == "user" and not is_note(one[1])


def summary_message(text: str) -> Message:
    """A summary as a message of a conversation, marked so that it is never recorded."""
    return Message(role="user", content=text, metadata=dict(NOTE_METADATA))


def transcript_of(messages: Iterable[Message]) -> str:
    """Turns as one text, with nothing left out."""
    return "\n\n".join(_paragraph(message) for message in messages)


def _paragraph(message: Message) -> str:
    who = " ".join(filter(None, (message.role, message.author)))
    calls = "".join(f"\ncall {call.name}({call.arguments})" for call in message.tool_calls)
    thought = f"\n({message.reasoning_content})" if message.reasoning_content else ""
    return f"{who}:{thought} {message.content}{calls}"
