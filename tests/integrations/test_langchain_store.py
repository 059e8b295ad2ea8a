"""The LangGraph store answers as LangGraph's own in-memory store does."""

from __future__ import annotations

import asyncio
import math
import os
import random
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as bounds
from hypothesis.stateful import run_state_machine_as_test
from langgraph.graph import StateGraph
from langgraph.runtime import Runtime
from langgraph.store import memory
from langgraph.store.base import GetOp, PutOp, SearchOp
from reme_langchain import ReMeStore

from reme_core import AsyncReMe, Settings
from reme_core.errors import InputError
from reme_core.testing import Gate
from tests.integrations.langchain_store_oracle import INDEX, Differential, embed

OPERATIONS = int(os.environ.get("REME_TEST_OPERATIONS", "2000"))
"""How many operations the store is tried with, at the least; `REME_TEST_OPERATIONS=20000` asks for many."""


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[ReMeStore]:
    async with ReMeStore(settings, "acme", index=INDEX) as opened:
        yield opened


async def count_rows(reme: AsyncReMe) -> int:
    """How many rows the items of a workspace have, those that are expired included."""
    sql = "select count(*) from reme.item"
    [(count,)] = await reme.connection.run(lambda engine: engine.database.fetch("acme", sql))
    return int(count)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_answers_as_the_in_memory_store_whatever_the_order(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def rounded(query: Any, vectors: Any, exact: Any = memory._cosine_similarity) -> list[float]:
        return [round(score, 9) for score in exact(query, vectors)]  # equal vectors are not always equal after a matmul

    monkeypatch.setattr(memory, "_cosine_similarity", rounded)
    with ReMeStore(settings, index=INDEX) as Differential.store:
        run_state_machine_as_test(
            Differential,
            settings=bounds(
                max_examples=OPERATIONS // 50, stateful_step_count=40, deadline=None, database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )  # fmt: skip
    assert Differential.ran >= OPERATIONS


async def test_numbers_compare_as_numbers_and_dates_as_texts(store: ReMeStore) -> None:
    for key, value in {"a": {"n": 9}, "b": {"n": 10.5}, "c": {"n": "11"}, "d": {"n": "none"}, "e": {}}.items():
        await store.aput(("shelf",), key, value | {"day": f"2025-01-0{len(key)}"})

    async def keys(condition: dict[str, Any]) -> list[str]:
        return [item.key for item in await store.asearch(("shelf",), filter=condition)]

    assert await keys({"n": {"$gt": 9}}) == ["b", "c"]
    assert await keys({"n": {"$gte": 9, "$lt": 11}}) == ["a", "b"]
    assert await keys({"n": {"$lte": "10"}}) == ["a"]
    assert await keys({"n": {"$ne": 9}}) == ["b", "c", "d", "e"]
    assert len(await keys({"day": {"$gte": "2025-01-01"}})) == 5
    assert await keys({"day": {"$lt": "2025-01-01"}}) == []
    with pytest.raises(InputError, match="no operator '\\$in'"):
        await keys({"n": {"$in": [1]}})


async def test_items_expire_and_reading_keeps_them_alive(settings: Settings) -> None:
    ttl: Any = {"default_ttl": 3 / 60, "refresh_on_read": True}
    async with ReMeStore(settings, "acme", ttl=ttl) as store:
        await store.aput(("t",), "read", {"n": 1})
        await store.aput(("t",), "left", {"n": 2})
        await store.aput(("t",), "kept", {"n": 3}, ttl=None)
        for _ in range(3):
            await asyncio.sleep(1.2)
            assert await store.aget(("t",), "read") is not None
            assert await store.aget(("t",), "kept", refresh_ttl=False) is not None
        assert await store.aget(("t",), "left") is None
        assert [item.key for item in await store.asearch(("t",), refresh_ttl=False)] == ["read", "kept"]
        created = (await store.aget(("t",), "kept")).created_at  # type: ignore[union-attr]
        await store.aput(("t",), "left", {"n": 4})
        await store.aput(("t",), "kept", {"n": 5}, ttl=None)
        items = {item.key: item for item in await store.asearch(("t",), refresh_ttl=False)}
        assert items["left"].created_at > created == items["kept"].created_at
        await asyncio.sleep(3.1)
        assert await store.asweep_ttl() == 2
        assert [item.key for item in await store.asearch(("t",))] == ["kept"]


async def test_a_sweeper_deletes_what_expires_while_nothing_is_written(reme: AsyncReMe) -> None:
    async with ReMeStore(client=reme, workspace_id="acme", ttl={"default_ttl": 0.5 / 60}) as store:
        await store.aput(("t",), "a", {"n": 1})
        sweeping = store.start_ttl_sweeper(sweep_interval_minutes=0.1 / 60)
        assert store.start_ttl_sweeper() is sweeping
        assert await count_rows(reme) == 1
        await asyncio.sleep(1.5)
        assert await count_rows(reme) == 0
        assert store.stop_ttl_sweeper(timeout=1)
        assert store.stop_ttl_sweeper()
        assert sweeping.cancelled()
        with pytest.raises(InputError, match="positive number of minutes"):
            store.start_ttl_sweeper(sweep_interval_minutes=-1)
        again = store.start_ttl_sweeper()
    assert again.cancelled()


async def test_a_sweeper_goes_on_when_the_database_was_away(
    gate: Gate, reme: AsyncReMe, caplog: pytest.LogCaptureFixture
) -> None:
    async with ReMeStore(gate.url, "acme") as store:
        await store.aput(("t",), "a", {"n": 1}, ttl=0.5 / 60)
        gate.close()
        store.start_ttl_sweeper(sweep_interval_minutes=0.1 / 60)
        await asyncio.sleep(0.5)
        gate.open()
        await asyncio.sleep(1.5)
        assert "not deleted" in caplog.text
        assert await count_rows(reme) == 0


async def test_a_batch_is_written_whole_or_not_at_all(store: ReMeStore) -> None:
    with pytest.raises(InputError, match="not JSON"):
        await store.abatch([PutOp(("a",), "good", {"n": 1}), PutOp(("a",), "bad", {"n": object()})])
    with pytest.raises(InputError, match="no text, and JSON has no other keys"):
        await store.abatch([PutOp(("a",), "good", {"n": 1}), PutOp(("a",), "bad", {"n": {1: 2}})])
    with pytest.raises(InputError, match="a value does not fit"):
        await store.abatch([PutOp(("a",), "good", {"n": 1}), PutOp(("a",), "bad", {"n": 1}, ttl=1e300)])
    with pytest.raises(InputError, match="2000 bytes"):
        await store.abatch([PutOp(("a",), "good", {"n": 1}), PutOp(("a",), "k" * 3000, {"n": 1})])
    assert await store.aget(("a",), "good") is None


async def test_what_is_no_namespace_or_no_object_is_called_so(store: ReMeStore) -> None:
    for mistake in (
        store.aput("a", "k", {"n": 1}),  # type: ignore[arg-type]
        store.aget("a", "k"),  # type: ignore[arg-type]
        store.asearch("a"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError, match=r"a namespace is several labels, such as \('users', 'ada'\), not 'a'"):
            await mistake
    for value in ("text", [("n", 1)], 7):
        with pytest.raises(InputError, match=r"a value is an object, such as .*, not "):
            await store.aput(("a",), "k", value)  # type: ignore[arg-type]
    assert await store.asearch(()) == []


async def test_a_value_may_be_nested_deeply(store: ReMeStore) -> None:
    value: dict[str, Any] = {"end": 1}
    for _ in range(400):
        value = {"inner": value}
    await store.aput(("a",), "deep", value)
    found = await store.aget(("a",), "deep")
    assert found is not None and found.value == value


async def test_equal_searches_of_a_batch_are_asked_once_and_answered_each(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ReMeStore(settings, "acme", index=INDEX) as store:
        for key, value in {"one": 1, "two": 2, "text": "1"}.items():
            await store.aput(("a",), key, {"n": value, "text": "fig"})
        asked: list[Any] = []
        items = store._connection.reme.items
        search = items.search

        async def count(*args: Any, **options: Any) -> Any:
            asked.append(options["filters"])
            return await search(*args, **options)

        monkeypatch.setattr(items, "search", count)
        same = [SearchOp(("a",), filter={"n": 1}, query="fig"), SearchOp(("a",), filter={"n": 1}, query="fig")]
        others = [SearchOp(("a",), filter={"n": value}, query="fig") for value in (2, "1")]
        others += [SearchOp(("a",), query="fig", limit=1), SearchOp(("a",), query="lime"), SearchOp(("a",))]
        first, again, *_ = answers = await store.abatch([*same, *others])
        assert asked == [{"n": 1}, {"n": 2}, {"n": "1"}, None, None, None]
        keys = [[hit.key for hit in hits] for hits in answers]
        assert keys[:4] == [["one"], ["one"], ["two"], ["text"]] and list(map(len, keys[4:])) == [1, 3, 3]
        first[0].value["n"] = "changed by whoever asked first"
        assert again[0].value == {"n": 1, "text": "fig"}


async def test_whoever_gets_an_item_may_change_its_value(store: ReMeStore) -> None:
    await store.aput(("a",), "k", {"n": [1]})
    one, other = await asyncio.gather(store.aget(("a",), "k"), store.aget(("a",), "k"))
    assert one is not None and other is not None
    one.value["n"].append(2)
    assert other.value == {"n": [1]}


async def test_tenants_see_their_own_items_only(settings: Settings, store: ReMeStore) -> None:
    async with ReMeStore(settings, "rival") as other:
        await store.aput(("users", "u"), "name", {"text": "Ada"})
        await other.aput(("users", "u"), "name", {"text": "Bob"})
        assert (await store.aget(("users", "u"), "name")).value == {"text": "Ada"}  # type: ignore[union-attr]
        assert [item.value for item in await other.asearch(())] == [{"text": "Bob"}]
        await other.adelete(("users", "u"), "name")
        assert await other.alist_namespaces() == []
        assert await store.alist_namespaces() == [("users", "u")]


async def test_batches_written_at_once_do_not_deadlock(store: ReMeStore) -> None:
    keys = [f"k{n}" for n in range(8)]
    batches = [[PutOp(("a",), key, {"n": n}) for key in random.sample(keys, 8)] for n in range(12)]
    await asyncio.gather(*[store.abatch(batch) for batch in batches])
    assert len({item.value["n"] for item in await store.asearch(("a",))}) == 1


def test_threads_that_read_and_write_what_expires_are_never_in_conflict(settings: Settings) -> None:
    keys = [f"k{n}" for n in range(20)]

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(OPERATIONS // 8):
            key = chance.choice(keys)
            puts = [PutOp(("a",), name, {"n": seed}, ttl=5) for name in chance.sample(keys, 5)]
            chance.choice(
                [
                    lambda key=key: store.get(("a",), key),
                    lambda: store.search((), limit=50),
                    lambda puts=puts: store.batch(puts),
                    lambda key=key: store.put(("a",), key, {"n": seed}),
                    lambda key=key: store.delete(("a",), key),
                    store.sweep_ttl,
                ]
            )()

    with ReMeStore(settings, "acme", ttl={"default_ttl": 0.002}) as store, ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(8))) == [None] * 8


async def test_a_burst_of_reads_and_batches_is_answered_whatever_expires(settings: Settings) -> None:
    async with ReMeStore(settings, "acme", ttl={"default_ttl": 5}) as store, AsyncReMe(settings) as reme:
        batches = [[PutOp(("a",), f"k{n}", {"n": n}, ttl=5) for n in random.sample(range(20), 20)] for _ in range(20)]
        await asyncio.gather(*[store.abatch(batch) for batch in batches], *[store.asearch(("a",)) for _ in range(20)])
        # In another process the same, at the same time: it has another queue.
        async with ReMeStore(settings, "acme", ttl={"default_ttl": 5}) as other:
            both = [s.abatch([*batch, GetOp(("a",), "k1")]) for batch in batches for s in (store, other)]
            assert None not in [answers[-1] for answers in await asyncio.gather(*both)]
        assert len(await reme.items.search("acme", limit=50)) == 20


async def test_what_is_asked_at_once_is_carried_out_at_once_and_one_bad_value_harms_nobody_else(
    store: ReMeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    run = store._batches._run

    async def count(ops: Any) -> list[Any]:
        sizes.append(len(ops))
        return await run(ops)

    monkeypatch.setattr(store._batches, "_run", count)
    await asyncio.gather(*[store.aput(("a",), f"k{n}", {"text": "fig"}) for n in range(500)])
    assert sizes == [500]
    puts = [store.aput(("a",), f"k{n}", {"n": object() if n == 77 else n}) for n in range(100)]
    answers = await asyncio.gather(*puts, store.aget(("a",), "k0"), return_exceptions=True)
    assert [n for n, answer in enumerate(answers) if isinstance(answer, InputError)] == [77]
    assert {item.value.get("n") for item in await store.asearch(("a",), limit=500)} == {*range(100), None} - {77}


async def test_one_who_gives_up_waiting_holds_up_nobody(store: ReMeStore) -> None:
    given_up = asyncio.ensure_future(store.aput(("a",), "k", {"n": 1}))
    others = [asyncio.ensure_future(store.aput(("a",), f"k{n}", {"n": n})) for n in range(3)]
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.gather(*others)
    with pytest.raises(asyncio.CancelledError):
        await given_up


def test_it_is_made_as_langgraphs_own_stores_are(empty_database_url: str) -> None:
    with ReMeStore.from_conn_string(empty_database_url, "acme", ttl={"default_ttl": 5}) as store:
        store.setup()
        store.setup()
        store.put(("a",), "k", {"n": 1})

    async def read() -> Any:
        async with ReMeStore.from_conn_string(empty_database_url, "acme") as again:
            await again.asetup()
            return await again.aget(("a",), "k")

    assert asyncio.run(read()).value == {"n": 1}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"index": {**INDEX, "distance_type": "l2"}}, "index has no 'distance_type'; there are dims, embed, fields"),
        ({"index": {**INDEX, "field": ["text"]}}, "did you mean 'fields'"),
        ({"index": {"embed": embed}}, "'dims'"),
        ({"index": {"dims": 8}}, "'embed'"),
        ({"index": {"dims": 8, "embed": 8}}, "'embed'"),
        ({"index": {**INDEX, "fields": "text"}}, "a list of paths"),
        ({"ttl": {"default_tll": 5}}, "did you mean 'default_ttl'"),
        ({"ttl": {"refresh_on_reads": False}}, "did you mean 'refresh_on_read'"),
        ({"ttl": {"default_ttl": -1}}, "positive number of minutes"),
        ({"ttl": {"default_ttl": True}}, "positive number of minutes"),
        ({"ttl": {"sweep_interval_minutes": 0}}, "positive number of minutes"),
        ({"ttl": {"omit_expired": False}}, "never found"),
        ({"ttl": 5}, "ttl is a dict"),
        ({"pool_config": {}}, "no option 'pool_config'"),
        ({"tenant": "acme"}, "did you mean 'workspace_id'"),
        ({"workspace_id": ""}, "cannot name a workspace"),
    ],
)
def test_what_would_do_nothing_is_refused(settings: Settings, arguments: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        ReMeStore(settings, **arguments)


async def test_a_time_to_live_that_is_none_is_refused(store: ReMeStore) -> None:
    for ttl in (0, -1, True, math.nan, math.inf):
        with pytest.raises(InputError, match="minutes"):
            await store.aput(("a",), "k", {"n": 1}, ttl=ttl)


async def test_serves_an_agent_and_its_tools_in_both_worlds(store: ReMeStore) -> None:
    def write(state: dict[str, Any], runtime: Runtime[None]) -> dict[str, Any]:
        assert runtime.store is not None
        runtime.store.put(("notes",), "n", {"text": "pear"})
        return state

    async def read(state: dict[str, Any], runtime: Runtime[None]) -> dict[str, Any]:
        assert runtime.store is not None
        return {"found": [item.key for item in await runtime.store.asearch(("notes",), query="pear")]}

    graph: Any = StateGraph(dict)  # type: ignore[type-var]
    graph.add_node("write", write).add_node("read", read)
    graph.add_edge("__start__", "write").add_edge("write", "read")
    assert (await graph.compile(store=store).ainvoke({}))["found"] == ["n"]
