"""Convert values of any origin to what Postgres can store."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
from pydantic import BaseModel

from reme_core.given import storable

_DEEPEST: Final = 99
"""How many lists and dicts may stand in each other: a `JsonObject` may have no more."""


def plain_json(value: Any, within: Sequence[int] = ()) -> Any:
    """Convert a value to strings, finite numbers, booleans, None, lists and dicts.

    NaN and infinities become None, models of Pydantic dicts, keys and objects of other types their `str()`. "…" stands
    for what is nested too deeply, or in itself. `within` is for the recursion: in what the value stands.

    >>> plain_json({1: (np.float32(0.5), {"b"}, float("nan"))})
    {'1': [0.5, ['b'], None]}
    """
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float):
        return value if not isinstance(value, float) or math.isfinite(value) else None
    if not isinstance(value, BaseModel | Mapping | list | tuple | set | frozenset):
        return storable(str(value))
    if id(value) in within or len(within) == _DEEPEST:
        return "…"
    inside = (*within, id(value))
    if isinstance(value, BaseModel | Mapping):
        return {storable(str(key)): plain_json(member, inside) for key, member in dict(value).items()}
    return [plain_json(member, inside) for member in value]


_ESCAPE: Final = "\x10"  # data link escape, whose purpose is to change the meaning of what follows
_UNSTORABLE: Final = re.compile("[\x00\x10\ud800-\udfff]")
_ESCAPED: Final = re.compile(_ESCAPE + "([0-9a-f]{4})")
# Stands before a number that is written as text, since JSON or Postgres would not give it back as it was.
_NUMBER: Final = f"{_ESCAPE}="


def encode_json(value: Any) -> Any:
    r"""Write a JSON value as one that Postgres can store; `decode_json` gives it back as it was.

    NUL characters, halves of surrogate pairs, numbers that are not finite, and those beyond 2⁵³ whose decimal form is
    another number, are escaped by U+0010. All else stays.

    >>> encode_json({"a": "x\x00", "b": [1, float("-inf")]})
    {'a': 'x\x100000', 'b': [1, '\x10=-inf']}

    Raises:
        TypeError: It is no JSON value; the message says what in it is none.
    """
    if isinstance(value, str):
        return _UNSTORABLE.sub(lambda found: f"{_ESCAPE}{ord(found[0]):04x}", value)
    if isinstance(value, float):
        # Postgres writes 1e23 out as an integer, which Python reads as one: it has to be the same number still.
        is_exact = math.isfinite(value) and (abs(value) < 2**53 or int(Decimal(repr(float(value)))) == value)
        return value if is_exact else f"{_NUMBER}{float(value)}"
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, list | tuple):
        return [encode_json(member) for member in value]
    if not isinstance(value, Mapping):
        raise TypeError(f"{str(value)[:40]!r} is of the type {type(value).__name__}, which JSON has not")
    if odd := [key for key in value if not isinstance(key, str)]:
        raise TypeError(f"the key {odd[0]!r} is no text, and JSON has no other keys")
    return {encode_json(key): encode_json(member) for key, member in value.items()}


def decode_json(value: Any) -> Any:
    r"""The value that `encode_json` wrote.

    >>> decode_json({"a": "x\x100000", "b": [1, "\x10=-inf"]})
    {'a': 'x\x00', 'b': [1, -inf]}
    """
    if isinstance(value, str):
        if _ESCAPE not in value:
            return value
        if value.startswith(_NUMBER):
            return float(value.removeprefix(_NUMBER))
        return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value)
    if isinstance(value, list):
        return [decode_json(member) for member in value]
    if isinstance(value, dict):
        return {decode_json(key): decode_json(member) for key, member in value.items()}
    return value


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is; None if it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # the latter where it is nested a thousand deep
        return None
    return value if isinstance(value, dict) else None
