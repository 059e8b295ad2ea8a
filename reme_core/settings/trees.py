"""Settings as mappings within mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
