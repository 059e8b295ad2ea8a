"""What the adapters' tests share."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture
def no_chat_store_left() -> Iterator[None]:
    """Collect LlamaIndex's chat stores, which it never closes, before they complain in some other test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
