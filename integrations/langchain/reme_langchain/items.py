"""Items in Postgres: the statements behind `ReMeStore`.

A write is one statement, so that it sees the items as they were before it, and an item that replaces another in one
batch keeps its namespace's place. Reads are one statement each; only where an item with a time to live was read, a
second one makes it live on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from langgraph.store.base import ListNamespacesOp, MatchCondition, SearchOp
from pgvector import Vector
from psycopg.types.json import Jsonb

from reme_core.errors import InputError
from reme_core.store.database import Database
from reme_langchain.conditions import Conditions

Namespace = tuple[str, ...]
Embedding = npt.NDArray[np.float32]

LONGEST_NAME: Final = 2_000
"""Bytes of a namespace and a key together: both stand in one entry of an index, which holds no more than 2,704."""
BATCH_LOCK: Final = 0x6974656D
"""First key of the advisory lock under which batches of writes take turns: two that overlap would deadlock."""


class Found(NamedTuple):
    """An item as it was read."""

    namespace: Namespace
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    place: int
    expires: bool
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """An item to be put, or to be deleted where there is no value, with the vectors of its texts by their path."""

    namespace: Namespace
    key: str
    value: dict[str, Any] | None
    ttl: float | None
    vectors: dict[str, Embedding]


class Items:
    """The items of one workspace."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    async def get(self, wanted: Sequence[tuple[Namespace, str]]) -> dict[tuple[Namespace, str], Found]:
        """Those of the wanted items that there are."""
        rows = [{"namespace": namespace, "key": key} for namespace, key in wanted]
        found = await self._found(_GET, {"wanted": Jsonb(rows)})
        return {(item.namespace, item.key): item for item in found}

    async def search(self, op: SearchOp, vector: Embedding | None) -> list[Found]:
        """The items below a namespace that pass a filter: best first where there is a vector, else in their order."""
        conditions = Conditions()
        where = [conditions.on("item.value", op.filter)] if op.filter else []
        params: dict[str, Any] = {"limit": op.limit, "offset": op.offset} | conditions.params
        if op.namespace_prefix:
            *outer, last = op.namespace_prefix
            params |= {"prefix": list(op.namespace_prefix), "beyond": [*outer, last + "\x01"]}
            where.append(_BELOW)
        statement = _SEARCH
        if vector is not None:
            params |= {"vector": Vector(vector), "width": len(vector)}
            statement = _SEARCH_BY_MEANING
        return await self._found(statement.format(where=" and ".join(["true", *where])), params)

    async def namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        """The namespaces that hold something, in order."""
        params: dict[str, Any] = {"limit": op.limit, "offset": op.offset, "depth": op.max_depth}
        where = [_matching(number, one, params) for number, one in enumerate(op.match_conditions or ())]
        rows = await self._database.fetch(
            self._workspace,
            _NAMESPACES.format(where=" and ".join(["true", *where])),
            params | {"workspace": self._workspace},
        )
        return [tuple(row[0]) for row in rows]

    async def write(self, items: Sequence[Written], mentioned: Iterable[Namespace]) -> None:
        """Put and delete items, all or none. New namespaces come in the order in which they are mentioned."""
        for item in items:
            _check_name(item.namespace, item.key)
        rows = [
            {"namespace": one.namespace, "key": one.key, "value": one.value, "ttl": one.ttl, "gone": one.value is None}
            for one in items
        ]
        values = {"workspace": self._workspace, "items": Jsonb(rows), "lock": BATCH_LOCK}
        values["namespaces"] = Jsonb([{"namespace": namespace} for namespace in dict.fromkeys(mentioned)])
        async with self._database.transaction(self._workspace) as connection:
            if len(items) > 1:
                await connection.execute(_TAKE_TURNS, values)
            await connection.execute(_ENSURE_WORKSPACE, values)
            cursor = await connection.execute(_WRITE, values)
            places = {(tuple(row[0]), row[1]): row[2] for row in await cursor.fetchall()}
            vectors = [
                (places[item.namespace, item.key], path, Vector(vector))
                for item in items
                for path, vector in item.vectors.items()
            ]
            if vectors:
                columns = zip(*vectors, strict=True)
                named = dict(zip(("places", "paths", "vectors"), map(list, columns), strict=True))
                await connection.execute(_WRITE_VECTORS, values | named)

    async def refresh(self, places: Sequence[int]) -> None:
        """Have items live on for their time from now."""
        await self._database.execute(
            self._workspace, _REFRESH, {"workspace": self._workspace, "places": sorted(places)}
        )

    async def sweep(self) -> int:
        """Delete what has expired, and say how many items that were."""
        rows = await self._database.execute(self._workspace, _SWEEP, {"workspace": self._workspace})
        return int(rows[0][0])

    async def _found(self, statement: str, params: dict[str, Any]) -> list[Found]:
        rows = await self._database.fetch(self._workspace, statement, params | {"workspace": self._workspace})
        return [Found(tuple(row[0]), *row[1:]) for row in rows]


def _check_name(namespace: Namespace, key: str) -> None:
    size = len("".join((*namespace, key)).encode("utf-8", "surrogatepass"))
    if size > LONGEST_NAME:
        raise InputError(
            f"namespace and key of an item take {LONGEST_NAME} bytes at the most, not {size}: {key[:40]!r}…;"
            " put long texts into the value"
        )


def _matching(number: int, condition: MatchCondition, params: dict[str, Any]) -> str:
    """A condition that a namespace begins or ends with a path; `*` stands for any label."""
    path = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        raise InputError(f"namespaces are matched by 'prefix' or 'suffix', not {condition.match_type!r}")
    parts = [f"cardinality(item.namespace) >= {len(path)}"]
    for place, label in enumerate(path):
        if label != "*":
            name = f"label{number}_{place}"
            params[name] = label
            before = 1 + place if condition.match_type == "prefix" else place + 1 - len(path)
            index = str(before) if condition.match_type == "prefix" else f"cardinality(item.namespace) + {before}"
            parts.append(f"item.namespace[{index}] = %({name})s::text")
    return f"({' and '.join(parts)})"


_ALIVE: Final = "(item.expires_at is null or item.expires_at > now())"

_COLUMNS: Final = (
    "item.namespace, item.key, item.value, item.created_at, item.updated_at, item.place, item.expires_at is not null"
)

# No label holds a character below U+0001, so these bounds hold the namespaces with the prefix and no others.
_BELOW: Final = "item.namespace >= %(prefix)s::text[] and item.namespace < %(beyond)s::text[]"

_GET: Final = f"""
select {_COLUMNS}, null
from jsonb_to_recordset(%(wanted)s) as wanted (namespace text[], key text)
join reme.item item on item.workspace_id = %(workspace)s
    and item.namespace = wanted.namespace and item.key = wanted.key
where {_ALIVE}
"""

_SEARCH: Final = f"""
select {_COLUMNS}, null
from reme.item item
where item.workspace_id = %(workspace)s and {_ALIVE} and {{where}}
order by item.namespace_place, item.place
limit %(limit)s offset %(offset)s
"""

# An item is as near as the nearest of its texts; those without vectors come last. A vector of zeros is near to nothing.
_SEARCH_BY_MEANING: Final = f"""
select {_COLUMNS}, near.score
from reme.item item
left join lateral (
    select max(coalesce(nullif(1 - (e.embedding <=> %(vector)s), 'NaN'), 0)) as score
    from reme.item_embedding e
    where e.workspace_id = item.workspace_id and e.place = item.place and vector_dims(e.embedding) = %(width)s
) near on true
where item.workspace_id = %(workspace)s and {_ALIVE} and {{where}}
order by near.score desc nulls last, item.namespace_place, item.place
limit %(limit)s offset %(offset)s
"""

_NAMESPACES: Final = f"""
select distinct item.namespace[1:coalesce(%(depth)s::integer, cardinality(item.namespace))] as namespace
from reme.item item
where item.workspace_id = %(workspace)s and {_ALIVE} and {{where}}
order by namespace
limit %(limit)s offset %(offset)s
"""

_TAKE_TURNS: Final = "select pg_advisory_xact_lock(%(lock)s, hashtext(%(workspace)s))"

_ENSURE_WORKSPACE: Final = "insert into reme.workspace (workspace_id) values (%(workspace)s) on conflict do nothing"

_WRITE: Final = f"""
with given as materialized (
    select *
    from rows from (jsonb_to_recordset(%(items)s) as (namespace text[], key text, value jsonb, ttl float, gone boolean))
        with ordinality as given (namespace, key, value, ttl, gone, number)
), mentioned as (
    select *
    from rows from (jsonb_to_recordset(%(namespaces)s) as (namespace text[]))
        with ordinality as mentioned (namespace, number)
), standing as materialized (
    select in_order.namespace, coalesce(in_order.known, nextval('reme.item_place')) as place
    from (
        select mentioned.namespace, (
            select item.namespace_place
            from reme.item item
            where item.workspace_id = %(workspace)s and item.namespace = mentioned.namespace and {_ALIVE}
            limit 1
        ) as known
        from mentioned
        order by mentioned.number
    ) in_order
), deleted as (
    delete from reme.item item
    using given
    where given.gone and item.workspace_id = %(workspace)s
      and item.namespace = given.namespace and item.key = given.key
), outdated as (
    delete from reme.item_embedding e
    using given, reme.item item
    where not given.gone and item.workspace_id = %(workspace)s and item.namespace = given.namespace
      and item.key = given.key and e.workspace_id = item.workspace_id and e.place = item.place
)
insert into reme.item as item (workspace_id, namespace, key, namespace_place, value, ttl_minutes, expires_at)
select %(workspace)s, given.namespace, given.key, standing.place, given.value, given.ttl,
       now() + given.ttl * interval '1 minute'
from given
join standing using (namespace)
where not given.gone
order by given.number
on conflict (workspace_id, namespace, key) do update
set value = excluded.value, updated_at = excluded.updated_at, ttl_minutes = excluded.ttl_minutes,
    expires_at = excluded.expires_at,
    created_at = case when {_ALIVE} then item.created_at else excluded.created_at end,
    place = case when {_ALIVE} then item.place else excluded.place end,
    namespace_place = excluded.namespace_place
returning item.namespace, item.key, item.place
"""

_WRITE_VECTORS: Final = """
insert into reme.item_embedding (workspace_id, place, path, embedding)
select %(workspace)s, place, path, embedding
from unnest(%(places)s::bigint[], %(paths)s::text[], %(vectors)b::vector[]) as given (place, path, embedding)
"""

_REFRESH: Final = """
update reme.item set expires_at = now() + ttl_minutes * interval '1 minute'
where workspace_id = %(workspace)s and place = any(%(places)s) and ttl_minutes is not null and expires_at > now()
"""

_SWEEP: Final = """
with swept as (
    delete from reme.item where workspace_id = %(workspace)s and expires_at <= now() returning 1
)
select count(*) from swept
"""
