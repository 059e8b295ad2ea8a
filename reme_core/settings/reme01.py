"""The names of settings, ops and parameters in ReMe 0.1 and ExperienceMaker, and what does their work here."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from importlib.resources import files
from operator import getitem
from typing import Any

import yaml

from reme_core.errors import ConfigurationError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Successor:
    """What took the place of a setting, an op or a parameter, as `reme01.yaml` says.

    Attributes:
        name: The name here; empty for a setting or parameter that has no effect.
        instead: A sentence that says what does its work here; empty if `name` does.
        refused: A sentence that says what to do instead, where a setting cannot be left without effect.
        given: Parameters that the op gets besides.
        parameters: What took the place of an op's parameters, by their old names.
    """

    name: str = ""
    instead: str = ""
    refused: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Successor] = field(default_factory=dict)


@cache
def settings() -> Mapping[tuple[str, ...], Successor]:
    """What took the place of settings, by their paths, in which `*` stands for any name."""
    return {tuple(path.split(".")): _successor(entry) for path, entry in _table()["settings"].items()}


@cache
def ops() -> Mapping[str, Successor]:
    """What took the place of ops, by their old names without `_op` at the end."""
    return {name: _successor(entry) for name, entry in _table()["ops"].items()}


def op(name: str) -> Successor:
    """What took the place of an op; the op itself if it kept its name and its parameters."""
    name = name.removesuffix("_op")
    return ops().get(name, Successor(name))


@cache
def old_names(name: str) -> tuple[str, ...]:
    """The old names of an op that are its aliases here."""
    # A name that stands for the op with certain parameters, or that has no effect, is no alias.
    return tuple(old for old, s in ops().items() if s.name == name != old and not (s.given or s.instead))


def rename_parameters(op_name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of an op by the names that they have here, without those that have no effect here."""
    successors = op(op_name).parameters
    renamed = {successors.get(name, Successor(name)).name: value for name, value in parameters.items()}
    return {name: value for name, value in renamed.items() if name}


def rename_settings(source: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of one source by the names that they have here, without those that have no effect (a warning).

    Raises:
        ConfigurationError: It has a setting that cannot be left without effect.
    """
    tree: dict[str, Any] = {}
    merge(tree, source)  # a copy: it is a caller's own, perhaps
    for pattern, successor in settings().items():
        for path in list(_matches(tree, pattern)):  # a list, since the loop changes the tree
            value = _take(tree, path)
            if successor.name:
                renamed = nest(successor.name.split("."), value)
                merge(renamed, tree)  # what is set under the new name wins
                tree = renamed
            elif successor.refused:
                if value:
                    raise ConfigurationError(f"{'.'.join(path)} is not supported: {successor.refused}")
            else:
                log.warning("%s has no effect: %s", ".".join(path), successor.instead)
    return tree


def nest(path: list[str], value: Any) -> dict[str, Any]:
    """A value in mappings within mappings, by its path."""
    name, *rest = path
    return {name: nest(rest, value) if rest else value}


def merge(base: dict[str, Any], over: Mapping[str, Any]) -> None:
    """Put the values of `over` into `base`, mapping by mapping."""
    for key, value in over.items():
        if isinstance(value, Mapping):
            if not isinstance(base.get(key), dict):
                base[key] = {}
            merge(base[key], value)
        else:
            base[key] = value


def _take(tree: dict[str, Any], path: Sequence[str]) -> Any:
    """Remove what is at a path, and the sections that are empty then."""
    *above, name = path
    section = reduce(getitem, above, tree)
    value = section.pop(name)
    if above and not section:
        _take(tree, above)
    return value


def _matches(tree: Any, pattern: tuple[str, ...], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths in the tree that a pattern means."""
    if not pattern:
        yield above
    elif isinstance(tree, dict):
        for key in tree if pattern[0] == "*" else tree.keys() & {pattern[0]}:
            yield from _matches(tree[key], pattern[1:], (*above, key))


def _successor(entry: str | Mapping[str, Any]) -> Successor:
    if isinstance(entry, str):
        return Successor(entry)
    parameters = {name: _successor(inner) for name, inner in entry.get("params", {}).items()}
    name, instead, refused = (entry.get(key, "") for key in ("is", "instead", "refused"))
    return Successor(name, instead, refused, entry.get("with", {}), parameters)


@cache
def _table() -> Any:
    return yaml.safe_load(files("reme_core.settings").joinpath("reme01.yaml").read_text(encoding="utf-8"))
