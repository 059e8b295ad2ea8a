"""A real browser before a real service, both started once a module; without chromium or npm the tests are skipped.

The end of a run says so. With `REME_TEST_BROWSER=1`, as CI has it, what is missing is a failure.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import uvicorn
from fastapi import FastAPI
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from reme_core.engine import Engine
from reme_core.server.auth import ApiKeys
from reme_core.server.http import create_app
from reme_core.settings import Settings
from tests.browser.story import tell
from tests.conftest import Admin, clone

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

AXE = "4.10.3"
_CACHE = Path.home() / ".cache" / "reme-core-tests"
_QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-gpu"]


@dataclass
class Stage:
    """A service that runs: its address, and its open memory, whose coroutines run in the service's own loop."""

    url: str
    app: FastAPI
    loop: asyncio.AbstractEventLoop

    @property
    def reme(self) -> Engine:
        return self.app.state.service.reme  # type: ignore[no-any-return]

    @property
    def keys(self) -> ApiKeys:
        return self.app.state.service.keys  # type: ignore[no-any-return]

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)


# Read before any test, since the tests' surroundings are emptied of our variables.
_REQUIRED = os.environ.get("REME_TEST_BROWSER") == "1"


def _lack(what: str, advice: str) -> NoReturn:
    if _REQUIRED:
        pytest.fail(f"{what} is missing; {advice}")
    pytest.skip(f"{what} is missing; {advice}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium without a window. Its driver's loop runs in this thread, so it has to end before other tests' begin."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _lack("playwright", "pip install playwright")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        _lack("chromium", "apt-get install chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", *_QUIET])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which finds what keeps people from using a page."""
    folder = _CACHE / f"axe-core-{AXE}"
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be installing it
        if not (folder / "ready").exists():
            if shutil.which("npm") is None:
                _lack("axe-core", "apt-get install npm")
            command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", folder, f"axe-core@{AXE}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.fail(f"npm is there, and could not install axe-core: {done.stderr[-500:]}")
            (folder / "ready").touch()
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def stage(
    server_url: str, admin: Admin, template_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """The HTTP service over a database in which a story was told."""
    with clone(admin, template_database) as name:
        url = make_conninfo(server_url, dbname=name)
        settings = Settings(database_url=SecretStr(url), data_dir=tmp_path_factory.mktemp("data"))
        settings.worker.embedded = False
        app = create_app(settings)
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", ws="none"))
        loop = asyncio.new_event_loop()

        async def work() -> None:
            await tell(settings)
            await server.serve()

        # In a thread of its own, since in this one a loop of the browser's driver runs.
        thread = threading.Thread(target=lambda: loop.run_until_complete(work()))
        thread.start()
        until = time.monotonic() + 60
        while not server.started:
            assert thread.is_alive() and time.monotonic() < until, "the service did not start"
            time.sleep(0.05)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Stage(f"http://127.0.0.1:{port}", app, loop)
        server.should_exit = True
        thread.join(60)
        loop.close()


@pytest.fixture
def page(browser: Browser, stage: Stage) -> Iterator[Page]:
    """A fresh page, on which no script fails and nothing is refused by the security policy."""
    context = browser.new_context(base_url=stage.url, viewport={"width": 1200, "height": 900}, locale="en-GB")
    context.set_default_timeout(15_000)
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on(
        "console",
        lambda said: problems.append(said.text) if said.type == "error" and "status of 4" not in said.text else None,
    )
    yield opened
    context.close()
    assert problems == []
