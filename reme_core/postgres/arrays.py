"""numpy arrays as parameters of a statement, written as a whole instead of number by number."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

# numpy's type → Postgres' element type, its array type, and the bytes of an element behind its length
_TYPES: Final = {"f4": (700, 1021, ">f4"), "i8": (20, 1016, ">i8"), "b1": (16, 1000, "b1")}


@dataclass(frozen=True, slots=True)
class Numbers:
    """A one-dimensional numpy array as a binary parameter (`%(name)b`).

    float32 becomes `real[]`, int64 `bigint[]`, and bool `boolean[]`.
    """

    values: npt.NDArray[Any]


class _NumbersDumper(Dumper):
    """Writes Postgres' wire format: dimensions, NULLs, element type, length, lower bound, then the elements."""

    format = Format.BINARY

    def get_key(self, obj: Numbers, _format: Any) -> tuple[type, str]:  # type: ignore[override]
        return type(obj), obj.values.dtype.str[1:]

    def upgrade(self, obj: Numbers, _format: Any) -> Dumper:
        upgraded = _NumbersDumper(type(obj), None)
        upgraded.oid = _TYPES[obj.values.dtype.str[1:]][1]
        return upgraded

    def dump(self, obj: Numbers) -> Buffer:
        element, _, layout = _TYPES[obj.values.dtype.str[1:]]
        size = np.dtype(layout).itemsize
        items = np.empty(len(obj.values), dtype=[("size", ">i4"), ("value", layout)])
        items["size"] = size
        items["value"] = obj.values
        head = struct.pack(">iii", 1 if len(items) else 0, 0, element)
        return head + (struct.pack(">ii", len(items), 1) + items.tobytes() if len(items) else b"")


psycopg.adapters.register_dumper(Numbers, _NumbersDumper)
