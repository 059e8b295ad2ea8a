"""Convert texts and values of any origin to what Postgres can store."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def plain_text(text: str) -> str:
    r"""Remove NUL characters from a text and replace halves of surrogate pairs by `?`.

    >>> plain_text("a\x00b")
    'ab'
    """
    if "\x00" in text:
        text = text.replace("\x00", "")
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def plain_json(value: Any) -> Any:
    """Convert a value to strings, finite numbers, booleans, None, lists and dicts.

    NaN and infinities become None, keys and objects of other types their `str()`.

    >>> plain_json({1: (np.float32(0.5), {"b"}, float("nan"))})
    {'1': [0.5, ['b'], None]}
    """
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float):
        return value if not isinstance(value, float) or math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {plain_text(str(key)): plain_json(member) for key, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_json(member) for member in value]
    return plain_text(str(value))
