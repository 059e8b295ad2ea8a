"""The likeness of texts, on a scale that means the same for every embedding model: 0 is unrelated, 1 the same.

Cosines of two models cannot be compared. Two sentences with nothing in common have a cosine of 0.79 for the offline
model in English, of 0.86 in Chinese, and near 0.1 for other models. So each model first embeds sentences that have
nothing in common, and their mean cosine becomes 0 on the scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from reme_core.models.base import Embedder, Vectors
from reme_core.text.terms import language_of

ALIKE: Final = 0.3
"""Two texts of this likeness or more have a subject in common."""
# It is 2.3 (zh) to 2.5 (en) deviations above unrelated texts. With the offline model, two ways to book a flight are at
# 0.6, "I live in Porto" and "I moved to Lisbon" at 0.4, booking a flight and cancelling a hotel at 0.28, and a flight
# and lentils at 0.15.

_UNRELATED: Final = {
    "en": (
        "Book a table for two on Friday evening.", "Fix the failing test of the parser.", "My sister plays the violin.",
        "What is the weather like in Oslo?", "Refund the customer of order 4711.", "He is afraid of spiders.",
        "Translate this contract into French.", "The train to Berlin leaves at nine.", "She prefers tea without sugar.",
        "Sort the files by the date of their last change.", "They moved to a house by the sea.",
        "Water the plants twice a week.",
    ),
    "zh": (
        "预订周五晚上两个人的餐桌。", "修复解析器失败的测试。", "我姐姐会拉小提琴。", "奥斯陆的天气怎么样？",
        "给订单4711的顾客退款。", "他害怕蜘蛛。", "把这份合同翻译成法语。", "去柏林的火车九点出发。",
        "她喜欢喝不加糖的茶。", "按最后修改日期给文件排序。", "他们搬到了海边的房子。", "每周给植物浇两次水。",
    ),
}  # fmt: skip
_floors: dict[str, dict[str, float]] = {}  # the mean cosine of these sentences, by model and language


async def likeness(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """The likeness of each text to each other, shape (number of texts, number of texts); below 0 means 0.

    The first call for a model also embeds two dozen sentences.
    """
    vectors = await embedder.embed(texts, "passage")
    if embedder.name not in _floors:
        _floors[embedder.name] = {name: await _mean_cosine(embedder, some) for name, some in _UNRELATED.items()}
    floors = _floors[embedder.name]
    own = np.array([floors["zh" if language_of(text) == "zh" else "en"] for text in texts], np.float32)
    floor = (own[:, None] + own[None, :]) / 2
    return np.asarray((vectors @ vectors.T - floor) / (1 - floor), np.float32)


async def _mean_cosine(embedder: Embedder, texts: Sequence[str]) -> float:
    vectors = await embedder.embed(texts, "passage")
    cosines = vectors @ vectors.T
    return float(cosines[np.triu_indices(len(texts), 1)].mean())
