"""Filters of items, as SQL over an item's JSON value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from psycopg.types.json import Jsonb

from reme_core.errors import InputError
from reme_core.text.plain import encode_json

ORDERINGS: Final = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_NUMBER: Final = (
    "case when left({value} #>> '{{}}', 2) = E'\\x10=' and {value} #>> '{{}}' <> E'\\x10=nan'"
    " then substr({value} #>> '{{}}', 3)::numeric else reme.number_in({value}) end"
)
"""The number in a JSON value. `encode_json` writes some numbers as texts, which begin with U+0010 and `=`."""


class ItemFilter:
    """Makes conditions on a JSON value, and keeps the values of their placeholders.

    The rules are those of LangGraph's in-memory store. A plain value has to be equal. Of a dict without operators, the
    members that it names have to match; of a list, all members in their order. `$gt` and the like compare numbers as
    numbers, also where one is written as a text: 9 is less than 10, and so is "9".

    >>> conditions = ItemFilter()
    >>> conditions.on("item.value", {"colour": "red"}), list(conditions.values)
    ("(coalesce(item.value -> %(filter0)s::text, 'null') = any(%(filter1)s::jsonb[]))", ['filter0', 'filter1'])
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def on(self, value: str, wanted: Mapping[str, Any]) -> str:
        """A condition that the JSON object `value` (an SQL expression) has the wanted members.

        Raises:
            InputError: An operator is unknown, or compares with something that is neither a number nor a text.
        """
        return _all(self._matches(self._member(value, key), part) for key, part in wanted.items())

    def _matches(self, value: str, wanted: Any, *, whole: bool = False) -> str:
        """A condition that a value has what is wanted; a dict may have more, unless it is compared as a `whole`."""
        if isinstance(wanted, list | tuple):
            members = [self._matches(f"({value} -> {n})", member, whole=whole) for n, member in enumerate(wanted)]
            # By `case`: Postgres may check the parts of an `and` in any order, and only an array has a length.
            same = _all([f"jsonb_array_length({value}) = {len(wanted)}", *members])
            return f"case when jsonb_typeof({value}) = 'array' then {same} else false end"
        if not isinstance(wanted, Mapping):
            return self._scalar(value, wanted)
        if whole:
            conditions = [f"{value} - {self._bind([encode_json(str(key)) for key in wanted])}::text[] = '{{}}'"]
            for key, member in wanted.items():
                conditions.append(f"{value} ? {self._bind(encode_json(str(key)))}::text")
                conditions.append(self._matches(self._member(value, str(key)), member, whole=True))
            # By `case`, as above: `-` fails on values of other types.
            return f"case when jsonb_typeof({value}) = 'object' then {_all(conditions)} else false end"
        if any(str(key).startswith("$") for key in wanted):
            return _all(self._operator(value, str(name), operand) for name, operand in wanted.items())
        return _all([f"jsonb_typeof({value}) = 'object'", self.on(value, wanted)])

    def _scalar(self, value: str, wanted: Any) -> str:
        if isinstance(wanted, float) and math.isnan(wanted):
            return "false"  # NaN equals nothing, not even itself
        # Agents write and read values in Python, where True equals 1 and False equals 0.
        alike = [wanted, bool(wanted), int(wanted)] if wanted in (0, 1) and not isinstance(wanted, str) else [wanted]
        return f"{value} = any({self._bind([_json(one) for one in alike])}::jsonb[])"

    def _operator(self, value: str, name: str, operand: Any) -> str:
        if name == "$eq":
            return self._matches(value, operand, whole=True)
        if name == "$ne":
            return f"not {self._matches(value, operand, whole=True)}"
        if name not in ORDERINGS:
            raise InputError(f"a filter has no operator {name!r}; known are $eq, $ne, {', '.join(ORDERINGS)}")
        if not isinstance(operand, str | int | float):
            raise InputError(f"{name} compares with a number or a text, not with {operand!r}")
        if isinstance(operand, str) and not _is_number(operand):
            # Such texts are mostly dates in ISO form. LangGraph's in-memory store cannot compare texts at all.
            text = f"{value} #>> '{{}}' collate \"C\" {ORDERINGS[name]} {self._bind(encode_json(operand))}::text"
            return f"(jsonb_typeof({value}) = 'string' and {text})"
        number = _NUMBER.format(value=f"{self._bind(_json(operand))}::jsonb")
        return f"coalesce({_NUMBER.format(value=value)} {ORDERINGS[name]} {number}, false)"

    def _member(self, value: str, key: str) -> str:
        # A member that is missing equals None, as in Python's `dict.get`.
        return f"coalesce({value} -> {self._bind(encode_json(key))}::text, 'null')"

    def _bind(self, value: Any) -> str:
        name = f"filter{len(self.values)}"
        self.values[name] = value
        return f"%({name})s"


def _all(conditions: Any) -> str:
    parts = [part for part in conditions if part]
    return f"({' and '.join(parts)})" if parts else "true"


def _json(value: Any) -> Jsonb:
    if value is not None and not isinstance(value, str | int | float):
        raise InputError(f"a filter compares with plain JSON values, not with {type(value).__name__}")
    return Jsonb(encode_json(value))


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
