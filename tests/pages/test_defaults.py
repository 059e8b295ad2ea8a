"""What pages say of settings and options is so: those that they name exist, and a number beside one is its default."""

from __future__ import annotations

import ast
import re

import pytest

from reme_core import Settings
from reme_core.episodes.api import Episodes
from reme_core.settings.sections import Section
from reme_core.turn.options import ALL_OPTIONS, DEFAULTS
from reme_core.working.api import Working
from tests.pages.blocks import PAGES, ROOT

NAMED = re.compile(r"`(\w+)\.(\w+)(?:=[^`]*)?`(?:,| \()? ?(?:(\d[\d,.]*)\b( MiB)?)?")
SECTIONS = {name: value for name, value in Settings() if isinstance(value, Section)}
OTHERS = {"py", *dir(Working), *dir(Episodes)}
"""Names behind the dot that are files, or methods of the parts of a `ReMe` that are called as a section is."""


@pytest.mark.parametrize("page", PAGES)
def test_a_setting_exists_and_has_the_default_that_stands_beside_it(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for section, name, told, unit in NAMED.findall(text):
        if section not in SECTIONS or name in OTHERS:
            continue
        assert name in type(SECTIONS[section]).model_fields, f"{page}: {section}.{name}"
        if told:
            number = float(told.replace(",", "")) * (2**20 if unit else 1)
            assert number == getattr(SECTIONS[section], name), f"{page}: {section}.{name}"


def test_the_table_of_options_has_all_of_them_with_their_defaults() -> None:
    text = (ROOT / "docs/adapters.md").read_text(encoding="utf-8")
    first = re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
    told = dict(re.findall(r"`(\w+)(?:=([^`]+))?`", " ".join(first)))
    assert set(told) == set(ALL_OPTIONS)
    for name, value in told.items():  # an empty default is left out, or told as it is
        assert (ast.literal_eval(value or "None") or None) == (DEFAULTS.get(name) or None), name
