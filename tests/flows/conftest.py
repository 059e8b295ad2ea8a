"""What the flow tests share: a database of their own, ops that go away again, and a chat model on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from reme_core.engine import Engine
from reme_core.flows import execute, registry
from reme_core.flows.catalog import Catalog
from reme_core.flows.deps import Deps
from reme_core.flows.execute import run


@pytest.fixture
def own_ops() -> Iterator[None]:
    """Ops that a test registers are gone after it."""
    registry.all_ops()
    kept, aliases = dict(registry._ops), dict(registry._aliases)
    yield
    for live, before in ((registry._ops, kept), (registry._aliases, aliases)):
        live.clear()
        live.update(before)  # type: ignore[arg-type]


def deps_of(reme: Engine, **changes: Any) -> Deps:
    """What ops stand on in a test."""
    given: dict[str, Any] = {
        "database": reme.database,
        "memories": reme.memories,
        "workspaces": reme.workspaces,
        "recall": reme.recall_steps,
        "workspace_models": reme._workspace_models,
        "log_writer": reme.log_writer,
        "settings": reme.settings,
        "chat": reme.chat,
        "reranker": reme.reranker,
        "language": reme.settings.language or "auto",
    }
    return Deps(**{**given, **changes})


@pytest.fixture
def flow() -> Callable[..., Any]:
    """Run a flow by its name: `await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[…])`."""

    async def run_flow(reme: Engine, name: str, *, with_deps: dict[str, Any] | None = None, **request: Any) -> Any:
        made = Catalog(reme.settings).get(name)
        return await run(made, made.start(request), deps_of(reme, **(with_deps or {})))

    return run_flow


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What has the spans of flows that have ended."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    exporter = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    monkeypatch.setattr(execute, "_tracer", provider.get_tracer("test"))
    return exporter
