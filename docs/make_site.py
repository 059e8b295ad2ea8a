"""What the site has beside the pages of this folder: pages from elsewhere in the repository, and references.

A hook of mkdocs (see mkdocs.yml), which `make docs` runs. Pages link to files of the repository, for whoever reads them
there; here a link to a page becomes one within the site, and any other leads to the repository.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from make_plots import plots
from make_reference import command_page, http_page, mcp_page, settings_page, sql_page
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://github.com/reme-core/reme-core"
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    **{f"integrations/{path.parent.name}/README.md": f"frameworks/{path.parent.name}.md"
       for path in sorted(ROOT.glob("integrations/*/README.md"))},
}  # fmt: skip
"""Pages that stand outside of docs/, and their place in the site."""
REFERENCES = {
    "settings": settings_page,
    "http": http_page,
    "mcp": mcp_page,
    "command-line": command_page,
    "sql": sql_page,
}
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Add pages that the navigation does not name to the end of "How to", so that none can only be found by search."""
    named = set(re.findall(r"[\w./-]+\.md", str(config.nav)))
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    [how_to] = [part["How to"] for part in config.nav if "How to" in part]
    how_to += sorted(there - named)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    for source, place in ELSEWHERE.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text(encoding="utf-8")))
    for name, make in REFERENCES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=make()))
    for page in [file for file in files if file.is_documentation_page()]:
        for name, (_, drawn) in plots(page.src_uri, page.content_string).items():
            files.append(File.generated(config, f"plots/{name}.svg", content=drawn))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links lead to where their targets are in the site, or in the repository."""
    here = page.file.src_uri
    source = next((path for path, place in ELSEWHERE.items() if place == here), f"docs/{here}")

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[1]))
        place = ELSEWHERE.get(target) or target.removeprefix("docs/")
        if files.get_file_from_path(place):
            return f"]({posixpath.relpath(place, posixpath.dirname(here) or '.')}{found[2] or ''})"
        if (ROOT / target).exists():
            return f"]({REPOSITORY}/blob/main/{target}{found[2] or ''})"
        return found[0]  # mkdocs complains

    for name, (header, _) in plots(here, markdown).items():
        markdown = markdown.replace(header, f"![the table below, drawn](plots/{name}.svg)\n\n{header}")
    return _LINK.sub(link, markdown)
