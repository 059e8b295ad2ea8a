"""numpy arrays as binary parameters of a statement (`%(name)b`), written as a whole instead of number by number."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format


@dataclass(frozen=True)
class _Array:
    values: npt.NDArray[Any]


class Reals(_Array):
    """A one-dimensional array of float32, as `real[]`."""


class Integers(_Array):
    """A one-dimensional array of int64, as `bigint[]`."""


class Booleans(_Array):
    """A one-dimensional array of bool, as `boolean[]`."""


def _dumper(element: int, array: int, layout: str) -> type[Dumper]:
    """A dumper for Postgres' types of an element and of its array, with an element's bytes in numpy's notation."""
    size = np.dtype(layout).itemsize

    class ArrayDumper(Dumper):
        """Writes Postgres' wire format: dimensions, NULLs, element type, length, lower bound, then the elements."""

        format = Format.BINARY
        oid = array

        def dump(self, obj: Any) -> Buffer:
            items = np.empty(len(obj.values), dtype=[("size", ">i4"), ("value", layout)])
            items["size"] = size
            items["value"] = obj.values
            head = struct.pack(">iii", 1 if len(items) else 0, 0, element)
            return head + (struct.pack(">ii", len(items), 1) + items.tobytes() if len(items) else b"")

    return ArrayDumper


psycopg.adapters.register_dumper(Reals, _dumper(700, 1021, ">f4"))
psycopg.adapters.register_dumper(Integers, _dumper(20, 1016, ">i8"))
psycopg.adapters.register_dumper(Booleans, _dumper(16, 1000, "b1"))
