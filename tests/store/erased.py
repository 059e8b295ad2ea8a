"""What is remembered and then erased in the tests, and where traces of it are left."""

from __future__ import annotations

from datetime import UTC, datetime

from reme_core.engine import Engine
from reme_core.models import ModelCall
from reme_core.postgres.database import Database
from reme_core.store.logs import logging_for_workspace
from reme_core.types import Kind, Memory, Message, Source

SAID = "My dog is called Zyxxo and he loves quokka biscuits"
KNOWN = "Tom's dog Zyxxo loves quokka biscuits"
KNOWN_LATER = 'Tom\'s dog Zyxxo loves quokka "biscuits" and wombat toys'
RARE = ("zyxxo", "quokka", "wombat", "biscuit")
SESSION = [("m1", "Tom", "Good morning"), ("m2", "Tom", SAID), ("m3", "Ann", "How sweet, I prefer ferrets!"),
           ("m4", "Tom", "Ferrets bite"), ("m5", "Ann", "Only my brother")]  # fmt: skip


async def traces(database: Database, *words: str) -> dict[str, int]:
    """Tables of all schemas with a row that holds one of the words, seen by the owner, whom no policy stops."""
    async with database.owner_connection() as connection:
        tables = await connection.execute(
            "select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace"
            " where c.relkind in ('r', 'p', 'm') and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')"
        )
        found = {}
        for (table,) in await tables.fetchall():
            rows = await connection.execute(
                f"select count(*) from {table} t where lower(t::text) like any(%s)",  # type: ignore[arg-type]
                [[f"%{word.lower()}%" for word in words]],
            )
            row = await rows.fetchone()
            if row and row[0]:
                found[table] = row[0]
        return found


async def remember(reme: Engine, workspace: str) -> dict[str, Memory]:
    """A conversation, what was concluded from it, and traces of both all over the place."""
    moment = datetime(2023, 5, 7, tzinfo=UTC)
    messages = [
        Message(message_id=i, author=who, content=text, session_id="s", sent_at=moment, metadata={"raw": text})
        for i, who, text in SESSION
    ]
    await reme.record(workspace, messages, wait=True)
    quoting = Message(message_id="m9", content=f"As you wrote: {KNOWN.upper()} - is that so?", session_id="t")
    await reme.record(workspace, [quoting, Message(content="Certainly", session_id="t")], wait=True)
    dog = Memory(
        kind=Kind.OBSERVATION, subject="Tom", content=KNOWN, keywords=["quokka"],
        sources=[Source(kind="message", id="m2", quote=SAID)],
    )  # fmt: skip
    ferrets = Memory(
        content="Ann prefers ferrets",
        metadata={"beside": [KNOWN]},
        sources=[Source(kind="message", id="m2", quote=SAID)],
    )
    insight = Memory(kind=Kind.INSIGHT, content="Tom spoils Zyxxo", sources=[Source(kind="memory", id=dog.memory_id)])
    beyond = Memory(kind=Kind.INSIGHT, content="Quokka owners", sources=[Source(kind="memory", id=insight.memory_id)])
    twin = Memory(content=f"It is known that {KNOWN}.")
    for memory in (dog, ferrets, insight, beyond, twin):
        await reme.memories.add(workspace, memory, reason=f"about {memory.content}" if memory is ferrets else "")
    await reme.memories.update(workspace, dog.memory_id, content=KNOWN_LATER, reason="Zyxxo got toys")
    for kind in (None, "conversation"):
        await reme.recall(workspace, "Who loves quokka biscuits?", kind=kind)
    await reme.recall(workspace, SAID, kind="rule")
    with logging_for_workspace(workspace):
        reme.log_writer.log_call(
            ModelCall("openai", "m", "extract", ok=False, raw=f"sorry: {KNOWN}", error="not JSON: Zyxxo")
        )
    await reme.log_writer.flush()
    failure = f"the model's answer holds no JSON (it begins 'Zyxxo, as {KNOWN[:20]}')"
    await reme.database.execute(
        workspace, "insert into job_error (workspace_id, job_id, error) values (%s, 1, %s)", [workspace, failure]
    )
    await reme.database.execute(
        workspace,
        "insert into episode (workspace_id, episode_id, number, task_id, summary, mistakes, metadata)"
        " values (%s, 'e1', 1, 't', %s, %s, jsonb_build_object('note', %s::text))",
        [workspace, f"We found that {KNOWN}, mostly.", [KNOWN, "forgot to ask"], KNOWN],
    )
    return {"dog": dog, "ferrets": ferrets, "insight": insight, "beyond": beyond, "twin": twin}
