"""The registry of ops: every atomic operation that a flow can name.

An op is `async def op(state, deps, *, parameter=default) -> None`. The decorator says which fields of the state it
reads and writes; its annotation says which states it works on, and it works on what derives from them too:

    @op(reads={"search_query"}, writes={"hits"})
    async def recall(state: RetrievalState, deps: Deps, *, threshold_score: float = 0.0) -> None: ...

Ops of this package live in `HOMES`. Ops of other packages are found through the setting `ops`, or through the
entry-point group `reme_core.ops`, whose entries name a module, or a function in one, that uses the decorator.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import pkgutil
import sys
import types
import typing
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from reme_core.errors import FlowError, did_you_mean
from reme_core.flows.state import State
from reme_core.settings import reme01

ENTRY_POINTS = "reme_core.ops"
HOMES = (
    "reme_core.flows.ops",
    "reme_core.personal",
    "reme_core.task",
    "reme_core.tools",
    "reme_core.working",
    "reme_core.compat.memoryscope_ops",
    "reme_core.compat.memoryscope_extraction",
    "reme_core.compat.memoryscope_forgetting",
    "reme_core.compat.memoryscope_insights",
    "reme_core.compat.reme01_ops",
)
REQUIRED = inspect.Parameter.empty

Function = TypeVar("Function", bound=Callable[..., Awaitable[None]])


@dataclass(frozen=True)
class Parameter:
    """One parameter of an op; `default` is `REQUIRED` if there is none."""

    name: str
    annotation: Any
    default: Any

    @property
    def type_name(self) -> str:
        """Its type as it is written in Python."""
        plain = isinstance(self.annotation, type) and not typing.get_args(self.annotation)
        return self.annotation.__name__ if plain else str(self.annotation).replace("typing.", "")

    def check(self, value: Any) -> Any:
        """The value as the op takes it.

        Raises:
            FlowError: The value is of another type, or is a negative whole number. Nothing is converted: a `"5"` is
                not a 5.
        """
        try:
            # JSON is what a flow's text, YAML and the command line have in common: lists may stand for tuples.
            checked = _adapter(self.annotation).validate_json(to_json(value), strict=True)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise FlowError(f"parameter '{self.name}' must be {self.type_name}, not {value!r}: {reason}") from None
        except PydanticSerializationError:
            problem = "half of a surrogate pair, or lists nested too deeply"
            raise FlowError(f"parameter '{self.name}' holds what JSON cannot have: {problem}") from None
        if isinstance(checked, int) and checked < 0:  # all whole numbers that ops take count something
            raise FlowError(f"parameter '{self.name}' cannot be negative, but is {checked}")
        return checked


# To make an adapter takes longer than to check a value with it.
@functools.lru_cache(maxsize=512)
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


@dataclass(frozen=True)
class Op:
    """A registered op: what it is called, what it works on, and what it takes."""

    name: str
    run: Callable[..., Awaitable[None]]
    states: tuple[type[State], ...]
    reads: frozenset[str]
    uses: frozenset[str]
    writes: frozenset[str]
    parameters: Mapping[str, Parameter]
    aliases: tuple[str, ...]
    deletes: bool
    only_reads: bool

    def works_on(self, state: type[State]) -> bool:
        """Whether a state of this class is one that it takes."""
        return issubclass(state, self.states)

    @property
    def doc(self) -> str:
        """The first line of its docstring."""
        return (inspect.getdoc(self.run) or "").partition("\n")[0]


_ops: dict[str, Op] = {}
_aliases: dict[str, str] = {}


def op(
    *,
    reads: Collection[str] = (),
    writes: Collection[str] = (),
    uses: Collection[str] = (),
    name: str | None = None,
    aliases: Iterable[str] = (),
    deletes: bool = False,
    only_reads: bool = False,
) -> Callable[[Function], Function]:
    """Register a coroutine function as an op; the function itself stays as it is.

    Args:
        reads: Fields of the state that the op needs. The caller gives each of them, or an earlier op writes it.
        writes: Fields that the op sets. Two ops side by side may not write the same field.
        uses: Fields that the op uses if they are set.
        name: The name in flows; default is the name of the function.
        aliases: Other names.
        deletes: Whether it deletes what the request names. A flow with such an op refuses fields that it does not
            know.
        only_reads: Whether it leaves all that is remembered as it is; the log of recalls does not count.

    Raises:
        FlowError: The function is no op, a field is unknown, or the name is taken.
    """

    def register(function: Function) -> Function:
        own = name or function.__name__
        where = f"the op '{own}' ({_origin(function)})"
        states, parameters = _read_signature(function, where, {*reads, *uses, *writes})
        made = Op(
            own, function, states, frozenset(reads), frozenset(uses), frozenset(writes), parameters,
            (*aliases, *reme01.old_names(own)), deletes, only_reads,
        )  # fmt: skip
        for title in (own, *made.aliases):
            holder = _ops.get(_aliases.get(title, title))
            # A module that is imported anew may register its own op again; another one may not.
            if holder is not None and _origin(holder.run) != _origin(function):
                raise FlowError(
                    f"the op '{title}' of {_origin(function)} is already registered by {_origin(holder.run)}; "
                    "give it another name with @op(name=...)"
                )
        _ops[own] = made
        _aliases.update(dict.fromkeys(made.aliases, own))
        return function

    return register


def find(name: str) -> Op:
    """The op of this name, with or without `_op` at its end; names of ReMe 0.1 and ExperienceMaker are known too.

    Raises:
        FlowError: There is none; the nearest name is given.
    """
    load_ops()
    # A name of our own wins over an old one.
    for title in (name, name.removesuffix("_op"), reme01.op(name).name):
        found = _ops.get(_aliases.get(title, title))
        if found is not None:
            return found
    hint = did_you_mean(name.removesuffix("_op"), [*_ops, *_aliases], f"there are: {', '.join(sorted(_ops))}")
    raise FlowError(f"unknown op '{name}'; {hint}")


def all_ops() -> list[Op]:
    """Every op there is, by name."""
    load_ops()
    return [_ops[name] for name in sorted(_ops)]


def _read_signature(
    function: Callable[..., Awaitable[None]], where: str, fields: Collection[str]
) -> tuple[tuple[type[State], ...], dict[str, Parameter]]:
    """The states that an op works on, and its parameters; errors begin with `where`."""
    if not inspect.iscoroutinefunction(function):
        raise FlowError(f"{where} must be an 'async def'")
    hints = typing.get_type_hints(function)
    first, *others = inspect.signature(function).parameters.values()
    members = members_of(hints.get(first.name))
    states = tuple(member for member in members if isinstance(member, type) and issubclass(member, State))
    if not states or not others or others[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise FlowError(f"{where} must take (state: RetrievalState or another State, deps, *, parameters)")
    settings = others[1:]
    if any(p.kind is not inspect.Parameter.KEYWORD_ONLY for p in settings):
        raise FlowError(f"{where} must take its parameters by keyword only: (state, deps, *, parameters)")
    # A wrong name would pass every check of a flow, and the op would fail when it runs.
    for field in fields:
        unknown = [state.__name__ for state in states if field not in state.model_fields]
        if unknown and not field.startswith("extra."):
            raise FlowError(f"{where} names a field that {unknown[0]} lacks; call one of your own 'extra.{field}'")
    return states, {p.name: Parameter(p.name, hints.get(p.name, Any), p.default) for p in settings}


def members_of(annotation: Any) -> tuple[Any, ...]:
    """The types of a union; any other type by itself."""
    return typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)


def _origin(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


@functools.cache
def load_ops() -> None:
    """Import the modules of `HOMES`, then the ops of other distributions. The first call takes about a second.

    Raises:
        FlowError: What another distribution offers cannot be imported.
    """
    for name in HOMES:
        home = importlib.import_module(name)
        for module in pkgutil.iter_modules(getattr(home, "__path__", ()), f"{name}."):
            importlib.import_module(module.name)
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            entry.load()
        except (ImportError, AttributeError) as error:
            where = f"the entry point '{entry.name}' ({entry.value})"
            raise FlowError(f"{where} cannot be loaded: {error}; repair its package, or remove it") from error


def load_modules(names: Iterable[str]) -> None:
    """Import modules, or files (`*.py`), that register ops. Modules may also lie in the working directory.

    Raises:
        FlowError: One cannot be imported; the message says why.
    """
    for name in names:
        try:
            if name.endswith(".py"):
                _load_file(Path(name).expanduser().resolve())
            else:
                # As `python -m` does; a console script has no working directory in its path.
                if (here := str(Path.cwd())) not in sys.path:
                    sys.path.append(here)
                importlib.import_module(name)
        except Exception as error:  # a module that is imported may raise anything
            raise FlowError(f"ops: {name} cannot be loaded: {type(error).__name__}: {error}") from error


def _load_file(path: Path) -> None:
    name = f"reme_core_ops_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # the name ends in .py
    # Known before it runs: dataclasses look up the module in which they are made.
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
