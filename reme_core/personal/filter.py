"""Taking in a conversation, and setting aside what is almost certainly no person's statement."""

from __future__ import annotations

from collections.abc import Sequence

from reme_core.flows.deps import Deps
from reme_core.flows.registry import op
from reme_core.personal.state import PersonalState
from reme_core.prompts.transcript import person_of, speech_in
from reme_core.store.messages import embed_waiting, messages_in_context, record, unsummarised_messages
from reme_core.text.fiction import BESIDE_WISH, unreal
from reme_core.text.ids import stable_id, with_ids
from reme_core.types import SCOPES, Message

_CONTEXT = 30
"""Messages before a waiting one that are looked at, so that a role play which began there is noticed."""


@op(uses={"messages", "trajectories", "session_id", "user_name", *SCOPES}, writes={"waiting", "context"})
async def take_in(state: PersonalState, deps: Deps) -> None:
    """Record the messages that were given, and find those that no memory was made of yet.

    Where no messages are given, those of the request's scope that wait in the store are taken. Recording goes by id,
    and messages without one get one that follows from their words and place, so a conversation that is posted again is
    not heard again.
    """
    given = _input_messages(state)
    if given:
        if await record(deps.database, state.workspace_id, given):
            embedder = await deps.workspace_models.embedder(state.workspace_id)
            await embed_waiting(deps.database, state.workspace_id, embedder)
        ids = [message.message_id for message in given]
        state.waiting = await unsummarised_messages(deps.database, state.workspace_id, ids=ids, limit=len(ids))
    else:
        state.waiting = await unsummarised_messages(
            deps.database, state.workspace_id, session_id=state.session_id, **state.scope
        )
    if state.waiting:
        ids = [message.message_id for message in state.waiting]
        said = await messages_in_context(deps.database, state.workspace_id, ids, window=_CONTEXT)
        # Of one that is edited at this moment the words that were read first.
        waiting = {message.message_id: message for message in state.waiting}
        state.context = [waiting.get(message.message_id, message) for message in said]


def statements(
    conversation: Sequence[Message], waiting: Sequence[Message]
) -> tuple[list[Message], list[Message], list[str]]:
    """The messages that may tell something, those that may only have a wish, and the ids of those taken back.

    The first two are among those that wait; the conversation also has what was said before them. System prompts, notes
    from memory, the assistant's words and role play are in neither. Fiction and pasted text tell nothing, but a wish
    may stand beside them. Whoever admits that something was a joke takes it back.
    """
    together = speech_in(conversation)
    reasons = unreal(together)
    new = {message.message_id for message in waiting}
    people = [m for m in together if m.message_id in new and m.role == "user"]
    # "Could you always answer in French?" asks nothing.
    told, aside = (
        [m for m in people if reasons.get(m.message_id, "question") in allowed]
        for allowed in (["question"], BESIDE_WISH)
    )
    return told, aside, [name for name, reason in reasons.items() if reason == "joke" and name not in new]


def _input_messages(state: PersonalState) -> list[Message]:
    found = []
    for messages in (*(t.messages for t in state.trajectories), with_ids(state.messages, state.user_name)):
        # Messages without a session are one conversation: their neighbours lend them meaning.
        session = stable_id("session", messages[0].message_id) if messages else ""
        for message in messages:
            # Who speaks is kept with the message: else it would be anybody's, beside memories that are somebody's.
            author = message.author or (person_of(state.user_name) if message.role == "user" else "")
            told = {"session_id": message.session_id or session, "author": author}
            found.append(message.model_copy(update=told))
    return found
