"""What the flow tests share: a database of their own, ops that go away again, and a chat model on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from reme_core.app import AsyncReMe
from reme_core.flow.catalog import Catalog
from reme_core.flow.run import run
from reme_core.ops import registry
from reme_core.ops.deps import Deps
from reme_core.settings import ChatSettings, Settings
from tests.loopback import Loopback


@pytest.fixture
def own_ops() -> Iterator[None]:
    """Ops that a test registers are gone after it."""
    registry.all_ops()
    kept, aliases = dict(registry._ops), dict(registry._aliases)
    yield
    for live, before in ((registry._ops, kept), (registry._aliases, aliases)):
        live.clear()
        live.update(before)  # type: ignore[arg-type]


@pytest.fixture
async def reme(settings: Settings) -> AsyncIterator[AsyncReMe]:
    """Memory on a database of the test's own; offline rules and the offline embedder serve."""
    async with AsyncReMe(settings) as opened:
        yield opened


@pytest.fixture
async def reme_with_chat(settings: Settings, loopback: Loopback) -> AsyncIterator[AsyncReMe]:
    """The same with a chat model, which answers as the loopback server is told."""
    chat = ChatSettings(model_name="loop-chat", base_url=loopback.url, max_retries=0)
    async with AsyncReMe(settings.model_copy(update={"llm": {"default": chat}})) as opened:
        yield opened


def deps_of(reme: AsyncReMe, **changes: Any) -> Deps:
    """What ops stand on in a test."""
    given: dict[str, Any] = {
        "database": reme.database,
        "memories": reme.memories,
        "workspaces": reme.workspaces,
        "recall": reme.recall,
        "serving": reme._serving,
        "journal": reme.journal,
        "settings": reme.settings,
        "chat": reme.chat,
        "reranker": reme.reranker,
        "language": reme.settings.language or "auto",
    }
    return Deps(**{**given, **changes})


@pytest.fixture
def flow() -> Callable[..., Any]:
    """Run a flow by its name: `await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[…])`."""

    async def run_flow(reme: AsyncReMe, name: str, *, with_deps: dict[str, Any] | None = None, **request: Any) -> Any:
        made = Catalog(reme.settings).get(name)
        return await run(made, made.start(request), deps_of(reme, **(with_deps or {})))

    return run_flow
