"""Items: what programs put under a key of their own; tests/integrations/test_langchain_store.py asks for far more."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest

from reme_core import AsyncReMe, ItemWrite, Message, NamespacePattern, Settings
from reme_core.errors import InputError


@pytest.fixture
async def reme(settings: Settings) -> AsyncIterator[AsyncReMe]:
    settings.worker.embedded = False
    async with AsyncReMe(settings) as opened:
        yield opened


async def test_items_are_put_got_searched_and_deleted(reme: AsyncReMe) -> None:
    ada, bob = ItemWrite(("users", "ada"), "likes", {"tea": "green"}), ItemWrite(("users", "bob"), "likes", {"tea": 9})
    await reme.items.write("acme", [ada, bob])
    found = await reme.items.get("acme", [(("users", "ada"), "likes"), (("users", "eve"), "likes")])
    assert {name: item.value for name, item in found.items()} == {(("users", "ada"), "likes"): {"tea": "green"}}
    assert [item.namespace for item in await reme.items.search("acme", ("users",), filters={"tea": {"$lt": 10}})] == [
        ("users", "bob")
    ]
    assert await reme.items.get("rival", [(("users", "ada"), "likes")]) == {}
    await reme.items.write("acme", [ItemWrite(("users", "ada"), "likes", None)])
    assert await reme.items.namespaces("acme") == [("users", "bob")]


async def test_of_several_items_with_one_name_the_last_counts(reme: AsyncReMe) -> None:
    await reme.items.write("acme", [ItemWrite(("a",), key, {"n": n}) for n, key in enumerate("kjk")])
    assert {item.key: item.value["n"] for item in await reme.items.search("acme", ("a",))} == {"k": 2, "j": 1}
    await reme.items.write("acme", [ItemWrite(("a",), "k", {"n": 3}), ItemWrite(("a",), "k", None)])
    assert [item.key for item in await reme.items.search("acme", ("a",))] == ["j"]


async def test_namespaces_match_paths_at_either_end(reme: AsyncReMe) -> None:
    names = [("a", "x", "1"), ("a", "y", "1"), ("b", "x", "2"), ("a",)]
    await reme.items.write("acme", [ItemWrite(name, "k", {}) for name in names])

    async def matching(*patterns: NamespacePattern, depth: int | None = None) -> list[tuple[str, ...]]:
        return await reme.items.namespaces("acme", patterns, depth=depth)

    assert await matching() == sorted(names)
    assert await matching(NamespacePattern(("a", "*"))) == [("a", "x", "1"), ("a", "y", "1")]
    assert await matching(NamespacePattern(("x", "*"), at_end=True)) == [("a", "x", "1"), ("b", "x", "2")]
    assert await matching(NamespacePattern(("a",)), NamespacePattern(("1",), at_end=True), depth=1) == [("a",)]


async def test_the_nearest_text_of_an_item_says_how_near_it_is(reme: AsyncReMe) -> None:
    east, north = np.array([1, 0], np.float32), np.array([0, 1], np.float32)
    await reme.items.write(
        "acme",
        [
            ItemWrite(("v",), "both", {"a": 1}, vectors={"a": east, "b": north}),
            ItemWrite(("v",), "north", {"a": 2}, vectors={"a": north}),
            ItemWrite(("v",), "none", {"a": 3}),
        ],
    )
    found = await reme.items.search("acme", ("v",), vector=east)
    assert [(item.key, item.score) for item in found] == [("both", 1.0), ("north", 0.0), ("none", None)]


async def test_what_postgres_cannot_take_is_refused(reme: AsyncReMe) -> None:
    with pytest.raises(InputError, match="is not JSON"):
        ItemWrite(("a",), "k", {"n": {1, 2}})
    with pytest.raises(InputError, match="a value does not fit"):
        await reme.items.write("acme", [ItemWrite(("a",), "good", {}), ItemWrite(("a",), "bad", {}, ttl=1e300)])
    assert await reme.items.search("acme") == []


async def test_an_item_that_has_expired_is_put_anew(reme: AsyncReMe) -> None:
    east, soon = np.array([1, 0], np.float32), 0.001
    for key, ttl in (("a", soon), ("b", None)):
        await reme.items.write("acme", [ItemWrite(("v",), key, {"n": 1}, ttl, {"n": east})])
    await asyncio.sleep(soon * 60 + 0.02)
    await reme.items.write("acme", [ItemWrite(("v",), "a", {"n": 2}, None, {"n": -east})])
    found = await reme.items.search("acme", ("v",))
    assert [(item.key, item.value["n"]) for item in found] == [("b", 1), ("a", 2)]
    assert [item.score for item in await reme.items.search("acme", ("v",), vector=east)] == [1.0, -1.0]


async def test_whoever_reads_and_writes_at_once_is_never_in_conflict(reme: AsyncReMe) -> None:
    names, ones = [f"k{n}" for n in range(6)], np.ones(2, np.float32)

    async def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(25):
            some = chance.sample(names, chance.choice([1, 1, 4]))
            value = chance.choice([{"n": seed}, {"n": seed}, None])
            vectors = {"a": ones} if value else {}
            await reme.items.write("acme", [ItemWrite(("a",), n, value, 0.002, dict(vectors)) for n in some])
            await reme.items.refresh("acme", await reme.items.search("acme", ("a",), vector=ones))
            if chance.random() < 0.3:
                await reme.items.sweep("acme")

    await asyncio.gather(*[work(seed) for seed in range(8)])


async def test_a_value_comes_back_as_it_was(reme: AsyncReMe) -> None:
    value = {"a\x00": ["\x00", "\x10", "half \ud83d", -math.inf, 4.962571576515318e16, 1e22], "n": {"x": None}}
    await reme.items.write("acme", [ItemWrite(("a\x10",), "k\x00", value)])
    [item] = await reme.items.search("acme", ("a\x10",), filters={"a\x00": value["a\x00"]})
    assert (item.namespace, item.key, item.value) == (("a\x10",), "k\x00", value)
    assert await reme.items.namespaces("acme", [NamespacePattern(("a\x10",))]) == [("a\x10",)]
    assert await reme.items.search("acme", filters={"n": {"x": math.nan}}) == []


async def test_a_conversation_is_read_in_order_without_what_was_erased(reme: AsyncReMe) -> None:
    said = [Message(content=text, session_id="monday") for text in ("one", "two", "three")]
    await reme.record("w", [*said, Message(content="elsewhere", session_id="tuesday")])
    await reme.erase_messages("w", [said[1].message_id])
    assert [message.content for message in await reme.messages("w", "monday")] == ["one", "three"]


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (lambda: ItemWrite("users", "k", {}), "a namespace is several labels"),
        (lambda: ItemWrite(("users", 5), "k", {}), "a namespace is several labels"),
        (lambda: ItemWrite(("users",), 5, {}), "the key of an item is a text, not 5"),
        (lambda: ItemWrite(("users",), "k", "tea"), "is a dict, or None to delete it; not 'tea'"),
        (lambda: ItemWrite(("users",), "k", {}, ttl="5"), "ttl is how many minutes 'k' lives"),
        (lambda: NamespacePattern("users"), "a namespace is several labels"),
    ],
)
def test_what_is_no_item_is_refused_when_it_is_made(mistake: Callable[[], object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        mistake()


async def test_a_text_is_no_namespace_to_search_in(reme: AsyncReMe) -> None:
    with pytest.raises(InputError, match="prefix is a tuple of texts, not 'users'"):
        await reme.items.search("acme", "users")  # type: ignore[arg-type]


async def test_a_namespace_may_be_a_list_as_json_has_it(settings: Settings) -> None:
    async with AsyncReMe(settings) as reme:
        labels: Any = ["users", "ada"]
        await reme.items.write("w", [ItemWrite(labels, "tea", {"kind": "green"})], order=[labels])
        found = await reme.items.get("w", [(labels, "tea")])
    assert [item.value for item in found.values()] == [{"kind": "green"}]
