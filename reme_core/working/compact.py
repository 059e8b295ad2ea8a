"""A view of a conversation that fits a window: what stands in it, from which messages, and where old turns end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from reme_core.ids import stable_id
from reme_core.prompts.fence import NOTE_METADATA, is_note
from reme_core.types import Message
from reme_core.working.offload import handle_of
from reme_core.working.window import CountTokens, cuts, tokens_of

SUMMARY: Final = -1
"""The place of a summary, which is none of the messages that were given."""

Placed = tuple[int, Message]
"""A message of a view, and which of the given messages it is."""


@dataclass(slots=True)
class Turns:
    """A conversation behind its leading system prompts, and the places where it may be cut.

    Attributes:
        messages: All messages, long outputs shortened.
        lead: How many system prompts lead them.
        handles: By place, the handle of what stands before it: the same for the same messages.
    """

    messages: list[Message]
    lead: int
    handles: dict[int, str]

    @classmethod
    def of(cls, given: Sequence[Message], shown: list[Message], session_id: str) -> Turns:
        """The turns of messages as they were given, and as they are shown."""
        lead = next((n for n, message in enumerate(given) if message.role != "system"), len(given))
        places, handles, before = set(cuts(given)), {}, session_id
        for place, message in enumerate(given):
            if place > lead and place in places:
                handles[place] = handle_of("turns", before)
            if place >= lead:
                calls = [(call.name, call.arguments) for call in message.tool_calls]
                before = stable_id(before, message.role, message.author, message.content, calls)
        return cls(shown, lead, handles)

    def view(self, cut: int, summary: Message | None) -> list[Placed]:
        """What stands in the window where all before `cut` gave way to a summary.

        System prompts stay, and the request that is being worked at: the user's last words.
        """
        placed = list(enumerate(self.messages))
        if summary is None:
            return placed
        gone, kept = placed[self.lead : cut], placed[cut:]
        prompts = [one for one in gone if one[1].role == "system"]
        asked = [] if any(map(_is_request, kept)) else [one for one in gone if _is_request(one)][-1:]
        return [*placed[: self.lead], *prompts, (SUMMARY, summary), *asked, *kept]

    def next_cut(self, after: int, room: int, count: CountTokens, *, keep_recent: int = 0) -> int | None:
        """The first place behind `after` from which on everything takes no more than `room` tokens.

        Else the last place there is; None where there is none.
        """
        latest = len(self.messages) - keep_recent
        places = [place for place in self.handles if after < place <= latest]
        rest, sizes = 0, {}
        for place in reversed(range(len(self.messages))):
            rest += tokens_of(self.messages[place], count)
            sizes[place] = rest
        return next((place for place in places if sizes[place] <= room), places[-1] if places else None)

    def newest(self, known: Collection[str]) -> int | None:
        """The last place before which everything has been summarised."""
        return next((place for place in reversed(self.handles) if self.handles[place] in known), None)


def _is_request(one: Placed) -> bool:
    return one[1].role == "user" and not is_note(one[1])


def summary_message(text: str) -> Message:
    """A summary as a message of a conversation; what is recorded of that leaves it out."""
    return Message(role="user", content=text, metadata=dict(NOTE_METADATA))


def transcript_of(messages: Iterable[Message]) -> str:
    """Turns as text to be read back, nothing left out."""
    return "\n\n".join(_paragraph(message) for message in messages)


def _paragraph(message: Message) -> str:
    who = " ".join(filter(None, (message.role, message.author)))
    calls = "".join(f"\ncall {call.name}({call.arguments})" for call in message.tool_calls)
    thought = f"\n({message.reasoning_content})" if message.reasoning_content else ""
    return f"{who}:{thought} {message.content}{calls}"
