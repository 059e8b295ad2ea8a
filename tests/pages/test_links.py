"""Every link on every page leads to a file, and to a heading, that is there; on the index the README's do as well."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.pages.blocks import PAGES, ROOT

LINK = re.compile(r"\]\(([^)\s]+)\)")
WRITTEN = [*PAGES, "CHANGELOG.md"]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and mkdocs make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", WRITTEN)
def test_every_link_leads_somewhere(page: str) -> None:
    for link in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), f"{page}: {link}"
        assert not anchor or anchor in anchors(target), f"{page}: {link}"


def test_the_readme_of_the_packages_has_no_link_that_needs_a_checkout() -> None:
    hook = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["metadata"]["hooks"]
    [rule] = hook["fancy-pypi-readme"]["substitutions"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(LINK.findall(readme)) > 10
    packaged = re.sub(rule["pattern"], rule["replacement"], readme)
    assert all(link.startswith(("https://", "#")) for link in LINK.findall(packaged))
