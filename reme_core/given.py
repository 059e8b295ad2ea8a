"""The base of models that callers make themselves. A value that does not fit is an `InputError`, not pydantic's own."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from reme_core.errors import InputError


def first_problem(error: ValidationError) -> str:
    """What is wrong with values, and where, in one line."""
    problem = error.errors()[0]
    where = ".".join(map(str, problem["loc"]))
    # The input is the whole object where a field is missing; it would only repeat what the caller wrote.
    value = "" if isinstance(problem["input"], dict) else f", not {problem['input']!r:.60}"
    return (f"{where}: " if where else "") + problem["msg"].removeprefix("Value error, ") + value


class Given(BaseModel):
    """A model that a caller makes by its name, such as `Memory(content="…")`."""

    def __init__(self, /, **values: Any) -> None:
        """Make it.

        Raises:
            InputError: A value does not fit.
        """
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise InputError(first_problem(error)) from None

    # Without this mark pydantic would call `__init__` also for values that it reads itself, at five times the cost.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]
