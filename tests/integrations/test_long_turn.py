"""A turn of a long conversation: what the model sees anyhow neither makes recall larger nor crowds out the rest."""

from __future__ import annotations

import pytest

from reme_core import AsyncReMe
from reme_core.turn import TurnMemory
from reme_core.types import Message
from tests.integrations.inside import fetch

TURNS = 300
ASKED = "Where does my dog Rex like to sleep?"
TOLD = "My dog Rex sleeps in the wine cellar."


def conversation() -> list[Message]:
    """So many turns about the very thing that is asked about."""
    return [
        Message(role=role, content=f"{opening} my dog Rex likes to sleep {number} hours.", message_id=f"{role}{number}")
        for number in range(TURNS)
        for role, opening in (("user", "Today"), ("assistant", "I see,"))
    ]


@pytest.mark.long
@pytest.mark.parametrize("known_by", ["their ids", "their words"])
async def test_three_hundred_turns_neither_hide_the_rest_nor_make_a_recall_larger(
    reme: AsyncReMe, known_by: str
) -> None:
    seen = conversation()
    await reme.record("alice", [Message(content=TOLD, session_id="last year")])
    await reme.record("alice", seen, wait=True)
    present = seen if known_by == "their ids" else [Message(role=m.role, content=m.content) for m in seen]
    async with TurnMemory(reme, "alice", kinds=["conversation"], top_k=3) as turn:
        note = await turn.begin([*present, Message(content=ASKED)], "t1")
        assert [hit.content for hit in note.hits][:1] == [TOLD]
        assert not {hit.content for hit in note.hits} & {m.content for m in seen}
    await reme.connection.run(lambda engine: engine.log_writer.flush())
    looks = await fetch(reme, "alice", "select count(*) from reme.retrieval_hit group by retrieval_id")
    assert 1 <= len(looks) <= 2
    assert max(count for (count,) in looks) <= 100


async def test_a_short_conversation_is_looked_at_once(reme: AsyncReMe) -> None:
    seen = conversation()[:6]
    await reme.record(
        "alice", [*seen, *(Message(content=f"{TOLD} ({n})", session_id="x") for n in range(20))], wait=True
    )
    async with TurnMemory(reme, "alice", kinds=["conversation"]) as turn:
        note = await turn.begin([*seen, Message(content=ASKED)], "t1")
    assert len(note.hits) == 5
    await reme.connection.run(lambda engine: engine.log_writer.flush())
    ((looks,),) = await fetch(reme, "alice", "select count(*) from reme.retrieval")
    assert looks == 1
