"""The inspector: a page without data, that asks `/v1` and lets nothing of what is remembered run."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
from fastapi import FastAPI

from reme_core import Episode
from reme_core.engine import Engine
from reme_core.server import inspector

SCRIPT = (Path(inspector.__file__).parent / "inspector.js").read_text(encoding="utf-8")


async def test_the_page_and_its_files_are_served_and_run_nothing_else(client: httpx.AsyncClient) -> None:
    page = await client.get("/inspector")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    files = re.findall(r'(?:href|src)="([^"]+)"', page.text)
    assert len(files) == 2
    for path, kind in zip(sorted(files), ("text/css", "javascript"), strict=True):
        answer = await client.get(path)
        assert answer.status_code == 200
        assert kind in answer.headers["content-type"]
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert re.search(r"<script(?![^>]*src=)|\son\w+=|style=", page.text) is None


def test_what_is_remembered_never_becomes_markup() -> None:
    assert re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|DOMParser", SCRIPT) is None


def test_everything_that_the_page_asks_for_is_there(app: FastAPI) -> None:
    known = set(app.openapi()["paths"])
    below = set(re.findall(r"\$\{workspace\(\)\}/(\w+)", SCRIPT))
    assert below == {"recall", "memories", "curve", "jobs"}
    for name in below:
        assert f"/v1/workspaces/{{workspace_id}}/{name}" in known
    assert "/v1/workspaces/{workspace_id}/memories/{memory_id}/history" in known
    used = set(re.findall(r'at\("([\w-]+)"\)', SCRIPT))
    page = (Path(inspector.__file__).parent / "index.html").read_text(encoding="utf-8")
    assert used <= set(re.findall(r'id="([\w-]+)"', page))


async def test_learning_curves_come_by_task(client: httpx.AsyncClient, reme: Engine) -> None:
    for number, score in enumerate((0.2, 0.8)):
        await reme.episodes.record("alice", Episode(episode_id=f"e{number}", task_id="t", score=score))
    await reme.episodes.record("alice", Episode(task_id="other", score=1))
    points = (await client.get("/v1/workspaces/alice/curve", params={"task_id": "t"})).json()["points"]
    assert [(p["attempt"], p["score"], p["mean_of_last_10"]) for p in points] == [(1, 0.2, 0.2), (2, 0.8, 0.5)]
    assert len((await client.get("/v1/workspaces/alice/curve")).json()["points"]) == 3
    assert (await client.get("/v1/workspaces/bob/curve")).json() == {"points": []}
