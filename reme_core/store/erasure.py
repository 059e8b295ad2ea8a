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

import asyncio
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

_IS_REMOVED = (
    "h.workspace_id = %(workspace)s and h.operation = 'delete' and not exists"
    " (select from reme.memory m where m.workspace_id = %(workspace)s and m.memory_id = h.memory_id)"
)
"""Of an entry `h` of the history: it has what a load removed, and nothing has brought back."""

# A subquery on no row is carried out once, where a function would be called for each row.
_SQL = load(
    "erasure.sql",
    whole="(select lower(wording) from unnest(%(whole)s::text[]) as given (wording))",
    marks="any(array(select lower(mark) from unnest(%(marks)s::text[]) as given (mark)))",
    columns=rows.SELECTED,
    is_removed=_IS_REMOVED,
    evidence="(select memory_id, source_kind, source_id from reme.memory_source where workspace_id = %(workspace)s"
    " union all select h.memory_id, kind, id from reme.memory_history h"
    " cross join lateral jsonb_to_recordset(h.before -> 'sources') as source (kind text, id text)"
    f" where {_IS_REMOVED})",
    of_scope=" and ".join(f"%({name})s::text in ('', m.{name})" for name in SCOPES),
)

_FORGET = ("drop_history", "drop_recalls", "drop_memories", "forget_answers", "forget_failures", "forget_quotes")
REFUSALS = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)

# Between two statements, terms of long documents are weighed, longer than other transactions may idle.
_PATIENCE = "select set_config('idle_in_transaction_session_timeout', '300s', true)"

_NO_WORDS = Memory(content="")

Wordings = Mapping[str, list[str]]
"""Wordings as values of statements; see `as_values`."""

EraseWaiting = Callable[[AsyncConnection[Any], str, Cut], Awaitable[None]]
"""Removes words from what waits to be recorded in a workspace, and records what is left of it, within the erasure.

Somebody may have taken a turn already, and wait for the end of the erasure. When it records that turn, the database
knows its messages and calls by their ids, and the erased words do not come back.
"""


async def erase_memories(
    database: Database, workspace: str, memory_ids: Sequence[str], erase_waiting: EraseWaiting
) -> int:
    """Erase memories and every trace of their text; returns how many they are. An id of no memory is an error."""
    async with database.write_transaction(workspace) as conn:
        erasure = await _Erasure.begin(conn, workspace)
        await erasure.collect_same(memory_ids)
        # Without this error, a wrong id would look like an erasure that was done.
        if missing := [repr(one) for one in dict.fromkeys(memory_ids) if one not in erasure.memories]:
            raise NotFoundError(f"nothing was erased: workspace '{workspace}' has no memory {', '.join(missing)}")
        await erasure.collect_evidence()
        # Inside the transaction: if the second fails, nothing is erased, and the caller can try again.
        words = await erasure.carry_out()
        await erase_waiting(conn, workspace, await asyncio.to_thread(remover_of, words))
    return len(set(memory_ids))


async def erase_as_told(
    conn: AsyncConnection[Any], workspace: str, told: Sequence[Erase], erase_waiting: EraseWaiting
) -> None:
    """Erase what people told to, in the caller's transaction, in which no history is written from then on.

    What others say in the same words stays, and no text loses words that others say too.
    """
    for erase in told:
        erasure = await _Erasure.begin(conn, workspace, erase)
        await erasure.collect_same(erase.memory_ids)
        await erasure.collect_evidence()
        wordings = erasure.statements | erasure.situations
        await erasure.collect_messages(as_values(wordings), _whose(erase))
        words = wordings | {text for _, text in await erasure.words_of_messages()}
        messages = [*erasure.emptied, *erasure.cut]
        found = await erasure.fetch("said_by_others", words=spellings(words), messages=messages, **_whose(erase))
        said = {word for (word,) in found}
        erasure.kept = {word for word in words if not said.isdisjoint(spellings([word]))}
        await erase_waiting(conn, workspace, remover_of(await erasure.carry_out()))


async def erase_messages(
    database: Database, workspace: str, message_ids: Sequence[str], waiting: Sequence[Message]
) -> set[str]:
    """Empty messages, and erase the memories that have them as evidence; returns the ids of those that existed.

    The empty rows stay at their places in the conversation. Those that were `waiting` to be recorded get such rows.
    """
    async with database.write_transaction(workspace) as conn:
        erasure = await _Erasure.begin(conn, workspace)
        await _record_empty(conn, workspace, waiting)
        messages = list(message_ids)
        concluded = await erasure.fetch("memories_from_messages", messages=messages)
        await erasure.collect_same([row[0] for row in concluded])
        erasure.emptied |= {row[0] for row in await erasure.fetch("messages", messages=messages)}
        await erasure.carry_out()
    return erasure.emptied


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
        erasure = await _Erasure.begin(conn, workspace)
        await _record_empty(conn, workspace, waiting)
        own = await (await conn.execute(within.format("m.memory_id", "memory"), values)).fetchall()
        said = await (await conn.execute(within.format("m.message_id", "message"), values)).fetchall()
        erasure.emptied = {row[0] for row in said}
        erasure.by_session = True
        rest = await erasure.fetch("memories_from_messages", messages=list(erasure.emptied))
        # Not `collect_same`, which also collects what says the same in other scopes.
        removed = await erasure.fetch("removed_of_scope", **dict.fromkeys(SCOPES, "") | cast(dict[str, str], scope))
        await erasure.collect({row[0] for row in (*own, *rest, *removed)})
        await erasure.carry_out()
    return len(erasure.stored)


async def _record_empty(conn: AsyncConnection[Any], workspace: str, waiting: Sequence[Message]) -> None:
    """Give messages that never were recorded rows without words, so that they are not recorded when they come again."""
    for message in waiting:
        named = message.model_dump(include={"message_id", "session_id", "role", "sent_at", *SCOPES})
        with suppress(*REFUSALS):  # what the database refuses will never be recorded
            async with conn.transaction():
                await add(conn, workspace, [Message(content="", **named)])


@dataclass(slots=True)
class _Erasure:
    """An erasure in a transaction: it collects memories, with all their wordings, and messages, and erases them."""

    conn: AsyncConnection[Any]
    workspace: str
    told: Erase | None
    """What a person told to erase: then those that say the same, and the evidence, are the person's alone."""
    roots: set[str] = field(default_factory=set)
    """Ids of the memories that were named, and of those that say the same as one of them."""
    memories: set[str] = field(default_factory=set)
    """Ids of the roots and of all memories that were concluded from them."""
    stored: dict[int, Memory] = field(default_factory=dict)
    """These by their document numbers, without those that a load removed: they are in the history alone."""
    statements: set[str] = field(default_factory=set)
    situations: set[str] = field(default_factory=set)
    """But for those that other memories have as well."""
    emptied: set[str] = field(default_factory=set)
    """Ids of the messages to empty: they were named, or are evidence."""
    cut: dict[str, str] = field(default_factory=dict)
    """The words of each other message that says the same, by its id: it loses the wordings alone."""
    kept: set[str] = field(default_factory=set)
    """Words of the person who told to erase that others say, too: they stay in all texts but the person's own."""
    by_session: bool = False
    """For the erasure of a scope, whose words go from its own conversations: logs and artifacts of others then stay."""

    @classmethod
    async def begin(cls, conn: AsyncConnection[Any], workspace: str, told: Erase | None = None) -> _Erasure:
        """Begin an erasure: from now on the transaction writes no history, and nobody else writes the log."""
        await conn.execute(_PATIENCE)
        await conn.execute(WITHOUT_HISTORY)
        await conn.execute(LOCK_LOG, {"workspace": workspace})
        return cls(conn, workspace, told)

    async def fetch(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement that reads, which may name the memories that are `affected`."""
        known = {"workspace": self.workspace, "affected": list(self.memories)}
        return await (await self.conn.execute(_SQL[statement], known | values)).fetchall()

    async def collect(self, memory_ids: Collection[str]) -> None:
        """Collect memories, and those that were concluded from them."""
        self.roots |= set(memory_ids)
        for memory_id, number, *texts in await self.fetch("affected", roots=list(self.roots)):
            self.memories.add(memory_id)
            if number is not None:
                fields = dict(zip(("when_to_use", "content", "keywords", "subject"), texts, strict=True))
                # Made anew, each takes a hundred times as long, and Postgres does not wait for so many.
                self.stored[number] = _NO_WORDS.model_copy(update=fields)

    async def collect_same(self, memory_ids: Collection[str]) -> None:
        """Collect memories, and those that were concluded from them or say the same, until no more are found."""
        while memory_ids:
            await self.collect(memory_ids)
            for wording, is_statement in await self.fetch("wordings"):
                if is_statement:
                    self.statements.add(wording)
                # A situation of one word may be the name of a tool, which other memories use.
                elif len(wording.split()) > 1 or not wording.isascii():
                    self.situations.add(wording)
            found = await self.fetch("memories_saying", **as_values(self.statements), **_whose(self.told))
            memory_ids = {row[0] for row in found}
        # Several lessons of one attempt may have one situation; those that stay are found by it.
        self.situations -= {row[0] for row in await self.fetch("situations_of_others", situations=[*self.situations])}

    async def collect_evidence(self) -> None:
        """Collect the messages that the roots rest on."""
        found = await self.fetch("evidence", roots=list(self.roots), **_whose(self.told))
        self.emptied |= {row[0] for row in found}

    async def words_of_messages(self) -> list[tuple[str, str]]:
        """The conversation and the words of each message to empty, also those it had before it was edited."""
        return cast(list[tuple[str, str]], await self.fetch("said", messages=list(self.emptied)))

    async def collect_messages(self, sought: Wordings, whose: Mapping[str, str | None]) -> None:
        """Collect the messages that say one of some wordings, of a person or of everybody."""
        if sought["whole"]:
            self.cut.update(await self.fetch("messages_saying", messages=list(self.emptied), **sought, **whose))

    async def carry_out(self) -> set[str]:
        """Erase all that was collected; returns the words that are to stand nowhere any more."""
        conn, workspace = self.conn, self.workspace
        wordings = self.statements | self.situations
        swept = wordings - self.kept
        said = await self.words_of_messages()
        words = (swept | {text for _, text in said}) - self.kept - {""}
        # In threads: of long documents each of these takes seconds.
        sought = await asyncio.to_thread(as_values, swept)
        await self.collect_messages(sought, _whose(None))
        cut = await asyncio.to_thread(remover_of, wordings)
        contents = await asyncio.to_thread(list, map(cut, self.cut.values()))
        rewritten = dict(zip(self.cut, contents, strict=True)) | dict.fromkeys(self.emptied, "")
        blank = [message_id for message_id, content in rewritten.items() if not content.strip()]
        await rewrite(conn, workspace, rewritten, without_trace=True)
        await change.unindex(conn, workspace, self.stored, without_trace=True)
        values = {"workspace": workspace, "affected": list(self.memories), "messages": blank, **sought}
        for statement in _FORGET:
            await conn.execute(_SQL[statement], values)
        await self._cut_memories(sought, await asyncio.to_thread(remover_of, swept))
        if self.by_session:
            of_sessions: dict[str, set[str]] = {}
            for session, text in said:
                of_sessions.setdefault(session, set()).add(text)
            asked = values | {"whole": spellings(words), "sessions": list(filter(None, of_sessions))}
            await conn.execute(_SQL["drop_queries_of_sessions"], asked)
            of_each = await asyncio.to_thread(list, map(as_values, of_sessions.values()))
            await self._forget_in_artifacts(dict(zip(of_sessions, of_each, strict=True)))
        else:
            of_all = await asyncio.to_thread(as_values, words)
            await conn.execute(_SQL["drop_queries"], values | of_all)
            await self._forget_in_artifacts({None: of_all})
        await self._sweep(sought)
        # The clock, not the start of this transaction: a recall that was asked meanwhile may have found what is erased
        # now.
        ((moment,),) = await self.fetch("moment")
        await conn.execute(_SQL["mark_erased"], values | {"moment": moment})
        return words

    async def _cut_memories(self, sought: Wordings, cut: Cut) -> None:
        """Remove wordings from the situations, subjects and keywords of other memories, and index these by the rest.

        Their vectors stay, which nobody here can make anew.
        """
        found = await self.fetch("memories_quoting", **sought)
        if not found:
            return
        before = {number: rows.to_memory(self.workspace, row) for number, *row in found}
        after = {number: _without_words(memory, cut) for number, memory in before.items()}
        cut_rows = Jsonb([rows.from_memory(memory) for memory in after.values()])
        await self.conn.execute(_SQL["cut_memories"], {"workspace": self.workspace, "rows": cut_rows})
        await postings.remove(self.conn, self.workspace, before)
        index = await writer.begin(self.conn, self.workspace, "memory")
        documents = [postings.Document(number, change.weigh(memory)) for number, memory in after.items()]
        added, removed = [one.counts for one in documents], [change.weigh(memory) for memory in before.values()]
        await index.write_postings(documents, added=added, removed=removed)

    async def _forget_in_artifacts(self, said: Mapping[Any, Wordings]) -> None:
        """Remove what was said in each session from the session's artifacts; with the session None, from all."""
        values = [{"workspace": self.workspace, "session": name, **sought} for name, sought in said.items()]
        await self.conn.cursor().executemany(_SQL["forget_in_artifacts"], [row for row in values if row["forms"]])

    async def _sweep(self, sought: Wordings) -> None:
        """Remove wordings from every column that holds text of the workspace."""
        values = {"workspace": self.workspace, **sought}
        if not values["forms"]:
            return
        for table, column in await self.fetch("text_columns"):
            names = {"table": sql.Identifier(table), "column": sql.Identifier(column)}
            await self.conn.execute(sql.SQL(_SQL["sweep"]).format(**names), values)


def _whose(told: Erase | None) -> dict[str, str | None]:
    """What is a person's, as values of statements; without a person, all is."""
    if told is None:
        return dict.fromkeys(("subject", "author", *SCOPES))
    scope = dict.fromkeys(SCOPES, "") | cast(dict[str, str], told.scope)
    return {"subject": told.subject, "author": told.author, **scope}


def _without_words(memory: Memory, cut: Cut) -> Memory:
    keywords = list(filter(None, map(cut, memory.keywords)))
    return memory.model_copy(
        update={"when_to_use": cut(memory.when_to_use), "subject": cut(memory.subject), "keywords": keywords}
    )
