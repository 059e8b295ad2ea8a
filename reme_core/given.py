"""What callers give: the base of the models that they make, values with bounds such as times, and arguments of methods.

A value that does not fit is an `InputError`, not pydantic's own.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import UTC, datetime, tzinfo
from difflib import get_close_matches
from functools import cache, lru_cache, partial
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    Self,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticSerializationError, to_jsonable_python

from reme_core.errors import InputError, did_you_mean


def first_problem(error: ValidationError) -> str:
    """What is wrong with values, and where, in one line."""
    problem = error.errors()[0]
    where = ".".join(map(str, problem["loc"]))
    # The input is the whole object where a field is missing; it would only repeat what the caller wrote.
    value = "" if isinstance(problem["input"], dict) else f", not {problem['input']!r:.60}"
    return (f"{where}: " if where else "") + problem["msg"].removeprefix("Value error, ") + value


class Given(BaseModel):
    """A model that a caller makes by its name, such as `Memory(content="…")`."""

    model_config = ConfigDict(validate_assignment=True)

    def __init__(self, /, **values: Any) -> None:
        """Make it.

        Raises:
            InputError: A value does not fit, or there is no such field. Classes with an `extra` of their own take more
                names, since callers hand on all of what a chat API gave them; but none of ours without its `_id`, and
                none that is nearly ours.
        """
        fields = self.__class__.model_fields
        for name in values:
            if name in fields:
                continue
            if f"{name}_id" in fields:
                raise InputError(f"there is no field '{name}'; did you mean '{name}_id'?")
            if "extra" not in self.__class__.model_config:
                known = f"known are {', '.join(fields)}"
                raise InputError(f"there is no field '{name}'; {did_you_mean(name, fields, known)}")
        _refuse_mistyped(self.__class__, values)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise InputError(first_problem(error)) from None

    if not TYPE_CHECKING:  # type checkers would take every name for that of an attribute

        def __setattr__(self, name: str, value: Any) -> None:
            """Set a field.

            Raises:
                InputError: The value does not fit, or there is no such field.
            """
            try:
                super().__setattr__(name, value)
            except ValidationError as error:
                raise InputError(first_problem(error)) from None
            except ValueError:  # as pydantic calls an unknown name
                known = self.__class__.model_fields
                told = did_you_mean(name, known, f"known are {', '.join(known)}")
                raise InputError(f"there is no field '{name}'; {told}") from None

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """Give its fields as a dict, with the options of pydantic's method.

        Raises:
            InputError: With `mode="json"`: it holds a value that JSON cannot have.
        """
        try:
            return super().model_dump(**options)
        except (PydanticSerializationError, UnicodeError) as error:
            told = f"{type(self).__name__} holds a value that JSON cannot have"
            raise InputError(f"{told}; give texts, numbers, lists and dicts as metadata: {error}") from None

    # Without this mark pydantic would call `__init__` also for values that it reads itself, at five times the cost.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


_EARLIEST, _LATEST = datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)


def moment_of(time: datetime) -> datetime:
    """The same with a time zone (UTC if it has none), in the years 2 to 9998: others say "unset" or "for ever"."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return _EARLIEST if aware < _EARLIEST else _LATEST if aware > _LATEST else aware


def _refuse_year(given: Any) -> Any:
    # To pydantic these are seconds since 1970: "2025" would be half an hour after its beginning.
    if isinstance(given, str) and re.fullmatch(r"\d{4}(\d\d){0,2}", given.strip()):
        raise ValueError("a point in time is written as 2025-01-31 or 2025-01-31T12:00")
    return given


Moment = Annotated[datetime, BeforeValidator(_refuse_year), AfterValidator(moment_of)]
"""A point in time, as `moment_of` makes it: every time zone and Postgres can show it."""

# What other programs call it: if one were ignored, a conversation of last year would count as said today.
WHEN_SAID: Final = AliasChoices("sent_at", "time_created", "created_at", "timestamp")
"""The names under which the time of a message is taken."""


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


def json_text(value: Any) -> str:
    """Write a value as JSON; what JSON has no form for is written as pydantic would, or is its `str()`.

    Raises:
        ValueError: The key of an object is no text or number, or it is nested too deeply.
    """
    try:
        return json.dumps(value, ensure_ascii=False, default=partial(to_jsonable_python, fallback=str))
    except (TypeError, RecursionError) as error:
        raise ValueError(f"it cannot be written as JSON: {error}") from None


AnyJson = Annotated[Any, AfterValidator(_check_depth), AfterValidator(lambda value: json.loads(json_text(value)))]
"""Any value as JSON gives it back, nested no deeper than 100 levels."""


def _refuse_flag(given: Any) -> Any:
    if isinstance(given, bool):
        raise ValueError("give a number")
    return given


Count = Annotated[int, BeforeValidator(_refuse_flag), Field(ge=-(2**31), lt=2**31)]
"""A number that fits an integer of Postgres; in imported libraries it may be negative."""


def path_of(given: Path | str) -> Path:
    """The path that a caller gives.

    Raises:
        InputError: It is neither a text nor a `Path`, or no file can have that name.
    """
    if not isinstance(given, Path | str):
        raise InputError(f"a path is a text or a Path, not {given!r:.60}")
    path = Path(given)
    try:
        is_name = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:  # half of a surrogate pair
        is_name = False
    if not is_name:
        raise InputError(f"no file can have the name {str(path)!r}")
    return path


_MOST_READ: Final = 10_000
"""Characters of a query that are read, in some 50 ms; all of a pasted file of a megabyte would take a minute."""


def part_to_read(query: str) -> str:
    """A query, or the beginning and the end of one that is too long to read whole: what is asked stands there.

    >>> part_to_read("Why?"), len(part_to_read("Why? " * 10_000))
    ('Why?', 10001)
    """
    half = _MOST_READ // 2
    return query if len(query) <= _MOST_READ else f"{query[:half]} {query[-half:]}"


LARGEST_MEASURE: Final = 1e100  # Postgres adds and squares numbers to calculate their mean


def _check_measure(value: float) -> float:
    if not abs(value) <= LARGEST_MEASURE:  # nor is NaN
        raise ValueError(f"give a finite number, at most {LARGEST_MEASURE:g}")
    return value


Measure = Annotated[float, AfterValidator(_check_measure)]
"""A score, or another number of which means are calculated; True is 1, as of an attempt that passed."""

_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


def storable(value: Any) -> Any:
    r"""The value with U+FFFD for each character that Postgres cannot store: NUL and halves of surrogate pairs.

    It may be a text, a model, or a list or dict of these. A model without such characters is returned as it is.

    >>> storable({"said": ["a\x00b"]})
    {'said': ['a\ufffdb']}
    """
    if isinstance(value, str):
        return value if value.isascii() and "\0" not in value else _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, list):
        return [storable(member) for member in value]
    if isinstance(value, dict):
        return {storable(key): storable(member) for key, member in value.items()}
    if isinstance(value, BaseModel):
        return value.model_copy(update=changed) if (changed := _made_storable(value)) else value
    return value


def _made_storable(model: BaseModel) -> dict[str, Any]:
    return {name: clean for name, value in model if (clean := storable(value)) != value}


class StrictlyNamed(Given):
    """What is refused if a name in it, such as `mesages`, is nearly that of a field that it does not have."""

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        _refuse_mistyped(cls, value)
        return value


def _refuse_mistyped(model: type[BaseModel], values: Mapping[str, Any]) -> None:
    """Raise an error if the name of a value is nearly that of a field, and the field has none."""
    for name, value in values.items():
        near = next((field for field in _near_fields(model, str(name)) if field not in values), None)
        if near is not None and value is not None:
            raise InputError(f"there is no field '{name}'; did you mean '{near}'?")


@lru_cache(maxsize=1_000)  # a chat API gives the same names with each message
def _near_fields(model: type[BaseModel], name: str) -> Sequence[str]:
    others = {field: known.validation_alias for field, known in model.model_fields.items()}
    taken = {str(form) for field, other in others.items() for form in (field, *getattr(other, "choices", ()))}
    if name == "text" and "content" in taken:  # as others call what was said
        return ("content",)
    # At .88 `scor` is near `score`, and `success`, which says something else, is not near `successes`.
    return () if name in taken else get_close_matches(name, taken, cutoff=0.88)


class Observed(Given):
    """What a program reports of what tools and models did: its texts become `storable`."""

    # Outputs of tools contain such characters now and then; a whole report must not be refused for one of them.
    @model_validator(mode="after")
    def _replace_unstorable(self) -> Self:
        for name, clean in _made_storable(self).items():
            setattr(self, name, clean)
        return self


_PLAIN: Final[dict[Any, tuple[type, str]]] = {
    str: (str, "a text"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    bool: (bool, "True or False"),
    datetime: (datetime, "a datetime"),
    NoneType: (NoneType, "None"),
}
# What is in them, and what they take, is for the method to check.
_FORMS: Final[dict[Any, tuple[Any, str]]] = {Mapping: (Mapping, "a dict"), Callable: (Callable, "a function")}


def check_arguments(method: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Check arguments of a method where its signature says plain types, such as texts, numbers, lists and dicts.

    Whatever else it takes, such as messages, the method has to check itself.

    Args:
        method: The method, as a function of its class.
        args: Its positional arguments, without `self`.
        kwargs: Its keyword arguments.

    Raises:
        InputError: An argument is of another type.
    """
    places, types = _plain_parameters(method)
    for name, value in (*zip(places, args, strict=False), *kwargs.items()):
        if name in types and not any(_fits(value, one) for one in types[name]):
            wanted = " or ".join(words for one in types[name] for words in _words(one))
            raise InputError(f"{name} is {wanted}, not {value!r:.60}")


@cache
def _plain_parameters(method: Callable[..., Any]) -> tuple[Sequence[str], Mapping[str, Sequence[Any]]]:
    """The names of the positional parameters in their order, and the types of those parameters that take plain ones."""
    _, *parameters = inspect.signature(method).parameters.values()
    # Not the type that it returns, which may be known to type checkers alone.
    named = {one.name: one.annotation for one in parameters}
    hints = get_type_hints(SimpleNamespace(__annotations__=named), method.__globals__)
    for name, hint in list(hints.items()):
        if get_origin(hint) is Unpack:
            del hints[name]
            hints |= get_type_hints(*get_args(hint))
    types = {name: get_args(one) if get_origin(one) in (Union, UnionType) else (one,) for name, one in hints.items()}
    places = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return places, {name: members for name, members in types.items() if all(map(_words, members))}


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return isinstance(value, str) and value in inner  # an array would be compared member by member
    if origin in _FORMS:
        return isinstance(value, _FORMS[origin][0])
    if origin is tuple and inner[-1] is not ...:
        return isinstance(value, tuple | list) and len(value) == len(inner) and all(map(_fits, value, inner))
    if origin is not None:
        is_many = isinstance(value, Iterable if origin is Iterable else Collection)
        is_list = is_many and not isinstance(value, str | bytes | Mapping)
        # What is made one by one can be read only once, by the method.
        return is_list and (not isinstance(value, Collection) or all(_fits(member, inner[0]) for member in value))
    if isinstance(value, bool):  # which is a number in Python, and none in Postgres
        return hint is bool
    return isinstance(value, _PLAIN[hint][0] if hint in _PLAIN else hint)


def _words(hint: Any) -> Sequence[str]:
    """What a value of a plain type is, in words; nothing for a type that is not plain."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return [repr(value) for value in inner]
    if origin is tuple and inner[-1] is not ...:
        parts = [words for member in inner for words in _words(member)]
        return [f"a pair ({', '.join(parts)})"] if len(parts) == len(inner) else []
    if origin in (Sequence, Iterable, tuple):
        several = [re.sub(r"^a (whole number|\w+)", r"\1s", one) for one in _words(inner[0])]
        return [f"a {'tuple' if origin is tuple else 'list'} of {members}" for members in several]
    if isinstance(hint, type) and hint.__module__.startswith("reme_core") and _is_made_by_callers(hint):
        return [f"a {hint.__name__}"]
    known = _PLAIN.get(hint) or _FORMS.get(origin)
    return [known[1]] if known else []


def _is_made_by_callers(hint: type) -> bool:
    return issubclass(hint, BaseModel | tuple) or is_dataclass(hint)
