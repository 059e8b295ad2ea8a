"""Ids that are made from what they name, so that something sent twice has the same id twice."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from reme_core.types import Message, Trajectory


def stable_id(*parts: object) -> str:
    """32 hexadecimal digits made from the parts; equal parts give equal ids, at all times and on all machines.

    >>> stable_id("a", 1) == stable_id("a", 1) != stable_id("a1")
    True
    """
    text = json.dumps(parts, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def id_within(message_id: str, conversation: str, person: str = "") -> str:
    """An id for the whole workspace, for a message whose id counts within a conversation, or within a person's.

    >>> id_within("7", "monday"), id_within("7", "monday", "ann")
    ('monday/7', 'monday/ann/7')
    >>> id_within("7", "a/b") == id_within("b/7", "a")
    False
    """
    # UUIDs too: an application may send one message, or other words under its id, in several conversations.
    return _prefix(conversation) + _prefix(person) + message_id


def id_without(message: Message) -> str:
    """The id that a message has within its conversation: what `id_within` was given.

    >>> ids = ("monday/ann/7", "monday/7", "7")
    >>> [id_without(Message(message_id=one, session_id="monday", user_id="ann")) for one in ids]
    ['7', '7', '7']
    """
    own = message.message_id.removeprefix(_prefix(message.session_id))
    return own.removeprefix(_prefix(message.user_id)) if own != message.message_id else own


def with_persons_id(message: Message) -> Message:
    """A message whose id, if it was given one, counts within the conversation of its person, if it has one.

    One that has such an id, as what was read back from a memory, keeps it.
    """
    if not (message.user_id and message.session_id and "message_id" in message.model_fields_set):
        return message
    named = id_within(id_without(message), message.session_id, message.user_id)
    return message.model_copy(update={"message_id": named})


def earlier_ids(message: Message) -> list[str]:
    """The ids by which a message of `with_persons_id` may have been stored before ids counted within a person."""
    own = id_without(message)
    is_persons = message.user_id and message.message_id == id_within(own, message.session_id, message.user_id)
    return [id_within(own, message.session_id), own] if is_persons else []


def _prefix(name: str) -> str:
    escaped = name.replace("%", "%25").replace("/", "%2F")  # so that the first `/` ends it
    return f"{escaped}/" if name else ""


def with_ids(messages: Iterable[Message], *context: str) -> list[Message]:
    """The messages of a conversation, each with its own id, or with one made from its words and those before it.

    The context tells this conversation from others with equal words, and so does whose the messages are.
    """
    # From the messages before it: a client that sends a conversation again, with more messages, adds only these.
    known: list[Message] = []
    before = stable_id(*context)
    for message in messages:
        given = message.message_id if "message_id" in message.model_fields_set else ""
        calls = [(call.name, call.arguments) for call in message.tool_calls]
        said = message.sent_at if "sent_at" in message.model_fields_set else ""
        before = given or stable_id(before, message.scope, message.role, message.author, message.content, calls, said)
        known.append(message if given else message.model_copy(update={"message_id": before}))
    return known


class ConversationIds:
    """Gives ids to the messages of a conversation whose framework gives them none, one after the other.

    The same conversation gets the same ids when it is given once more: with more messages, without the calls of tools
    in it, or by another of its agents.
    """

    def __init__(self, conversation: str, person: str = "") -> None:
        """Begin a conversation of that name; two people (`user_id`) may each have one of the same name."""
        self._asked = stable_id(conversation, person) if person else stable_id(conversation)
        self._said: Counter[str] = Counter()

    def name(self, message: Message) -> Message:
        """The next message, with its id."""
        calls = [(call.name, call.arguments) for call in message.tool_calls]
        # By its author first: other agents see an agent's words with the role of a user.
        said = stable_id(message.author or message.role, message.content, calls, message.tool_call_id)
        # An id follows from what the user said so far, not from all messages before it, of which some may be missing.
        if message.role == "user" and not message.author:
            self._asked, self._said = stable_id(self._asked, message.content), Counter()
        # Counted, since the same may be said again before the user speaks.
        self._said[said] += 1
        return message.model_copy(update={"message_id": stable_id(self._asked, said, self._said[said])})


def with_recorded_ids(
    messages: Sequence[Message],
    recorded: Sequence[Message],
    ids: ConversationIds,
    as_recorded: Callable[[Sequence[Message]], Sequence[Message]],
) -> list[Message]:
    """The messages of a whole conversation, with ids: those of the record where it has the same words in this order.

    `ids` gives new ones. `as_recorded` gives messages the words that a record keeps of them; those of the record it
    gives them anew, since secrets may have stayed in it until now.
    """
    place, known = 0, []
    kept = [(message.role, message.content) for message in as_recorded(recorded)]
    for message, as_kept in zip(messages, as_recorded(messages), strict=True):
        named, said = ids.name(message), (as_kept.role, as_kept.content)
        # Behind the last one that was found, so that both keep their order.
        found = next((n for n in range(place, len(kept)) if kept[n] == said), None)
        if found is not None:
            named, place = named.model_copy(update={"message_id": recorded[found].message_id}), found + 1
        known.append(named)
    return known


def episode_id(trajectory: Trajectory) -> str:
    """The id of an attempt: `episode_id` of its metadata, or one made from its task, score and messages."""
    given = trajectory.metadata.get("episode_id")
    if given:
        return str(given)
    return stable_id(trajectory.task_id, trajectory.score, [m.message_id for m in trajectory.messages])
