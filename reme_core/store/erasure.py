"""Erasure: removing words from the database so that no table holds them any more.

A memory is not erased while its words stand in a log, in the history or in the message that they came from. So erasing
a memory does more:

- It erases the memories that were concluded from it, and those that say the same.
- It empties the messages that are its evidence. Their rows stay, so that the same messages are not recorded again.
- It removes the memory's wordings, present and past, from every other text of the workspace. Inside other texts only
  distinctive wordings are removed (see `wordings.is_distinctive`).

If a person told to erase it, all this concerns what the person said, and words that nobody else said.

Postgres keeps old versions of changed rows until the next vacuum, and keeps its write-ahead log and backups for longer.
To remove the bytes as well, run `VACUUM (FULL)` and let the backups expire.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb

from reme_core.errors import NotFoundError
from reme_core.postgres.database import Database
from reme_core.store import change, rows
from reme_core.store.change import Erase
from reme_core.store.filters import Filters
from reme_core.store.index import postings, writer
from reme_core.store.messages import add, rewrite
from reme_core.store.sql import LOCK_LOG, WITHOUT_HISTORY, load
from reme_core.store.wordings import Cut, as_values, remover_of, spellings
from reme_core.types import SCOPES, Memory, Message, Scope

# A subquery on no row is carried out once, where a function would be called for each row.
_SQL = load(
    "erasure.sql",
    whole="(select lower(wording) from unnest(%(whole)s::text[]) as given (wording))",
    marks="any(array(select lower(mark) from unnest(%(marks)s::text[]) as given (mark)))",
    columns=rows.SELECTED,
    of_scope=" and ".join(f"%({name})s::text in ('', m.{name})" for name in SCOPES),
)

_REFUSALS = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)

EraseWaiting = Callable[[str, Cut], Awaitable[None]]
"""Removes words from what waits to be recorded in a workspace."""


async def erase_memories(
    database: Database, workspace: str, memory_ids: Sequence[str], erase_waiting: EraseWaiting
) -> int:
    """Erase memories and every trace of their text; returns how many they are. An id of no memory is an error."""
    async with database.write_transaction(workspace) as conn:
        await _begin(conn, workspace)
        plan = await ErasurePlan.of(conn, workspace, memory_ids)
        # Without this error, a wrong id would look like an erasure that was done.
        if missing := [repr(one) for one in dict.fromkeys(memory_ids) if one not in plan.memories]:
            raise NotFoundError(f"nothing was erased: workspace '{workspace}' has no memory {', '.join(missing)}")
        await plan.collect_evidence(conn, workspace)
        # Inside the transaction: if the second fails, nothing is erased, and the caller can try again.
        await erase_waiting(workspace, remover_of(await _carry_out(conn, workspace, plan)))
    return len(set(memory_ids))


async def erase_as_told(
    conn: AsyncConnection[Any], workspace: str, told: Sequence[Erase], erase_waiting: EraseWaiting
) -> None:
    """Erase what people told to, in the caller's transaction, in which no history is written from then on.

    What others say in the same words stays, and no text loses words that others say too.
    """
    for erase in told:
        await _begin(conn, workspace)
        plan = await ErasurePlan.of(conn, workspace, erase.memory_ids, erase)
        await plan.collect_evidence(conn, workspace, erase)
        wordings = plan.statements | plan.situations
        await plan.collect_messages(conn, workspace, wordings, erase)
        known = {"affected": list(plan.memories), "messages": list(plan.emptied | plan.cut), **_whose(erase)}
        words = wordings | set(plan.emptied.values())
        found = await _rows(conn, "said_by_others", workspace, words=spellings(words), **known)
        said = {word for (word,) in found}
        plan.kept = {word for word in words if not said.isdisjoint(spellings([word]))}
        await erase_waiting(workspace, remover_of(await _carry_out(conn, workspace, plan)))


async def erase_messages(
    database: Database, workspace: str, message_ids: Sequence[str], waiting: Sequence[Message]
) -> set[str]:
    """Empty messages, and erase the memories that have them as evidence; returns the ids of those that existed.

    The empty rows stay at their places in the conversation. Those that were `waiting` to be recorded get such rows.
    """
    async with database.write_transaction(workspace) as conn:
        await _begin(conn, workspace)
        await _record_empty(conn, workspace, waiting)
        concluded = await _rows(conn, "memories_from_messages", workspace, messages=list(message_ids))
        plan = await ErasurePlan.of(conn, workspace, [row[0] for row in concluded])
        plan.emptied.update(await _rows(conn, "messages", workspace, messages=list(message_ids)))
        await _carry_out(conn, workspace, plan)
    return set(plan.emptied)


async def erase_scope(database: Database, workspace: str, scope: Scope, waiting: Sequence[Message]) -> int:
    """Erase the memories and messages of a scope, and what was concluded from them; returns how many memories.

    Its messages that were `waiting` to be recorded get empty rows, as those have that were.

    Memories and messages of other scopes stay, even with the same words, and so do logs and artifacts of conversations
    in which this scope has said nothing. Of its own conversations the logged recalls are dropped.
    """
    filters = Filters(status=None, **scope)
    values = {"workspace": workspace, **filters.parameters()}
    within = "select {} from reme.{} m where " + " and ".join(["m.workspace_id = %(workspace)s", *filters.on_memory()])
    async with database.write_transaction(workspace) as conn:
        await _begin(conn, workspace)
        await _record_empty(conn, workspace, waiting)
        roots = await (await conn.execute(within.format("m.memory_id", "memory"), values)).fetchall()
        said = await (
            await conn.execute(within.format("m.message_id, m.content, m.session_id", "message"), values)
        ).fetchall()
        rest = await _rows(conn, "memories_from_messages", workspace, messages=[row[0] for row in said])
        # Not `ErasurePlan.of`, which also collects what says the same in other scopes.
        plan = ErasurePlan({row[0] for row in (*roots, *rest)}, emptied={row[0]: row[1] for row in said})
        plan.by_session = {}
        for _, content, session in said:
            plan.by_session.setdefault(session, set()).add(content)
        await plan.collect(conn, workspace)
        await _carry_out(conn, workspace, plan)
    return len(plan.memories)


async def _begin(conn: AsyncConnection[Any], workspace: str) -> None:
    await conn.execute(WITHOUT_HISTORY)
    await conn.execute(LOCK_LOG, {"workspace": workspace})


async def _record_empty(conn: AsyncConnection[Any], workspace: str, waiting: Sequence[Message]) -> None:
    """Give messages that never were recorded rows without words, so that they are not recorded when they come again."""
    for message in waiting:
        named = message.model_dump(include={"message_id", "session_id", "role", "sent_at", *SCOPES})
        with suppress(*_REFUSALS):  # what the database refuses will never be recorded
            async with conn.transaction():
                await add(conn, workspace, [Message(content="", **named)])


@dataclass(slots=True)
class ErasurePlan:
    """What an erasure affects: memories with all their wordings, and messages."""

    roots: set[str]
    """Ids of the memories that were named, and of those that say the same as one of them."""
    memories: dict[str, tuple[int, Memory]] = field(default_factory=dict)
    """The roots and all memories that were concluded from them: document number and memory, by id."""
    statements: set[str] = field(default_factory=set)
    situations: set[str] = field(default_factory=set)
    """But for those that other memories have as well."""
    emptied: dict[str, str] = field(default_factory=dict)
    """The words of each message to empty, by its id: it was named, or is evidence."""
    cut: dict[str, str] = field(default_factory=dict)
    """The words of each other message that says the same, by its id: it loses the wordings alone."""
    kept: set[str] = field(default_factory=set)
    """Words of the person who told to erase that others say, too: they stay in all texts but the person's own."""
    by_session: dict[str, set[str]] | None = None
    """For the erasure of a scope, what it said in each conversation: logs and artifacts of others then stay."""

    @classmethod
    async def of(
        cls, conn: AsyncConnection[Any], workspace: str, memory_ids: Collection[str], told: Erase | None = None
    ) -> ErasurePlan:
        """Collect the memories that were concluded from the given ones or say the same, until no more are found.

        If a person told to erase them, those that say the same are the person's alone.
        """
        plan, whose = cls(set(memory_ids)), _whose(told)
        saying = plan.roots
        while saying:
            plan.roots |= saying
            await plan.collect(conn, workspace)
            for wording, is_statement in await _rows(conn, "wordings", workspace, affected=list(plan.memories)):
                if is_statement:
                    plan.statements.add(wording)
                # A situation of one word may be the name of a tool, which other memories use.
                elif len(wording.split()) > 1 or not wording.isascii():
                    plan.situations.add(wording)
            said = {"affected": list(plan.memories), **as_values(plan.statements), **whose}
            found = await _rows(conn, "memories_saying", workspace, **said)
            saying = {row[0] for row in found}
        # Several lessons of one attempt may have one situation; those that stay are found by it.
        known = {"affected": list(plan.memories), "situations": list(plan.situations)}
        plan.situations -= {row[0] for row in await _rows(conn, "situations_of_others", workspace, **known)}
        return plan

    async def collect(self, conn: AsyncConnection[Any], workspace: str) -> None:
        """Collect the roots and the memories that were concluded from them."""
        found = await _rows(conn, "affected", workspace, roots=list(self.roots))
        for memory_id, number, when_to_use, content, keywords, subject in found:
            memory = Memory.model_construct(
                when_to_use=when_to_use, content=content, keywords=keywords, subject=subject
            )
            self.memories[memory_id] = (number, memory)

    async def collect_evidence(self, conn: AsyncConnection[Any], workspace: str, told: Erase | None = None) -> None:
        """Collect the messages that the roots rest on; none of another person than the one who told to erase."""
        self.emptied.update(await _rows(conn, "evidence", workspace, roots=list(self.roots), **_whose(told)))

    async def collect_messages(
        self, conn: AsyncConnection[Any], workspace: str, wordings: Collection[str], told: Erase | None = None
    ) -> None:
        """Collect the messages that say one of some wordings: those of the person who told to erase, or everybody's."""
        if wordings:
            said = {"messages": list(self.emptied), **as_values(wordings), **_whose(told)}
            self.cut.update(await _rows(conn, "messages_saying", workspace, **said))


def _whose(told: Erase | None) -> dict[str, str | None]:
    """What is a person's, as values of statements; without a person, all is."""
    if told is None:
        return dict.fromkeys(("subject", "author", *SCOPES))
    scope = dict.fromkeys(SCOPES, "") | cast(dict[str, str], told.scope)
    return {"subject": told.subject, "author": told.author, **scope}


async def _carry_out(conn: AsyncConnection[Any], workspace: str, plan: ErasurePlan) -> set[str]:
    """Erase in the database; returns the words that are to stand nowhere any more."""
    wordings = plan.statements | plan.situations
    swept = wordings - plan.kept
    words = (swept | set(plan.emptied.values())) - plan.kept - {""}
    await plan.collect_messages(conn, workspace, swept)
    cut = remover_of(wordings)
    rewritten = {message_id: cut(content) for message_id, content in plan.cut.items()} | dict.fromkeys(plan.emptied, "")
    blank = [message_id for message_id, content in rewritten.items() if not content.strip()]
    numbers = [number for number, _ in plan.memories.values()]
    await rewrite(conn, workspace, rewritten, without_trace=True)
    await writer.remove_vectors(conn, workspace, numbers)
    await postings.remove(conn, workspace, numbers)
    gone = [change.weigh(memory) for _, memory in plan.memories.values()]
    await postings.write(conn, workspace, "memory", (), 1.0, removed=gone)
    values = {"workspace": workspace, "affected": list(plan.memories), "messages": blank, **as_values(swept)}
    for statement in ("drop_history", "drop_recalls", "drop_memories", "forget_answers", "forget_quotes"):
        await conn.execute(_SQL[statement], values)
    await _cut_memories(conn, workspace, values, remover_of(swept))
    if plan.by_session is None:
        await conn.execute(_SQL["drop_queries"], values | as_values(words))
        await _forget_in_artifacts(conn, workspace, {None: words})
    else:
        sessions = [session for session in plan.by_session if session]
        await conn.execute(_SQL["drop_queries_of_sessions"], values | {"whole": spellings(words), "sessions": sessions})
        await _forget_in_artifacts(conn, workspace, plan.by_session)
    await _sweep(conn, workspace, swept)
    # The clock, not the start of this transaction: a recall that was asked meanwhile may have found what is erased now.
    ((moment,),) = await (await conn.execute(_SQL["moment"])).fetchall()
    await conn.execute(_SQL["mark_erased"], values | {"moment": moment})
    return words


async def _cut_memories(conn: AsyncConnection[Any], workspace: str, values: Mapping[str, Any], cut: Cut) -> None:
    """Remove wordings from the situations, subjects and keywords of other memories, and index these by the rest.

    Their vectors stay, which nobody here can make anew.
    """
    found = await (await conn.execute(_SQL["memories_quoting"], values)).fetchall()
    if not found:
        return
    before = {number: rows.to_memory(workspace, row) for number, *row in found}
    after = {number: _without_words(memory, cut) for number, memory in before.items()}
    cut_rows = Jsonb([rows.from_memory(memory) for memory in after.values()])
    await conn.execute(_SQL["cut_memories"], {"workspace": workspace, "rows": cut_rows})
    await postings.remove(conn, workspace, before)
    state = await writer.begin(conn, workspace, "memory", count=0)
    documents = [postings.Document(number, change.weigh(memory)) for number, memory in after.items()]
    added, removed = [document.counts for document in documents], [change.weigh(memory) for memory in before.values()]
    await postings.write(conn, workspace, "memory", documents, state.mean_length, added=added, removed=removed)


def _without_words(memory: Memory, cut: Cut) -> Memory:
    keywords = list(filter(None, map(cut, memory.keywords)))
    return memory.model_copy(
        update={"when_to_use": cut(memory.when_to_use), "subject": cut(memory.subject), "keywords": keywords}
    )


async def _forget_in_artifacts(conn: AsyncConnection[Any], workspace: str, said: Mapping[Any, Collection[str]]) -> None:
    """Remove what was said in each session from the session's artifacts; with the session None, from all artifacts."""
    values = [{"workspace": workspace, "session": name, **as_values(words)} for name, words in said.items()]
    await conn.cursor().executemany(_SQL["forget_in_artifacts"], [row for row in values if row["forms"]])


async def _sweep(conn: AsyncConnection[Any], workspace: str, wordings: Collection[str]) -> None:
    """Remove wordings from every column that holds text of the workspace."""
    values = {"workspace": workspace, **as_values(wordings)}
    if not values["forms"]:
        return
    for table, column in await _rows(conn, "text_columns", workspace):
        names = {"table": sql.Identifier(table), "column": sql.Identifier(column)}
        await conn.execute(sql.SQL(_SQL["sweep"]).format(**names), values)


async def _rows(conn: AsyncConnection[Any], statement: str, workspace: str, **values: Any) -> list[tuple[Any, ...]]:
    return await (await conn.execute(_SQL[statement], {"workspace": workspace, **values})).fetchall()
