"""The pages of the reference, which are made from the code, tell of each thing what it is."""

from __future__ import annotations

import re
from typing import Any, Final

from tests.scripts import load_script

REFERENCE: Final[Any] = load_script("docs/make_reference.py")


def test_the_page_of_settings_tells_of_each_what_it_is_and_its_default() -> None:
    page = REFERENCE.settings_page()
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", page, re.MULTILINE)
    assert not [name for name, _, meaning in rows if not meaning.strip()]
    assert [name for name, default, _ in rows if not default] == ["data_dir"], "it depends on the machine"
    told = {name: default for name, default, _ in rows}
    assert told["flow_content"] == "required" and told["library_dirs"] == '`["docs/library"]`'


def test_the_page_of_commands_has_whole_sentences_and_tells_of_shared_options_once() -> None:
    page = REFERENCE.command_page()
    assert "..." not in page.replace("]...", "").replace("}...", "").replace("text...", "")
    assert page.count("* `--debug`: ") == 1 and "Every command takes `--json`, `--set`" in page
    assert "**Options**:\n\n\n" not in page


def test_the_page_of_http_tells_what_times_are_and_what_the_parts_of_a_score_are() -> None:
    page = REFERENCE.http_page()
    assert "| `as_of` | time |" in page and "| `sent_at` | time |" in page and "| `as_of` | any |" not in page
    flows = page.partition("## flows")[2].partition("\n## ")[0]
    assert "`messages`" in flows and not re.search(r"^\| `(?:query|messages|metadata)` .*\|  \|$", flows, re.MULTILINE)
    assert "| `speaker` | number | `0.0` | 1 where the query names who said it. |" in page
