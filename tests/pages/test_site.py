"""The site: it builds without a warning, has every page, and needs no other host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.pages.blocks import ROOT

LOADS = re.compile(
    r'<(?:script|img|iframe|source)[^>]*\ssrc="(?:https?:)?//|<link[^>]*rel="(?:stylesheet|preconnect|icon)"[^>]*//'
)
"""What a browser would fetch from another host."""
TOLD = {
    "settings": ["compact_from", "The HTTP service."],
    "http": ["POST /retrieve_task_memory", "GET /v1/workspaces", "At most so many memories."],
    "mcp": ["summary_personal_memory"],
    "command-line": ["reme recall", "--min-relevance"],
    "sql": ["reme.memory_history", "recorded_at"],
    "python": ["min_relevance", "NotFoundError", "erase_messages"],
}


def test_the_site_builds_needs_no_other_host_and_tells_of_the_code(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert built.returncode == 0 and not built.stderr, built.stderr
    pages = {str(page.parent.relative_to(tmp_path)): page.read_text("utf-8") for page in tmp_path.rglob("index.html")}
    linked = set(re.findall(r'href="([\w./-]+)/"[^>]*class="md-nav__link', pages["."]))
    assert set(pages) - linked == {"."}, "each is in the navigation"
    for path in (ROOT / "docs").rglob("*.md"):
        assert str(path.relative_to(ROOT / "docs").with_suffix("")) in pages
    for text in pages.values():
        assert not LOADS.search(text)
        assert 'data-md-component="source"' not in text, "it would ask GitHub for the stars of the repository"
        assert 'class="mermaid"' not in text, "it would load a program from another host"
    for page, parts in TOLD.items():
        text = re.sub(r"<[^>]+>", "", pages[f"reference/{page}"])
        assert not [part for part in parts if part not in text], page
    for page, plot, part in (("retrieval", "searches", ">LoCoMo<"), ("architecture", "sizes", ">sql<")):
        assert f'src="../plots/{plot}.svg"' in pages[page]
        assert part in (tmp_path / "plots" / f"{plot}.svg").read_text("utf-8")
