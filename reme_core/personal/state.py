"""The state that the ops of personal memory read and write, and how what they decide is stored, as one change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from pydantic import Field

from reme_core.errors import ConflictError
from reme_core.flows.deps import Deps
from reme_core.flows.state import Internal, TrajectoryState, UpdateResult
from reme_core.store.change import ATTEMPTS, Change, retry_conflicts
from reme_core.store.messages import unsummarised_messages
from reme_core.types import Memory, Message


class PersonalState(TrajectoryState):
    """The state of flows that make memories of a person from conversations, and insights from memories."""

    user_name: str = "user"
    """The author of messages that name none, and the subject of insights."""
    session_id: str | None = None
    """If given, only waiting messages of this conversation are read."""

    waiting: Internal[list[Message]] = Field(default_factory=list)
    """Recorded messages that no flow has summarised yet. The end of the flow marks them as summarised."""
    context: Internal[list[Message]] = Field(default_factory=list)
    """These, each behind what was said right before it, in the order of their conversations."""
    subjects: Internal[list[str]] = Field(default_factory=list)
    """Aspects of a person that no insight is about yet."""

    def subject_of(self, message: Message) -> str:
        """The person whose memories a message adds to."""
        return message.author or self.user_name


@dataclass(slots=True)
class Outcome:
    """What an op decided: a change, the memories that it erases, and what it refused."""

    change: Change
    erased: Sequence[Memory] = ()
    refused: list[dict[str, str]] = field(default_factory=list)
    """The operations of a model that are not carried out, with the reasons."""


async def carry_out(
    decide: Callable[[Sequence[str]], Awaitable[Outcome | None]],
    ids: Sequence[str],
    state: PersonalState,
    deps: Deps,
    *,
    reason: str,
    attempts: int = ATTEMPTS,
) -> Outcome | None:
    """Decide what shall change, and store it together with the marks that its messages are summarised.

    What people told to erase is erased in the same transaction. So a job that dies in the middle or runs twice doubles
    nothing, and loses no command. `decide` is given the ids of the messages that still wait, and answers None to leave
    them to somebody else. If somebody else changed the same workspace meanwhile, it is asked again, `attempts` times at
    most; but not about words that were edited since they were read.

    Raises:
        ConflictError: Others changed the workspace again and again, or edited a message.
    """
    workspace, memories = state.workspace_id, deps.memories
    read = {message.message_id: message.content for message in state.waiting}

    async def attempt(number: int) -> Outcome | None:
        waiting = ids
        if number:
            left = await unsummarised_messages(deps.database, workspace, ids=ids, limit=len(ids))
            if edited := [m.message_id for m in left if m.content != read[m.message_id]]:
                raise ConflictError(f"edited while they were read, and to be read again: {', '.join(edited[:5])}")
            waiting = [message.message_id for message in left]
        if not waiting:
            return None
        version = await memories.version(workspace)
        outcome = await decide(waiting)
        if outcome is not None:
            outcome.change.summarised = {name: read[name] for name in waiting}
            outcome.change.expected_version = version
            await memories.apply(workspace, outcome.change, actor=deps.flow, reason=reason)
        return outcome

    outcome = await retry_conflicts(attempt, attempts)
    if outcome is not None:
        add_to_result(state, outcome.change, erased=len(outcome.erased))
    return outcome


def add_to_result(state: PersonalState, change: Change, *, erased: int = 0) -> None:
    """Add a change to what the flow says it did; several ops of one flow may make changes."""
    state.memories += [memory.model_copy(update={"workspace_id": state.workspace_id}) for memory in change.add]
    state.closing += change.close
    before = state.update_result or UpdateResult()
    state.update_result = UpdateResult(
        before.deleted_count + len(change.close) + erased,
        before.inserted_count + len(change.add),
        before.updated_count + len(change.confirm),
    )
