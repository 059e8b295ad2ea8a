"""Taking in a conversation, and finding out which of its messages say something about a person."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, Field

from reme_core.models import ChatModel
from reme_core.ops.deps import Deps
from reme_core.ops.identity import identified, stable_id
from reme_core.ops.personal.reality import may_tell, unreal
from reme_core.ops.personal.statements import by_rules
from reme_core.ops.registry import op
from reme_core.ops.state import SummaryState
from reme_core.ops.transcript import language, said
from reme_core.prompts import prompt
from reme_core.schema import Message
from reme_core.store.messages import embed_waiting, record, said_before, unsummarised
from reme_core.text.fence import fenced

_CONTEXT = 30
"""Messages before the waiting ones that are looked at, so that a role play which began there is noticed."""
_BATCH = 40
"""Messages that one question to the model scores."""


@op(uses={"messages", "trajectories", "session_id", "user_name"}, writes={"waiting", "context"})
async def take_in(state: SummaryState, deps: Deps) -> None:
    """Record the messages that were given, and find those that no memory was made of yet.

    Where no messages are given, those that wait in the store are taken. Recording goes by id, and messages without one
    get one that follows from their words and place, so a conversation that is posted again is not heard again.
    """
    given = _given(state)
    if given:
        if await record(deps.database, state.workspace_id, given):
            await embed_waiting(deps.database, state.workspace_id, await deps.serving.embedder(state.workspace_id))
        ids = [message.message_id for message in given]
        state.waiting = await unsummarised(deps.database, state.workspace_id, ids=ids, limit=len(ids))
    else:
        state.waiting = await unsummarised(deps.database, state.workspace_id, session_id=state.session_id)
    if state.waiting:
        ids = [message.message_id for message in state.waiting]
        state.context = await said_before(deps.database, state.workspace_id, ids, window=_CONTEXT)


class _Score(BaseModel):
    number: int = Field(description="The number of the message")
    score: int = Field(description="0 nothing about the person, 1 fiction or guess, 2 general, 3 explicit", ge=0, le=3)


class _Scores(BaseModel):
    scores: list[_Score]


@op(reads={"waiting"}, uses={"context"}, writes={"heard", "taken_back"})
async def info_filter(
    state: SummaryState,
    deps: Deps,
    *,
    preserved_scores: tuple[int, ...] = (2, 3),
    keep_characters: int = 100,
    least_asked: int = 4,
) -> None:
    """Keep the messages in which people say something about themselves.

    Only what people said counts, and neither system prompts nor notes from memory nor the assistant's words do.
    Fiction, role play, jokes and pasted text go by rule, and so do greetings, questions and suppositions; what the
    offline rules can read is kept. The rest a chat model scores: 0 nothing about the person, 1 fiction or hypothesis, 2
    general or to be inferred, 3 explicit and important.

    Args:
        state: Reads `waiting` and `context`.
        deps: Uses `chat`.
        preserved_scores: The scores that are kept.
        keep_characters: How much of the beginning and of the end of a message is shown to the model.
        least_asked: From how many messages on the model is asked. A few are all read by what comes next, which costs
            less than to ask which of them are worth it, and small models judge the worth of a single message badly.
    """
    together = said([*state.context, *state.waiting])
    reasons = unreal(together)
    new = {message.message_id for message in state.waiting}
    state.taken_back = [m.message_id for m in state.context if reasons.get(m.message_id) == "joke"]
    real = [m for m in together if m.message_id in new and m.role == "user" and m.message_id not in reasons]
    heard = [m for m in real if may_tell(m)]
    # What the rules can read says something for certain, so the model is asked only about the rest.
    doubtful = [m for m in heard if not _readable(m)] if deps.chat is not None else []
    if deps.chat is not None and len(doubtful) >= least_asked:
        dropped = set()
        for at in range(0, len(doubtful), _BATCH):
            scored = await _scored(doubtful[at : at + _BATCH], deps, deps.chat, keep_characters)
            dropped |= {m.message_id for m, score in scored if score not in preserved_scores}
        heard = [m for m in heard if m.message_id not in dropped]
    state.heard = heard
    state.report["heard"] = len(heard)


async def _scored(messages: Sequence[Message], deps: Deps, chat: ChatModel, keep: int) -> list[tuple[Message, int]]:
    lines = [f"[{number}] {_shortened(m.content, keep)}" for number, m in enumerate(messages, 1)]
    request = prompt(
        "personal/info_filter",
        language(deps.language, messages),
        messages=fenced("\n".join(lines), "messages"),
        count=len(messages),
    )
    answer = await chat.structured(request, _Scores, purpose="info_filter")
    scores = {scored.number: scored.score for scored in answer.scores}
    # A message that the model forgot is looked at: extraction decides.
    return [(message, scores.get(number, 2)) for number, message in enumerate(messages, 1)]


def _given(state: SummaryState) -> list[Message]:
    conversations = [t.messages for t in state.trajectories]
    if state.messages:
        conversations.append(identified(state.messages))
    found = []
    for messages in conversations:
        # Turns without a session are one conversation: their neighbours lend them meaning.
        session = stable_id("session", messages[0].message_id) if messages else ""
        found += [m if m.session_id else m.model_copy(update={"session_id": session}) for m in messages]
    return found


def _readable(message: Message) -> bool:
    return bool(by_rules(message, subject="", person="", timezone="UTC"))


def _shortened(text: str, keep: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 2 * keep else f"{line[:keep]} … {line[-keep:]}"
