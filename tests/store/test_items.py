"""Items: what programs put under a key of their own; tests/integrations/test_langchain_store.py asks for far more."""

from __future__ import annotations

import doctest
from collections.abc import AsyncIterator

import numpy as np
import pytest

from reme_core import AsyncReMe, ItemWrite, Message, NamespacePattern, Settings
from reme_core.errors import InputError
from reme_core.store import item_filter


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
        ItemWrite(("a",), "k", {"n": float("nan")})
    with pytest.raises(InputError, match="nothing was written"):
        await reme.items.write("acme", [ItemWrite(("a",), "good", {}), ItemWrite(("a",), "bad", {"n": "\x00"})])
    assert await reme.items.search("acme") == []


async def test_a_conversation_is_read_in_order_without_what_was_erased(reme: AsyncReMe) -> None:
    said = [Message(content=text, session_id="monday") for text in ("one", "two", "three")]
    await reme.record("w", [*said, Message(content="elsewhere", session_id="tuesday")])
    await reme.erase_messages("w", [said[1].message_id])
    assert [message.content for message in await reme.messages("w", "monday")] == ["one", "three"]


def test_the_examples_run() -> None:
    assert doctest.testmod(item_filter).failed == 0
