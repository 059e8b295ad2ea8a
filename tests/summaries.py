"""What stands in for the flow that summarises, in tests of the jobs that run it."""

from __future__ import annotations

from reme_core import Message
from reme_core.engine import Engine
from reme_core.errors import ReMeError
from reme_core.store.messages import unsummarised_messages


class Summaries:
    """Notes what it was given, and marks it as done as the flow's last op does, unless it has a `failure`."""

    def __init__(self, reme: Engine) -> None:
        self.reme = reme
        self.seen: list[list[str]] = []
        self.done: set[str] = set()
        self.failure: ReMeError | None = None
        reme.background._summarise = self

    async def __call__(self, workspace: str, session_id: str) -> None:
        messages = await unsummarised_messages(self.reme.database, workspace, session_id=session_id)
        said = [m.content for m in messages]
        self.seen.append(said)
        if self.failure is not None:
            raise self.failure
        statement = "update reme.message set summarised_at = now() where message_id = any(%s)"
        await self.reme.database.execute(workspace, statement, ([m.message_id for m in messages],))
        self.done.update(said)


def turns(*texts: str, session: str = "s") -> list[Message]:
    """User messages of one session."""
    return [Message(content=text, session_id=session) for text in texts]
