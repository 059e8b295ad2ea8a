"""What callers make themselves: the base of its models, and the values that have bounds, such as times and numbers.

A value that does not fit is an `InputError`, not pydantic's own.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, Field, ValidationError

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


_EARLIEST, _LATEST = datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)


def moment_of(time: datetime) -> datetime:
    """The same with a time zone (UTC if it has none), in the years 2 to 9998: others say "unset" or "for ever"."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return _EARLIEST if aware < _EARLIEST else _LATEST if aware > _LATEST else aware


Moment = Annotated[datetime, AfterValidator(moment_of)]
"""A point in time, as `moment_of` makes it: every time zone and Postgres can show it."""


def zone_of(name: str) -> tzinfo:
    """The time zone of an IANA name.

    Raises:
        InputError: There is none of that name, or the machine has no time zone database.
    """
    try:
        # UTC is handled without the time zone database, because small containers have none.
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError) as error:
        raise InputError(f"unknown time zone {name!r}; give an IANA name such as 'Europe/Berlin'") from error


_DEEPEST = 100  # levels, far more than anybody nests; pydantic fails at 255


def _check_depth(value: Any) -> Any:
    if not value:
        return value
    level: list[Any] = [value]  # level by level: recursion would fail on what is nested too deeply
    for _ in range(_DEEPEST):
        inner = [list(one.values()) if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [member for members in inner for member in members]
        if not level:
            return value
    raise ValueError(f"it is nested deeper than {_DEEPEST} levels; flatten it")


JsonObject = Annotated[dict[str, Any], AfterValidator(_check_depth)]
"""A JSON object, nested no deeper than 100 levels."""

AnyJson = Annotated[Any, AfterValidator(_check_depth)]
"""Any JSON value, nested no deeper than 100 levels."""

Count = Annotated[int, Field(ge=-(2**31), lt=2**31)]
"""A number that fits an integer of Postgres; in imported libraries it may be negative."""
