"""Answers have the shapes of ReMe 0.1, for the requests of its pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reme_core.engine import Engine
from reme_core.server.http import create_app
from reme_core.settings import ChatSettings, Settings
from tests.loopback import Loopback
from tests.server.conftest import connected
from tests.server.reme01 import SHAPES, ask_all, scripted, shape

PAGE = Path(__file__).parents[2] / "docs" / "coming-from-reme-0.1.md"
DIFFERENT = (
    "action_result", "deleted_memory_ids", "experience", "when_to_use", "keywords", "observation_type",
    "source_message", "time_info",
)  # fmt: skip
"""What has another shape in `metadata`; the page says how."""
THEIRS = json.loads(SHAPES.read_text(encoding="utf-8"))


def missing(theirs: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Where ours lacks something of theirs, or has it in another type. An empty list of theirs shows nothing."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name, member in theirs.items():
            if not (path.endswith(".metadata") and name in DIFFERENT):
                yield from missing(member, ours.get(name, "nothing"), f"{path}.{name}")
    elif isinstance(theirs, list) and isinstance(ours, list):
        if theirs:
            yield from missing(theirs[0], ours[0] if ours else "nothing", f"{path}[]")
    elif theirs != ours:
        yield f"{path}: {theirs} there, {ours} here"


async def test_documented_requests_are_answered_in_the_shapes_of_reme_01(
    settings: Settings, loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    loopback.chat(scripted)
    settings.llm["default"] = ChatSettings(model_name="loop-chat", base_url=loopback.url, max_retries=0)
    told: dict[str, Any] = {}
    async with Engine(settings) as reme, connected(create_app(reme)) as client:

        async def ask(name: str, flow: str, **body: Any) -> dict[str, Any]:
            response = await client.post(f"/{flow}", json=body)
            assert response.status_code == 200, f"{name}: {response.text}"
            told[name] = shape(response.json())
            return dict(response.json())

        await ask_all(ask)
    assert THEIRS.keys() <= told.keys()
    assert [f"{name}{line}" for name in THEIRS for line in missing(THEIRS[name], told[name])] == []


def test_the_page_tells_of_each_shape_that_differs_and_of_the_flow_that_is_refused() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in (*DIFFERENT, "use_mock_search") if f"`{name}`" not in page] == []
