"""Likeness of texts: calibrated for each model, so that one threshold means the same for all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from reme_core.models.base import Vectors, normalise
from reme_core.models.likeness import ALIKE, likeness
from reme_core.models.local import LocalEmbedder


class Squeezed(LocalEmbedder):
    """The offline model with all its cosines moved towards 1, as another model might have them."""

    @property
    def name(self) -> str:
        return "squeezed"

    async def embed(self, texts: Sequence[str], input_type: str = "passage") -> Vectors:
        vectors = await super().embed(texts, "passage")
        return normalise(np.hstack([vectors, np.full((len(texts), 1), 2.0, np.float32)]))


@pytest.mark.parametrize("model", [LocalEmbedder, Squeezed])
@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("Book a flight to Paris", "Book a flight to Rome", True),
        ("Book a flight to Paris", "Cook lentils", False),
        ("I live in Porto.", "I moved to Lisbon.", True),
        ("I like strong coffee.", "My sister lives in Rome.", False),
        ("我住在上海", "我搬到北京了", True),
        ("我喜欢喝咖啡", "我害怕蜘蛛", False),
    ],
)
async def test_one_threshold_serves_models_and_languages(
    model: type[LocalEmbedder], one: str, other: str, alike: bool
) -> None:
    found = await likeness(model(), [one, other])
    assert found.shape == (2, 2) and found[0, 0] == pytest.approx(1, abs=1e-3)
    assert (found[0, 1] >= ALIKE) is np.bool_(alike)
