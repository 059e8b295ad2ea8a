"""A person, an agent and a run within a workspace: each door can say whose something is, and look at that alone."""

from __future__ import annotations

from typing import Any

import pytest

from reme_core import AsyncReMe, Settings
from reme_core.engine import Engine
from reme_core.errors import InputError
from reme_core.spool.file import Entry
from reme_core.spool.waiting import Spool, spool_path
from reme_core.store.artifacts import Artifact, Artifacts
from reme_core.store.filters import Filters
from reme_core.turn import MemoryTools, Turn, TurnMemory
from reme_core.types import Kind, Memory, Message, Scope, Scoped, Source

ANN: Scope = {"user_id": "ann", "agent_id": "cook"}
BOB: Scope = {"user_id": "bob", "agent_id": "cook", "run_id": "r1"}


def told(content: str, **more: Any) -> Message:
    return Message(content=content, session_id="s" + content[:8], **more)


async def contents(reme: Engine, **filters: Any) -> set[str]:
    return {m.content for m in await reme.memories.list("team", Filters.of(**filters))}


async def test_what_is_added_and_recorded_can_be_looked_at_by_whose_it_is(reme: Engine) -> None:
    await reme.memories.add("team", ["Ann likes tea.", Memory(content="Eve likes tea.", user_id="eve")], **ANN)
    await reme.memories.add("team", "Bob likes tea.", **BOB)
    await reme.memories.add("team", "Everybody likes tea.")
    await reme.record("team", [told("I drink tea at four."), told("I drink tea at five.", user_id="eve")], **ANN)
    for kind in ("personal", "conversation"):

        async def found(kind: str = kind, **scope: Any) -> set[str]:
            hits = (await reme.recall("team", "Who drinks tea?", kind=kind, **scope)).hits
            return {f"{h.memory.user_id}/{h.memory.agent_id}/{h.memory.run_id}" for h in hits}

        others = {"bob/cook/r1", "//"} if kind == "personal" else set()
        assert await found() == {"ann/cook/", "eve/cook/"} | others
        assert await found(user_id="ann") == {"ann/cook/"}
        assert await found(user_id="") == others - {"bob/cook/r1"}
        assert await found(agent_id="cook") == {"ann/cook/", "eve/cook/"} | others - {"//"}
        assert await found(user_id="ann", agent_id="nurse") == set()
        assert await found(run_id="r1") == others - {"//"}
    assert await contents(reme, user_id="bob") == {"Bob likes tea."}
    assert [m.scope for m in await reme.messages("team", "sI drink ")] == [
        {**ANN, "run_id": ""},
        {"user_id": "eve", "agent_id": "cook", "run_id": ""},
    ]
    assert {m.content for m in await reme.memories.as_of("team", (await reme.memories.list("team"))[0].recorded_at)}


async def test_whose_it_is_can_be_corrected_and_goes_along_with_a_library(reme: Engine, tmp_path: Any) -> None:
    [memory] = await reme.memories.add("team", "Likes tea.", **ANN)
    await reme.memories.add("team", "Likes tea.", **ANN)
    assert len(await reme.memories.list("team")) == 1, "who says it again says the same, of the same scope"
    await reme.memories.update("team", memory.memory_id, user_id="eve")
    assert await contents(reme, user_id="eve") == {"Likes tea."}
    await reme.workspaces.dump("team", tmp_path / "team.jsonl")
    await reme.workspaces.load("other", tmp_path / "team.jsonl")
    await reme.workspaces.copy("team", "third")
    for workspace in ("other", "third"):
        [again] = await reme.memories.list(workspace)
        assert again.scope == {"user_id": "eve", "agent_id": "cook", "run_id": ""}


async def test_memories_inherit_from_the_messages_they_are_made_of(reme: Engine) -> None:
    await reme.record("team", told("My sister Ines lives in Hull with her dog Rex."), **ANN)
    await reme.record("team", told("My brother Karl lives in Oslo with his cat Tom."))
    await reme.summarise("team")
    scopes = {m.content.split()[2]: (m.user_id, m.agent_id) for m in await reme.memories.list("team")}
    assert scopes == {"Ines": ("ann", "cook"), "Karl": ("", "")}


async def test_what_one_person_says_does_nothing_to_the_memories_of_another(reme: Engine) -> None:
    said = "My sister Ines lives in Hull with her dog Rex."
    for session, scope in (("a", ANN), ("b", BOB), ("c", Scope()), ("d", ANN)):
        await reme.record("team", Message(content=said), session_id=session, **scope)
        await reme.summarise("team")
    seen = {m.user_id: m.seen_count for m in await reme.memories.list("team")}
    assert seen == {"ann": 2, "bob": 1, "": 1}
    await reme.record("team", Message(content="Forget what I told you about Ines."), session_id="e", **BOB)
    await reme.summarise("team")
    assert {m.user_id for m in await reme.memories.list("team")} == {"ann", ""}


async def test_one_persons_memory_can_be_erased_and_nobody_elses_goes(reme: Engine) -> None:
    said = "My sister Ines lives in Hull with her dog Rex."
    for session, scope in (("a", ANN), ("b", BOB)):
        await reme.record("team", Message(content=said), session_id=session, **scope)
    await reme.summarise("team")
    [of_ann] = await reme.memories.list("team", Filters(user_id="ann"))
    concluded = Memory(kind=Kind.INSIGHT, content="Has family.", sources=[Source(kind="memory", id=of_ann.memory_id)])
    await reme.memories.add("team", concluded)
    assert await reme.workspaces.clear("team", user_id="ann") == 2
    assert {m.user_id for m in await reme.memories.list("team", Filters(status=None))} == {"bob"}
    assert [m.content for m in await reme.messages("team", "b")] == [said]
    assert await reme.messages("team", "a") == []
    left = await reme.database.fetch(
        "team", "select count(*) from reme.memory_history where after ->> 'user_id' = 'ann'"
    )
    assert left == [(0,)]
    for found in ("personal", "conversation"):
        assert {h.memory.user_id for h in (await reme.recall("team", "Where does Ines live?", kind=found)).hits} == {
            "bob"
        }
    for empty in ({"user_id": ""}, {"user_id": "", "run_id": "r1"}):  # left out, it would mean everybody's
        with pytest.raises(InputError, match="nothing was erased: user_id is empty"):
            await reme.workspaces.clear("team", **empty)


async def test_artifacts_and_logs_of_other_conversations_stay(reme: Engine) -> None:
    said = "Please summarise the quarterly report for the board."
    for session, scope in (("a", ANN), ("b", BOB)):
        await reme.record("team", Message(content=said), session_id=session, **scope)
        left = Artifact(session, "turns", session, f"user: {said} It is late.", "They asked for the report.")
        await Artifacts(reme.database).put("team", session, [left])
        for query in (said, f"{said} Now!", "Who asked?"):
            await reme.recall("team", query, kind="rule", current_session=session)
    await reme.recall("team", said, kind="rule")
    await reme.log_writer.flush()
    await reme.workspaces.clear("team", **ANN)
    assert [(await reme.working.read("team", name)).text for name in ("a", "b")] == [
        "user:  It is late.",
        f"user: {said} It is late.",
    ]
    summaries = await reme.database.fetch("team", "select artifact_id, summary from reme.artifact")
    assert dict(summaries) == {"a": "", "b": "They asked for the report."}
    asked = await reme.database.fetch("team", "select session_id, count(*) from reme.retrieval group by 1")
    assert asked == [("b", 3)]


async def test_a_turn_clears_its_scope_alone_with_what_waits(settings: Settings) -> None:
    async with AsyncReMe(settings) as reme:
        turns = [TurnMemory(client=reme, workspace_id="team", spool="memory", **scope) for scope in (ANN, BOB)]
        for turn in turns:
            await turn.record([Message(content="My dog Rex lives in Lisbon.")], "t1", session_id=turn.scope["user_id"])
        await turns[0].clear()
        await turns[1].aclose()
        hits = (await reme.recall("team", "Where does Rex live?", kind="conversation")).hits
        assert [hit.memory.user_id for hit in hits] == ["bob"]


async def test_what_the_database_refused_is_cleared_with_its_scope(reme: Engine) -> None:
    spool = Spool(spool_path("file", reme.settings))
    try:
        for scope in (ANN, BOB):
            entry = Entry("team", [Message(content="A secret", **scope)])
            spool.put(entry)
            spool.set_aside(entry, "refused")
        await reme.memories.add("team", "The team is here")
        await reme.workspaces.clear("team", **ANN)
        assert [m.user_id for entry in spool.refusals() for m in entry.messages] == ["bob"]
    finally:
        spool.close()


async def test_a_lesson_inherits_from_the_attempt(reme: Engine) -> None:
    attempt = [
        Message(content="Book a table.", user_id="ann", agent_id="cook"),
        Message(role="assistant", content="I called the restaurant and booked it.", agent_id="cook"),
    ]
    trajectories = [{"task_id": "t", "score": 1.0, "messages": [m.model_dump(mode="json") for m in attempt]}]
    await reme.execute("summary_task_memory", workspace_id="team", trajectories=trajectories)
    lessons = await reme.memories.list("team", Filters.of(kind=Kind.TASK))
    assert lessons and {(m.user_id, m.agent_id) for m in lessons} <= {("ann", "cook"), ("", "cook")}


async def test_a_turn_keeps_to_its_scope_unless_its_filters_say_otherwise(settings: Settings) -> None:
    async with AsyncReMe(settings) as reme:

        async def note(question: str, **options: Any) -> str:
            turn = TurnMemory(client=reme, workspace_id="team", spool="memory", write="awaited", **options)
            known = (await turn.begin(question)).text
            await turn.record([Message(content=question)], session_id=question)
            return known

        await note("My dog Rex lives in Lisbon with my mother.", **ANN)
        await reme.memories.add("team", Memory(kind=Kind.INSTRUCTION, content="Answer in rhyme."), **BOB)
        ann, bob = await note("Where does my dog Rex live?", **ANN), await note("Where does my dog Rex live?", **BOB)
        assert "Lisbon" in ann and "rhyme" not in ann
        assert "Lisbon" not in bob and "rhyme" in bob
        assert "Lisbon" not in await note("Where does Rex live?", user_id="ann", agent_id="nurse")
        others: dict[str, Any] = {"filters": {"agent_id": None}}
        assert "Lisbon" in await note("And where does Rex live?", user_id="ann", agent_id="nurse", **others)
        messages = [{"role": "user", "content": "Where does Rex live, my dog?"}]
        async with Turn(reme, "team", messages, **ANN) as turn:
            assert "Lisbon" in turn.note.text
        said = (await reme.recall("team", "Rex, my dog", kind="conversation", user_id="ann")).hits
        assert messages[0]["content"] in [hit.content for hit in said]


async def test_an_agents_tools_keep_to_its_scope(settings: Settings) -> None:
    async with AsyncReMe(settings) as reme:
        tools = [MemoryTools(TurnMemory(client=reme, workspace_id="team", **scope)) for scope in (ANN, BOB)]
        for tool in tools:
            assert "Remembered as" in await tool.add_memory("Rex is a poodle.")
        assert "remembered already" in await tools[0].add_memory("Rex is a poodle.")
        await tools[0].add_memory("Rex likes bones.")
        assert "bones" in await tools[0].search_memory("What does Rex like?")
        assert "bones" not in await tools[1].search_memory("What does Rex like?")


async def test_reflection_keeps_to_one_scope_and_the_background_to_each(reme: Engine) -> None:
    for scope in (ANN, BOB, Scope()):
        await reme.memories.add("team", "Likes tea.", **scope)
    assert await reme.memories.scopes("team") == [Scoped(**scope).scope for scope in (Scope(), ANN, BOB)]


async def test_a_mistyped_scope_is_refused(settings: Settings) -> None:
    wrong: dict[str, Any] = {"userid": "ann"}
    async with AsyncReMe(settings) as reme:
        with pytest.raises(InputError, match="user_id, agent_id, run_id"):
            await reme.record("team", Message(content="Hello."), **wrong)
        with pytest.raises(InputError, match="user_id, agent_id, run_id"):
            await reme.memories.add("team", "Likes tea.", **wrong)
        with pytest.raises(InputError, match="agent_id is a text, not None"):
            TurnMemory(client=reme, workspace_id="team", agent_id=None)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="user_id is a text, not 7"):
            await reme.record("team", Message(content="Hello."), user_id=7)  # type: ignore[arg-type]
