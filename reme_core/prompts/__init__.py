"""The prompts, as text files beside this module: one folder a language, one file a prompt.

A file has two parts, divided by a line of three dashes: what the model is (the system message), and what it is given
(the user message). `$name` stands for a value. `rules.yaml` holds the phrases of the rule-based ops.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Literal, get_args

import yaml

from reme_core.text.terms import language_of

Language = Literal["en", "zh"]


def language_for(text: str) -> Language:
    """The language in which whoever wrote a text is answered."""
    return "zh" if language_of(text) == "zh" else "en"


def prompt(name: str, language: Language, **values: object) -> list[dict[str, Any]]:
    """The messages of the prompt in a file, with a value in place of every `$name`.

    Text that others wrote must be fenced (`reme_core.prompts.fence`).

    Raises:
        KeyError: A value is missing.
    """
    return [
        {"role": role, "content": part.substitute(values)}
        for role, part in zip(("system", "user"), _parts(name, language), strict=True)
    ]


def phrase(name: str, language: Language, **values: object) -> str:
    """One phrase of the rules, its values filled in.

    Raises:
        KeyError: There is no such phrase, or a value is missing.
    """
    return _phrases(language)[name].substitute(values)


def read_texts(*, with_prompts: bool) -> None:
    """Read the phrases, and the prompts if they are needed, so that nothing waits for a file later."""
    for language in get_args(Language):
        _phrases(language)
        folder = Path(__file__).parent / language
        for file in folder.rglob("*.md") if with_prompts else ():
            _parts(file.relative_to(folder).with_suffix("").as_posix(), language)


@functools.cache
def _phrases(language: Language) -> Mapping[str, Template]:
    text = files(__name__).joinpath(language, "rules.yaml").read_text(encoding="utf-8")
    return {str(key): Template(str(value)) for key, value in yaml.safe_load(text).items()}


@functools.cache
def _parts(name: str, language: Language) -> tuple[Template, Template]:
    text = files(__name__).joinpath(language, f"{name}.md").read_text(encoding="utf-8")
    system, divider, user = text.partition("\n---\n")
    if not divider:
        raise ValueError(f"the prompt {language}/{name}.md lacks the line of dashes between its two parts")
    return Template(system.strip()), Template(user.strip())
