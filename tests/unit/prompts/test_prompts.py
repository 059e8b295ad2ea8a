"""Every prompt is there in both languages, takes the same values, and fences what others wrote."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from string import Template

import pytest
import yaml

from reme_core import prompts
from reme_core.prompts import Language, phrase, prompt
from reme_core.text.timex.render import render_date

FOLDERS = {name: Path(prompts.__file__).with_name(name) for name in ("en", "zh")}
NAMES = sorted(str(path.relative_to(FOLDERS["en"])) for path in FOLDERS["en"].rglob("*.md"))


def values_in(text: str) -> set[str]:
    return set(Template(text).get_identifiers())


def test_both_languages_have_the_same_prompts() -> None:
    chinese = sorted(str(path.relative_to(FOLDERS["zh"])) for path in FOLDERS["zh"].rglob("*.md"))
    assert chinese == NAMES
    assert len(NAMES) >= 24


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_take_the_same_values_and_are_valid_templates(name: str) -> None:
    english, chinese = (FOLDERS[folder].joinpath(name).read_text(encoding="utf-8") for folder in ("en", "zh"))
    assert Template(english).is_valid() and Template(chinese).is_valid()
    assert values_in(english) == values_in(chinese) != set()
    assert sum("\u4e00" <= c <= "\u9fff" for c in chinese) > len(chinese) / 4
    system, user = prompt(name.removesuffix(".md"), "zh", **dict.fromkeys(values_in(chinese), "VALUE"))
    assert (system["role"], user["role"]) == ("system", "user")
    assert "VALUE" in user["content"] and "$" not in system["content"] + user["content"]
    assert "JSON" in system["content"] + user["content"] or name in ("react.md", "rewrite.md")


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", ["personal/read", "personal/read_small"])
def test_the_example_has_its_day_in_the_form_of_a_real_conversation(name: str, language: Language) -> None:
    text = FOLDERS[language].joinpath(f"{name}.md").read_text(encoding="utf-8")
    assert f"— {render_date(datetime(2024, 3, 5), language)}\n[1]" in text


def test_both_languages_have_the_same_phrases() -> None:
    english, chinese = (
        yaml.safe_load(FOLDERS[folder].joinpath("rules.yaml").read_text(encoding="utf-8")) for folder in ("en", "zh")
    )
    assert english.keys() == chinese.keys()
    for name in english:
        assert values_in(str(english[name])) == values_in(str(chinese[name])), name


def test_a_missing_value_or_phrase_is_an_error() -> None:
    with pytest.raises(KeyError):
        prompt("rewrite", "en", task="t")
    with pytest.raises(KeyError):
        phrase("no_such_phrase", "en")


def test_values_are_not_read_as_templates() -> None:
    assert "costs $5 and $task" in prompt("rewrite", "en", task="costs $5 and $task", memories="m")[1]["content"]
