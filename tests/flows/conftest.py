"""What the flow tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reme_core.ops import registry


@pytest.fixture
def own_ops() -> Iterator[None]:
    """Ops that a test registers are gone after it."""
    registry.all_ops()
    kept, aliases = dict(registry._ops), dict(registry._aliases)
    yield
    for live, before in ((registry._ops, kept), (registry._aliases, aliases)):
        live.clear()
        live.update(before)  # type: ignore[arg-type]
