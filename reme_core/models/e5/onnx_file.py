"""Writes a network in the format of ONNX, which is protobuf, as far as the offline model needs it.

The numbers of fields are those in `onnx.proto` (version 8 of the format).
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

MICROSOFT: Final = "com.microsoft"
"""The namespace of the operators that ONNX Runtime adds to those of ONNX."""

_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int64": 7}  # numbers of `TensorProto.DataType`

Value = str
"""The name of a value between operators."""
Operand = Value | NDArray[np.generic] | np.generic
"""An input of an operator: a value, or a constant."""


class Network:
    """A network that is built: `add` its operators in order, then take its `model`.

    Example:
        >>> network = Network()
        >>> doubled = network.add("Mul", "x", np.float32(2))
        >>> model = network.model({"x": ("float32", ["rows", 384])}, doubled)
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._count = 0

    def add(self, operator: str, *operands: Operand, domain: str = "", **attributes: float) -> Value:
        """Add an operator with one result."""
        return self.add_many(1, operator, *operands, domain=domain, **attributes)[0]

    def add_many(
        self, results: int, operator: str, *operands: Operand, domain: str = "", **attributes: float
    ) -> list[Value]:
        """Add an operator with several results."""
        inputs = [operand if isinstance(operand, str) else self._constant(operand) for operand in operands]
        names = [self._new_name() for _ in range(results)]
        node = [*(_field(1, name) for name in inputs), *(_field(2, name) for name in names), _field(4, operator)]
        node += [_field(5, _attribute(name, value)) for name, value in attributes.items()]
        self._parts.append(_field(1, b"".join(node) + _field(7, domain)))
        return names

    def model(self, inputs: dict[Value, tuple[str, list[str | int]]], *outputs: Value) -> bytes:
        """The file. `inputs` has the type and the shape of each input; a string in a shape is a length that varies."""
        parts = [*self._parts, _field(2, "e5"), *(_field(11, _declaration(name, *of)) for name, of in inputs.items())]
        parts += [_field(12, _declaration(output, "float32", ["rows", "width"])) for output in outputs]
        # The operators of ONNX are those of its version 18, Microsoft's those of version 1.
        operators = _field(8, _field(2, 18)) + _field(8, _field(1, MICROSOFT) + _field(2, 1))
        return _field(1, 8) + operators + _field(7, b"".join(parts))

    def _constant(self, value: NDArray[np.generic] | np.generic) -> str:
        array = np.asarray(value)
        tensor = b"".join(_field(1, length) for length in array.shape) + _field(2, _TYPES[array.dtype.name])
        name = self._new_name()
        self._parts.append(_field(5, tensor + _field(8, name) + _field(9, array.tobytes())))
        return name

    def _new_name(self) -> str:
        self._count += 1
        return f"v{self._count}"


def _field(number: int, value: int | float | str | bytes) -> bytes:
    # A field begins with its number and its type in protobuf: 0 for an integer, 5 for four bytes, 2 for a length with
    # so many bytes.
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1  # a negative number in two's complement
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _attribute(name: str, value: float) -> bytes:
    # Field 20 is the type of the attribute: 2 for an integer, 1 for a float.
    if isinstance(value, int):
        return _field(1, name) + _field(3, value) + _field(20, 2)
    return _field(1, name) + _field(2, value) + _field(20, 1)


def _declaration(name: str, of: str, shape: list[str | int]) -> bytes:
    lengths = b"".join(_field(1, _field(1 if isinstance(length, int) else 2, length)) for length in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, _TYPES[of]) + _field(2, lengths)))
