"""Checks the configurations of a `ReMeStore`: what would do nothing is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.embeddings import Embeddings
from langgraph.store.base import IndexConfig, TTLConfig

from reme_core.errors import InputError, did_you_mean

_INDEX: Final = ("dims", "embed", "fields")
_TTL: Final = ("default_ttl", "refresh_on_read", "sweep_interval_minutes", "omit_expired")


def check_index(index: IndexConfig | None) -> IndexConfig | None:
    """Check which texts are embedded and how, and return a copy.

    Raises:
        InputError: A key is unknown or missing, or a value does not fit.
    """
    if index is None:
        return None
    given = _check_names("index", index, _INDEX, "; texts are compared by cosine, and exactly")
    dims, fields = given.get("dims"), given.get("fields")
    if not isinstance(dims, int) or isinstance(dims, bool) or dims < 1:
        raise InputError(f"index['dims'] is the number of dimensions of the model's vectors, 1 or more; not {dims!r}")
    embed = given.get("embed")
    if not (isinstance(embed, Embeddings | str) or callable(embed)):
        raise InputError("index['embed'] is what embeds texts: an Embeddings, a function, or a name such as 'openai:…'")
    if fields is not None and (
        not isinstance(fields, Sequence) or isinstance(fields, str) or not all(isinstance(one, str) for one in fields)
    ):
        raise InputError(f"index['fields'] is a list of paths such as ['text'], not {fields!r}")
    return cast(IndexConfig, given)


def check_ttl(ttl: TTLConfig | None) -> TTLConfig | None:
    """Check how long items live, and return a copy.

    Raises:
        InputError: A key is unknown, or a value does not fit.
    """
    if ttl is None:
        return None
    given = _check_names("ttl", ttl, _TTL)
    for name in ("default_ttl", "sweep_interval_minutes"):
        minutes = given.get(name)
        if minutes is None:
            given.pop(name, None)
        elif minutes is True or not isinstance(minutes, int | float) or not (math.isfinite(minutes) and minutes > 0):
            raise InputError(f"ttl[{name!r}] is a positive number of minutes, not {minutes!r}")
    if not isinstance(given.get("refresh_on_read", True), bool):
        raise InputError(f"ttl['refresh_on_read'] is True or False, not {given['refresh_on_read']!r}")
    if given.get("omit_expired", True) is not True:
        raise InputError("ttl['omit_expired'] can only be True: expired items are never found here")
    return cast(TTLConfig, given)


def _check_names(what: str, given: Any, known: Sequence[str], more: str = "") -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InputError(f"{what} is a dict with {', '.join(known)}; not {given!r}")
    for name in given:
        if name not in known:
            hint = did_you_mean(str(name), known, f"there are {', '.join(known)}{more}")
            raise InputError(f"{what} has no {name!r}; {hint}")
    return dict(given)
