"""What the service tests share: an app on a database of the test's own, and services as real processes."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette

from reme_core.engine import Engine
from reme_core.server.http import create_app
from tests import ports
from tests.scripts import REME


@pytest.fixture
def app(reme: Engine) -> FastAPI:
    """The HTTP service over it."""
    return create_app(reme)


@asynccontextmanager
async def connected(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an app, which is started for it, without a network between."""
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client,
    ):
        yield client


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of that app."""
    async with connected(app) as opened:
        yield opened


class Process:
    """A `reme …` process, its port, and what it said."""

    def __init__(self, arguments: list[str], folder: Path, environ: dict[str, str], port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._errors = folder / "stderr.txt"
        with (folder / "stdout.txt").open("wb") as out, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [REME, *arguments],
                cwd=folder,
                env={**os.environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
            )

    @property
    def said(self) -> str:
        """What it wrote to stderr so far."""
        return self._errors.read_text(encoding="utf-8")

    def wait_until_healthy(self, seconds: float = 60) -> None:
        """Wait for `/health`."""
        until = time.monotonic() + seconds
        while True:
            try:
                assert httpx.get(f"{self.url}/health", timeout=5).json() == {"status": "healthy"}
                return
            except httpx.TransportError:
                assert self._process.poll() is None, self.said
                assert time.monotonic() < until, self.said
                time.sleep(0.1)

    def stop(self) -> int:
        """Ask it to stop; returns its code."""
        self._process.terminate()
        return self._process.wait(timeout=40)


def by_schema(body: dict[str, Any]) -> Any:
    """What a model answers that fills in every form it is given, and otherwise says `ok`."""
    form = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
    return "ok" if form is None else _instance(form, form.get("$defs", {}))


def _instance(form: dict[str, Any], defs: dict[str, Any]) -> Any:
    if "$ref" in form:
        return _instance(defs[form["$ref"].rsplit("/", 1)[1]], defs)
    if "anyOf" in form:
        return _instance(form["anyOf"][0], defs)
    if "enum" in form:
        return form["enum"][0]
    kind = form.get("type")
    if kind == "object":
        return {name: _instance(part, defs) for name, part in form.get("properties", {}).items()}
    if kind == "array":
        return [_instance(form.get("items", {}), defs)]
    return {"integer": form.get("maximum", 1), "number": form.get("maximum", 1), "boolean": True}.get(
        str(kind), "早上喝咖啡"
    )


free_port = pytest.fixture(ports.free_port)


@pytest.fixture
def start(tmp_path: Path, migrated_data_dir: Path, free_port: int) -> Iterator[Callable[..., Process]]:
    """Starts `reme …` in an empty folder, with an embedded Postgres of its own that has our schema; it is stopped after
    the test."""
    running: list[Process] = []

    def start(*arguments: str, **environ: str) -> Process:
        environ = {"REME_HOME": str(migrated_data_dir), "COLUMNS": "200", **environ}
        running.append(Process(list(arguments), tmp_path, environ, free_port))
        return running[-1]

    yield start
    for process in running:
        process.stop()


@pytest.fixture
def configured(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment names the test's database."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    return database_url
