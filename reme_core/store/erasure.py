"""Erasure: removing words from the database so that no table holds them any more.

A memory is not erased while its words stand in a log, in the history or in the message that they came from. So erasing
a memory does more:

- It erases the memories that were concluded from it, and those that say the same.
- It empties the messages that are its evidence. Their rows stay, so that the same messages are not recorded again.
- It removes the memory's wordings, present and past, from every other text of the workspace. Inside other texts only
  distinctive wordings are removed (see `_is_distinctive`).

Postgres keeps old versions of changed rows until the next vacuum, and keeps its write-ahead log and backups for longer.
To remove the bytes as well, run `VACUUM (FULL)` and let the backups expire.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from psycopg import AsyncConnection, sql

from reme_core.errors import NotFoundError
from reme_core.postgres.database import Database
from reme_core.store import change
from reme_core.store.filters import Filters
from reme_core.store.index import postings, writer
from reme_core.store.messages import rewrite
from reme_core.store.sql import LOCK_LOG, WITHOUT_HISTORY, load
from reme_core.text.terms import terms
from reme_core.types import Memory, Scope

_SQL = load("erasure.sql")

# A name in Chinese has up to four characters, which are three bigrams: fewer than five terms may be just a name.
_DISTINCTIVE_TERMS, _DISTINCTIVE_CJK_TERMS = 3, 5
_SECRET_LENGTH = 6  # characters of a single word with a digit in it: a number, a password

EraseWaiting = Callable[[str, Collection[str], Callable[[str], str]], Awaitable[None]]
"""Removes words from what waits to be recorded: takes the workspace, the words, and a function that removes them."""


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
        plan.messages.update(await _rows(conn, "evidence", workspace, roots=list(plan.roots)))
        words = plan.statements | plan.situations | set(plan.messages.values())
        await _carry_out(conn, workspace, plan)
        # Inside the transaction: if this fails, nothing is erased, and the caller can try again.
        await erase_waiting(workspace, _distinctive(words), partial(_remove_wordings, wordings=words))
    return len(set(memory_ids))


async def erase_messages(database: Database, workspace: str, message_ids: Sequence[str]) -> set[str]:
    """Empty messages, and erase the memories that have them as evidence; returns the ids of those that existed.

    The empty rows stay at their places in the conversation.
    """
    async with database.write_transaction(workspace) as conn:
        await _begin(conn, workspace)
        concluded = await _rows(conn, "memories_from_messages", workspace, messages=list(message_ids))
        plan = await ErasurePlan.of(conn, workspace, [row[0] for row in concluded])
        plan.messages.update(await _rows(conn, "messages", workspace, messages=list(message_ids)))
        named = set(plan.messages)  # before other messages with the same words are added
        await _carry_out(conn, workspace, plan)
    return named


async def erase_scope(database: Database, workspace: str, scope: Scope) -> int:
    """Erase the memories and messages of a scope, and what was concluded from them; returns how many memories.

    Memories and messages of other scopes stay, even with the same words.
    """
    filters = Filters(status=None, **scope)
    values = {"workspace": workspace, **filters.parameters()}
    within = "select {} from reme.{} m where " + " and ".join(["m.workspace_id = %(workspace)s", *filters.on_memory()])
    async with database.write_transaction(workspace) as conn:
        await _begin(conn, workspace)
        roots = await (await conn.execute(within.format("m.memory_id", "memory"), values)).fetchall()
        said = await (await conn.execute(within.format("m.message_id, m.content", "message"), values)).fetchall()
        rest = await _rows(conn, "memories_from_messages", workspace, messages=[row[0] for row in said])
        # Not `ErasurePlan.of`, which also collects what says the same in other scopes.
        plan = ErasurePlan({row[0] for row in (*roots, *rest)}, messages=dict(said))
        await plan.collect(conn, workspace)
        await _carry_out(conn, workspace, plan)
    return len(plan.memories)


async def _begin(conn: AsyncConnection[Any], workspace: str) -> None:
    await conn.execute(WITHOUT_HISTORY)
    await conn.execute(LOCK_LOG, {"workspace": workspace})


@dataclass(slots=True)
class ErasurePlan:
    """What an erasure affects: memories with all their wordings, and messages."""

    roots: set[str]
    """Ids of the memories that were named, and of those that say the same as one of them."""
    memories: dict[str, tuple[int, Memory]] = field(default_factory=dict)
    """The roots and all memories that were concluded from them: document number and memory, by id."""
    statements: set[str] = field(default_factory=set)
    situations: set[str] = field(default_factory=set)
    messages: dict[str, str] = field(default_factory=dict)
    """The words of each message to change, by its id."""

    @classmethod
    async def of(cls, conn: AsyncConnection[Any], workspace: str, memory_ids: Collection[str]) -> ErasurePlan:
        """Collect the memories that were concluded from the given ones or say the same, until no more are found."""
        plan = cls(set(memory_ids))
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
            said = {"affected": list(plan.memories), **_patterns(plan.statements)}
            found = await _rows(conn, "memories_saying", workspace, **said)
            saying = {row[0] for row in found}
        return plan

    async def collect(self, conn: AsyncConnection[Any], workspace: str) -> None:
        """Collect the roots and the memories that were concluded from them."""
        found = await _rows(conn, "affected", workspace, roots=list(self.roots))
        for memory_id, number, when_to_use, content, keywords, subject in found:
            memory = Memory.model_construct(
                when_to_use=when_to_use, content=content, keywords=keywords, subject=subject
            )
            self.memories[memory_id] = (number, memory)


async def _carry_out(conn: AsyncConnection[Any], workspace: str, plan: ErasurePlan) -> None:
    wordings = plan.statements | plan.situations
    evidence, said = set(plan.messages), set(plan.messages.values())
    saying = {"messages": list(plan.messages), **_patterns(wordings)}
    plan.messages.update(await _rows(conn, "messages_saying", workspace, **saying))
    # Evidence is emptied; another message, even with the same words, loses the wording alone.
    rewritten = {
        message_id: "" if message_id in evidence else _remove_wordings(content, wordings)
        for message_id, content in plan.messages.items()
    }
    blank = [message_id for message_id, content in rewritten.items() if not content.strip()]
    numbers = [number for number, _ in plan.memories.values()]
    await rewrite(conn, workspace, rewritten, without_trace=True)
    await writer.remove_vectors(conn, workspace, numbers)
    await postings.remove(conn, workspace, numbers)
    gone = [change.weigh(memory) for _, memory in plan.memories.values()]
    await postings.write(conn, workspace, "memory", (), 1.0, removed=gone)
    values = {
        "workspace": workspace,
        "affected": list(plan.memories),
        "messages": blank,
        "escaped": [_escape(wording).lower() for wording in _distinctive(wordings)],
        **_patterns(wordings | said),
    }
    for statement in ("drop_history", "drop_retrievals", "drop_memories", "forget_answers", "forget_quotes"):
        await conn.execute(_SQL[statement], values)
    await conn.execute(_SQL["forget_in_artifacts"], {"workspace": workspace, "said": _distinctive(wordings | said)})
    await _sweep(conn, workspace, _distinctive(wordings))
    # The clock, not the start of this transaction: a recall that was asked meanwhile may have found what is erased now.
    ((moment,),) = await (await conn.execute(_SQL["moment"])).fetchall()
    await conn.execute(_SQL["mark_erased"], values | {"moment": moment})


async def _sweep(conn: AsyncConnection[Any], workspace: str, wordings: Sequence[str]) -> None:
    """Remove wordings from every column that holds text of the workspace."""
    if not wordings:
        return
    values = {
        "workspace": workspace,
        "wordings": list(wordings),
        # A column of JSON is searched as text.
        "patterns": [text.lower() for wording in wordings for text in (wording, _escape(wording))],
    }
    for table, column in await _rows(conn, "text_columns", workspace):
        statement = sql.SQL(
            "update reme.{table} set {column} = reme.remove_wordings({column}, %(wordings)s)"
            " where workspace_id = %(workspace)s and exists (select from unnest(%(patterns)s::text[]) as w (wording)"
            " where strpos(lower({column}::text), w.wording) > 0)"
        ).format(table=sql.Identifier(table), column=sql.Identifier(column))
        await conn.execute(statement, values)


def _escape(wording: str) -> str:
    """A wording as it reads within JSON, where quotation marks and line breaks are escaped."""
    return json.dumps(wording, ensure_ascii=False)[1:-1]


def _patterns(wordings: Collection[str]) -> dict[str, list[str]]:
    """Wordings as values of statements: all are compared with whole texts, distinctive ones also looked for inside."""
    return {
        "distinctive": [wording.lower() for wording in _distinctive(wordings)],
        "whole": [wording.lower() for wording in wordings],
    }


def _distinctive(wordings: Collection[str]) -> list[str]:
    """Those of some wordings that are distinctive, the longest first, since one may contain another."""
    return sorted(filter(_is_distinctive, wordings), key=len, reverse=True)


def _is_distinctive(wording: str) -> bool:
    """Whether a wording is so specific that other texts have it from here: a statement, a number, a password.

    A memory that reads "Berlin" must not remove that word from everything that was ever said about the city.

    >>> [_is_distinctive(text) for text in ("Her dog is called Rex", "San Francisco", "get_account_info", "hunter2")]
    [True, False, False, True]
    """
    found = set(terms(wording))
    words = wording.split()
    enough = len(words) >= _DISTINCTIVE_TERMS if wording.isascii() else len(found) >= _DISTINCTIVE_CJK_TERMS
    return (enough and len(found) >= _DISTINCTIVE_TERMS) or any(
        len(word) >= _SECRET_LENGTH and any(map(str.isdigit, word)) for word in words
    )


def _remove_wordings(content: str, wordings: Collection[str]) -> str:
    if content.lower() in {wording.lower() for wording in wordings}:
        return ""
    for wording in _distinctive(wordings):
        content = re.sub(re.escape(wording), "", content, flags=re.IGNORECASE)
    return content


async def _rows(conn: AsyncConnection[Any], statement: str, workspace: str, **values: Any) -> list[tuple[Any, ...]]:
    return await (await conn.execute(_SQL[statement], {"workspace": workspace, **values})).fetchall()
