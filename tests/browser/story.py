"""What tests in a browser, and the pictures of the documentation, show: a person, her agent, and what it learned."""

from __future__ import annotations

from reme_core import AsyncReMe, Episode, Memory, Message
from reme_core.settings import Settings
from reme_core.turn import TurnMemory

ANSWER = "The Ribeira has good fish, and nothing there comes with peanuts."
LONG = "Donaudampfschifffahrtsgesellschaftskapitän" * 8
TALK = {
    "monday": [
        ("I live in Lisbon, and I am allergic to peanuts.", "I will remember that."),
        ("Please always answer briefly.", "Sure."),
        ("My sister Maria visits me on Friday.", "How nice."),
    ],
    "tuesday": [
        ("I moved to Porto last week.", "Congratulations!"),
        ("I work as a nurse at the Santo António hospital.", "Thank you for telling me."),
    ],
    "today": [("Where can I have dinner without getting sick?", ANSWER)],
}


async def tell(settings: Settings) -> None:
    """Store it: conversations with the notes of their turns, memories, attempts at a task, calls of a tool, a job."""
    async with AsyncReMe(settings) as reme:
        async with TurnMemory(client=reme, workspace_id="alice", write="awaited", top_k=3) as turn:
            for session, exchanges in TALK.items():
                for question, answer in exchanges:
                    asked = Message(content=question, session_id=session)
                    await turn.begin([asked], session_id=session)
                    await turn.record([asked, Message(role="assistant", content=answer, session_id=session)])
                if session != "today":
                    await reme.summarise("alice")
        for number, score in enumerate((0.2, 0.3, 0.3, 0.6, 0.5, 0.8, 0.9, 1, 0.9, 1)):
            episode = Episode(episode_id=f"e{number}", task_id="refund an order", score=score, summary="a refund")
            await reme.episodes.record("alice", episode)
        calls = [
            {
                "tool_name": "search_orders",
                "input": {"page": n},
                "output": "HTTP 500",
                "success": n % 3 > 0,
                "time_cost": n,
            }
            for n in range(9)
        ]
        await reme.tools.record("alice", calls)
        await reme.memories.add("alice", [Memory(content=LONG, subject=LONG, keywords=[LONG])])
        await reme.memories.add("alice", "Lena 每天早上喝绿茶。")
        await reme.memories.add("bob", "Bob likes rum.")
