"""With redaction on, no secret is in the database, its logs or the spool, whichever way it came."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reme_core.engine import Engine
from reme_core.episodes.rules import Episode
from reme_core.errors import ConfigurationError
from reme_core.settings import Settings
from reme_core.store.change import Change
from reme_core.store.tool_calls import ToolCallResult
from reme_core.turn import TurnMemory
from reme_core.types import Memory, Message, Source
from tests.store.erased import traces

CARD = "4242 4242 4242 4242"
SAID = f"My card is {CARD}, please remember it for the hotel in Porto."


async def say_everywhere(reme: Engine, folder: Path) -> None:
    """A card number by each way that leads into the database."""
    call = {"tool_name": "pay", "input": {"card": CARD}, "output": f"declined {CARD}", "success": False}
    library = folder / "library.jsonl"
    library.write_text(json.dumps({"memory_type": "personal", "content": SAID}) + "\n", encoding="utf-8")
    await reme.record("w", [Message(content=SAID, session_id="s")], wait=True)
    await reme.summarise("w")
    await reme.execute("summary_personal_memory", workspace_id="w", messages=[{"role": "user", "content": SAID}])
    [stored] = await reme.memories.add("w", Memory(content=SAID, when_to_use=f"paying with {CARD}", keywords=[CARD]))
    await reme.memories.update("w", stored.memory_id, content=f"She pays with {CARD} now.")
    evidence = Source(kind="message", id="m", quote=SAID)
    await reme.memories.apply("w", Change(add=[Memory(content=f"As she said: {SAID}", sources=[evidence])]))
    await reme.tools.record("w", [call])
    attempt = [{"role": "user", "content": SAID}, {"role": "assistant", "content": f"Paid with {CARD}."}]
    await reme.episodes.record(
        "w", Episode(score=0.1, summary=SAID, mistakes=[f"typed {CARD}"], messages=[Message(**m) for m in attempt])
    )
    await reme.execute(
        "summary_task_memory", workspace_id="w", trajectories=[{"task_id": "t", "score": 1.0, "messages": attempt}]
    )
    await reme.working.fit(
        "w", [{"role": "user", "content": "?"}, {"role": "tool", "content": SAID * 400}], window=2_000, session_id="s"
    )
    await reme.workspaces.load("w", library)
    await reme.recall("w", f"Whose card is {CARD}?")
    await reme.retrieve("w", f"Whose card is {CARD}?")
    await reme.log_writer.flush()


async def test_no_table_has_a_secret_by_whichever_way_it_came(settings: Settings, tmp_path: Path) -> None:
    async with Engine(settings.model_copy(update={"redact": ["money"]})) as reme:
        await say_everywhere(reme, tmp_path)
        assert await traces(reme.database, CARD) == {}
        [hit, *_] = (await reme.recall("w", f"Whose card is {CARD}?", kind="conversation")).hits
        assert hit.content == SAID.replace(CARD, "[card number]")


async def test_a_model_is_shown_what_is_kept_of_a_long_task_at_once_and_later(settings: Settings) -> None:
    output = "\n".join(f"{n}: paid with {CARD}" for n in range(2_000))
    said: list[Message] = [Message(content=SAID), Message(role="tool", content=output)]
    said += [Message(role="assistant", content=f"Booking {n}. " + "It went as ever. " * 60) for n in range(40)]
    async with Engine(settings.model_copy(update={"redact": ["money"]})) as reme:
        excerpt = (await reme.working.fit("w", said, window=90_000, session_id="s")).messages[1].content
        [handle] = [one.artifact_id for one in await reme.working.artifacts("w", "s")]
        whole = (await reme.working.read("w", handle, size=10**6)).text
        left = int(excerpt.partition("up to offset ")[2].split(" ")[0])
        assert f"{len(whole):,} characters" in excerpt and f"<end>\n{whole[left:]}" in excerpt
        first = await reme.working.fit("w", said, window=4_000, session_id="s")
        later = await reme.working.fit("w", said, window=4_000, session_id="s")
        assert (first.made, later.made) == ("rules", "")
        assert [message.content for message in first.messages] == [message.content for message in later.messages]
        assert "My card is [card number]" in first.messages[0].content


async def test_without_the_setting_all_is_kept_as_it_was_said(reme: Engine, tmp_path: Path) -> None:
    await say_everywhere(reme, tmp_path)
    assert set(await traces(reme.database, CARD)) >= {
        "reme.artifact", "reme.episode", "reme.memory", "reme.memory_history", "reme.memory_source", "reme.message",
        "reme.retrieval", "reme.tool_call_result",
    }  # fmt: skip


async def test_a_spool_has_no_secret(settings: Settings, tmp_path: Path) -> None:
    away = settings.model_copy(update={"redact": ["all"], "database_url": "postgresql://127.0.0.1:9/none"})
    spool = tmp_path / "spool.sqlite3"
    turn = TurnMemory(Settings.of(away.model_dump()), "w", spool=spool, patience=0.2, kinds=["personal", "tool"])
    await turn.record([Message(content=SAID)])
    assert turn.record_calls([ToolCallResult(tool_name="pay", input={"card": CARD}, output=f"declined {CARD}")]) == 1
    await turn.aclose()
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("spool.sqlite3*"))
    assert kept.count(b"[card number]") == 3
    assert CARD.encode() not in kept


async def test_an_unknown_kind_is_refused_before_anything_is_open(settings: Settings) -> None:
    reme = Engine(settings.model_copy(update={"redact": ["creditcards"]}))
    with pytest.raises(ConfigurationError, match="redact: there is no kind 'creditcards'"):
        await reme.open()
    assert not reme.is_open
