"""Items: JSON values that programs put and get under a namespace and a key, as LangGraph's store does."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from numbers import Real
from string import Template
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from pgvector import Vector
from psycopg.types.json import Jsonb

from reme_core.errors import InputError, ReMeError
from reme_core.postgres.database import Database
from reme_core.store.item_filter import ItemFilter
from reme_core.store.sql import ENSURE_WORKSPACE, NUMBERS, load
from reme_core.text.plain import decode_json, encode_json

log = logging.getLogger(__name__)

Namespace = tuple[str, ...]
"""Labels, the outermost first."""
Embedding = npt.NDArray[np.float32]

LONGEST_NAME: Final = 2_000
"""Bytes of a namespace and a key together: both stand in one entry of an index, and 2,704 bytes are the most there."""
_BATCH_LOCK: Final = 0x6974656D  # "item" in ASCII: first key of the advisory lock of batches, see `Items.write`

_SQL = load("item.sql")


class Item(NamedTuple):
    """An item as it was read, with the times at which it was first and last put."""

    namespace: Namespace
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    place: int
    """Items are numbered in the order in which they are first put."""
    expires: bool
    score: float | None = None
    """In a search by vector, the cosine similarity, -1…1, of the nearest of its texts."""


def _check_labels(labels: Any) -> None:
    if not isinstance(labels, tuple | list) or not all(isinstance(label, str) for label in labels):
        raise InputError(f"a namespace is several labels, such as ('users', 'ada'), not {labels!r:.60}")


@dataclass(frozen=True, slots=True)
class ItemWrite:
    """An item to put.

    Raises:
        InputError: Namespace, key or value is of another type, the value is not JSON, namespace and key are too
            long, or the minutes to live are not above 0.
    """

    namespace: Namespace
    key: str
    value: dict[str, Any] | None
    """None deletes the item."""
    ttl: float | None = None
    """Minutes that it lives; None is for ever."""
    vectors: dict[str, Embedding] = field(default_factory=dict)
    """The vectors of its texts, by the texts' paths in the value."""

    def __post_init__(self) -> None:
        _check_labels(self.namespace)
        object.__setattr__(self, "namespace", tuple(self.namespace))  # a list is no key of a dict
        if not isinstance(self.key, str):
            raise InputError(f"the key of an item is a text, not {self.key!r:.60}")
        if not isinstance(self.value, dict | None):
            raise InputError(f"the value of {self.key!r:.60} is a dict, or None to delete it; not {self.value!r:.60}")
        size = len("".join(encode_json([*self.namespace, self.key])).encode())
        if size > LONGEST_NAME:
            raise InputError(
                f"namespace and key of an item take {LONGEST_NAME} bytes at the most, not {size}: {self.key[:40]!r}…;"
                " put long texts into the value"
            )
        if not isinstance(self.vectors, dict):
            raise InputError(
                f"vectors of {self.key!r:.60} are a dict, by the paths of its texts; not {self.vectors!r:.60}"
            )
        if self.ttl is not None and (
            not isinstance(self.ttl, Real) or self.ttl is True or not (math.isfinite(self.ttl) and self.ttl > 0)
        ):
            raise InputError(f"ttl is how many minutes {self.key!r} lives, or None for ever; not {self.ttl!r}")
        try:
            encode_json(self.value)
        except TypeError as error:
            raise InputError(f"the value of {self.key!r} in {self.namespace} is not JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class NamespacePattern:
    """A path that namespaces begin with, or end with if `at_end`; `*` in it stands for any label."""

    path: Namespace
    at_end: bool = False

    def __post_init__(self) -> None:
        _check_labels(self.path)


class Items:
    """The items of all workspaces; every method names the one it works in.

    ```python
    await reme.items.write("acme", [ItemWrite(("users", "ada"), "tastes", {"tea": "green"})])
    found = await reme.items.search("acme", ("users",), filters={"tea": "green"})
    ```

    Every method raises `InputError` for values that Postgres cannot store, and then writes nothing.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read_items: defaultdict[str, set[int]] = defaultdict(set)  # places of items to refresh, by workspace
        self._refreshing: asyncio.Task[None] | None = None

    async def aclose(self, patience: float) -> None:
        """Wait until the items that were read are refreshed, at most `patience` seconds."""
        if self._refreshing is not None:
            await asyncio.wait([self._refreshing], timeout=patience)

    async def get(self, workspace: str, names: Iterable[tuple[Namespace, str]]) -> dict[tuple[Namespace, str], Item]:
        """The items with these namespaces and keys, as far as they exist."""
        named = dict.fromkeys((tuple(namespace), key) for namespace, key in names)
        wanted = [{"namespace": namespace, "key": key} for namespace, key in named]
        found = await self._read(workspace, _SQL["get"], {"names": Jsonb(encode_json(wanted))})
        return {(item.namespace, item.key): item for item in found}

    async def search(
        self,
        workspace: str,
        prefix: Namespace = (),
        *,
        filters: Mapping[str, Any] | None = None,
        vector: Embedding | None = None,
        limit: int = 10,
        offset: int = 0,
    ) -> list[Item]:
        """The items below a namespace that pass a filter, in the order of their places; with a vector, nearest first.

        Their namespaces begin with the labels of `prefix`. For the filters see `ItemFilter`.

        Raises:
            InputError: The filter has an unknown operator, or compares with something that is no plain JSON value.
        """
        conditions = ItemFilter()
        where = [conditions.on("item.value", filters)] if filters else []
        values: dict[str, Any] = {"limit": limit, "offset": offset} | conditions.values
        _check_labels(prefix)
        if prefix:
            where.append(_SQL["below"])
            labels = encode_json(prefix)
            # No label has a character below U+0001, so this is the first namespace beyond those with the prefix.
            values |= {"prefix": labels, "beyond": [*labels[:-1], labels[-1] + "\x01"]}
        if vector is not None:
            values |= {"vector": _vector(vector), "width": len(vector)}
        statement = Template(_SQL["search" if vector is None else "search_by_meaning"])
        return await self._read(workspace, statement.substitute(where=" and ".join(where) or "true"), values)

    async def namespaces(
        self,
        workspace: str,
        patterns: Sequence[NamespacePattern] = (),
        *,
        depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """The namespaces that have items and match all patterns, in order, each cut after `depth` labels."""
        values = {
            "workspace": workspace,
            "patterns": Jsonb([{"path": encode_json(pattern.path), "at_end": pattern.at_end} for pattern in patterns]),
            "depth": depth,
            "limit": limit,
            "offset": offset,
        }
        rows = await self._database.fetch(workspace, _SQL["namespaces"], values)
        return [tuple(decode_json(row[0])) for row in rows]

    async def write(self, workspace: str, writes: Sequence[ItemWrite], *, order: Iterable[Namespace] = ()) -> None:
        """Put and delete items, all or none; of several with one name the last counts.

        New namespaces among `order` get their places in this order, before those of `writes`.
        """
        writes = list({(one.namespace, one.key): one for one in writes}.values())
        rows = [
            {"namespace": one.namespace, "key": one.key, "value": one.value, "ttl": one.ttl, "gone": one.value is None}
            for one in writes
        ]
        namespaces = dict.fromkeys([*map(tuple, order), *(one.namespace for one in writes)])
        values = {
            "workspace": workspace,
            "items": Jsonb(encode_json(rows)),
            "namespaces": Jsonb(encode_json([{"namespace": namespace} for namespace in namespaces])),
            "lock": _BATCH_LOCK,
        }
        sequence = {"sequence": "reme.item_place", "count": len(namespaces) + len(rows)}
        async with self._database.transaction(workspace) as connection:
            async with connection.pipeline():
                # Two batches with items in common, in other orders, would each wait for an item of the other.
                if len(writes) > 1:
                    await connection.execute(_SQL["take_turns"], values)
                await connection.execute(ENSURE_WORKSPACE, values)
                numbered = await connection.execute(NUMBERS, sequence)
            ((values["numbers"],),) = await numbered.fetchall()
            async with connection.pipeline():
                await connection.execute(_SQL["drop_expired"], values)
                # One statement sees all items as they were before it. So a namespace whose only item is replaced
                # within the batch keeps its place.
                cursor = await connection.execute(_SQL["write"], values)
                await connection.execute(_SQL["drop_vectors"], values)
            written = decode_json([list(row) for row in await cursor.fetchall()])
            places = {(tuple(namespace), key): place for namespace, key, place in written}
            if any(one.vectors for one in writes):
                await connection.execute(_SQL["write_vectors"], values | _vector_columns(writes, places))

    async def refresh(self, workspace: str, items: Iterable[Item]) -> None:
        """Begin the time to live of those items that expire anew.

        It is written in the background. If that fails, it is logged, and the items expire at their earlier time.
        """
        places = {item.place for item in items if item.expires}
        if places:
            # One task at a time: what is read while it runs is written by it as well.
            self._read_items[workspace] |= places
            if self._refreshing is None or self._refreshing.done():
                self._refreshing = asyncio.create_task(self._refresh_read())

    async def _refresh_read(self) -> None:
        while self._read_items:
            workspace, places = self._read_items.popitem()
            try:
                await self._database.execute(workspace, _SQL["refresh"], {"workspace": workspace, "places": [*places]})
            except ReMeError as error:
                log.warning("%d items that were read expire as if they had not been: %s", len(places), error)

    async def sweep(self, workspace: str) -> int:
        """Delete the items that have expired, which no read finds any more; returns how many there were."""
        rows = await self._database.execute(workspace, _SQL["sweep"], {"workspace": workspace})
        return int(rows[0][0])

    async def _read(self, workspace: str, statement: str, values: dict[str, Any]) -> list[Item]:
        rows = await self._database.fetch(workspace, statement, values | {"workspace": workspace})
        return [Item(tuple(decode_json(row[0])), decode_json(row[1]), decode_json(row[2]), *row[3:]) for row in rows]


def _vector_columns(writes: Iterable[ItemWrite], places: Mapping[tuple[Namespace, str], int]) -> dict[str, list[Any]]:
    texts = [(one, path) for one in writes for path in one.vectors]
    return {
        "places": [places[one.namespace, one.key] for one, _ in texts],
        "paths": [path for _, path in texts],
        "vectors": [_vector(one.vectors[path]) for one, path in texts],
    }


def _vector(given: Embedding) -> Vector:
    try:
        return Vector(given)
    except (ValueError, TypeError) as error:
        raise InputError(f"a vector is a row of numbers, not {given!r:.60}: {error}") from None
