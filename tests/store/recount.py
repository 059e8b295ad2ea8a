"""What the statistics of a workspace should be, counted from its rows."""

from __future__ import annotations

from collections import Counter

from reme_core.postgres.database import Database
from reme_core.store import change, rows
from reme_core.store.messages import _Turn

POSTINGS = "posting cross join lateral unnest(documents, impacts) as held (document_id, impact)"
"""For a FROM: every posting of every segment."""

Statistics = dict[str, tuple[int, int, dict[str, int]]]
"""By corpus: documents, terms all together, and how many documents hold each term."""


async def statistics(database: Database, workspace: str) -> Statistics:
    """As the database keeps them."""
    found: Statistics = {"memory": (0, 0, {}), "message": (0, 0, {})}
    for corpus, documents, terms in await database.fetch(
        workspace, "select corpus, documents, terms from corpus_statistic"
    ):
        found[corpus] = (documents, terms, {})
    for corpus, term, documents in await database.fetch(
        workspace,
        "select corpus, term, sum(cardinality(documents)) filter (where not from_neighbour) from posting"
        " group by corpus, term",
    ):
        if documents is not None:  # else no document holds it itself
            found[corpus][2][term] = int(documents)
    return found


async def recounted(database: Database, workspace: str) -> Statistics:
    """As its memories and messages have them."""
    memories = await database.fetch(workspace, f"select {rows.SELECTED} from memory m")
    messages = await database.fetch(
        workspace, "select session_id, position, document_id, author, role, content, sent_at from message"
    )
    return {
        "memory": _count([change.weigh(rows.to_memory(workspace, row)) for row in memories]),
        "message": _count([_Turn(*row).counts() for row in messages]),
    }


def _count(documents: list[Counter[str]]) -> tuple[int, int, dict[str, int]]:
    held: Counter[str] = Counter()
    for counts in documents:
        held.update(counts.keys())
    return len(documents), sum(round(sum(counts.values())) for counts in documents), dict(held)


async def consistent(database: Database, workspace: str) -> bool:
    """Whether statistics, postings and vectors are those of the documents there are."""
    assert await statistics(database, workspace) == await recounted(database, workspace)
    posted = await database.fetch(
        workspace,
        f"select term, count(distinct document_id), count(*) from {POSTINGS} where corpus = 'memory' group by term",
    )
    held = (await recounted(database, workspace))["memory"][2]
    assert {term: documents for term, documents, _ in posted} == held == {term: n for term, _, n in posted}
    misfiled = await database.fetch(
        workspace,
        "select term from posting where cardinality(documents) <> cardinality(impacts) or cardinality(documents) > 512"
        " or documents <> array(select unnest(documents) order by 1)"
        " or newest_document <> documents[cardinality(documents)]"
        " or best_impact <> (select max(impact) from unnest(impacts) as impact)",
    )
    assert misfiled == []
    orphans = await database.fetch(
        workspace,
        f"select document_id from (select document_id from {POSTINGS} union select document_id from embedding) d"
        " where document_id not in (select document_id from memory union select document_id from message)",
    )
    assert orphans == []
    without = await database.fetch(
        workspace,
        "select m.document_id from memory m where not exists (select from embedding e join workspace w"
        " on w.embedding_model = e.model and w.workspace_id = e.workspace_id"
        " where e.workspace_id = m.workspace_id and e.document_id = m.document_id and e.active = (m.status = 'active')"
        " and e.kind = m.kind)",
    )
    assert without == []
    return True
