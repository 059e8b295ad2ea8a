"""An open store: with the offline embedding model, or with one of the loopback server, which compares words."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from pydantic import SecretStr

from reme_core.engine import Engine
from reme_core.settings import EmbeddingSettings, Settings
from tests.loopback import Loopback
from tests.summaries import Summaries


@pytest.fixture
def summaries(reme: Engine) -> Summaries:
    """What the summary jobs did."""
    return Summaries(reme)  # the flow itself is tested with the flows


@pytest.fixture
def with_model(settings: Settings, loopback: Loopback) -> Callable[[str], Settings]:
    """Settings of the test's database with an embedding model of that name."""

    def configured(name: str) -> Settings:
        model = EmbeddingSettings(model_name=name, base_url=loopback.url, api_key=SecretStr("key"))
        return settings.model_copy(update={"embedding_model": {"default": model}})

    return configured


@pytest.fixture
async def words(with_model: Callable[[str], Settings]) -> AsyncIterator[Engine]:
    """`reme` with the embedding model `words`, 64 wide."""
    settings = with_model("words")
    settings.worker.embedded = False
    async with Engine(settings) as opened:
        yield opened
