"""Settings of a single request: parameters of ops, the models of ops, and the language.

A request can change nothing but its own answer: it sets numbers within limits, switches and choices.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self

from reme_core.errors import FlowError, InputError, did_you_mean
from reme_core.flows import registry
from reme_core.flows.build import Flow, Step, check_arguments, name_in_code
from reme_core.flows.grammar import replace_leaves
from reme_core.flows.registry import Parameter
from reme_core.settings import OpSettings, Settings, reme01

MAY_SET: Final = "language, op.<name>.params.<parameter>, op.<name>.language and op.<name>.llm"
"""The keys that a request may set, in words."""
MOST: Final = 1_000
"""The largest whole number: with a larger `top_k`, for example, one caller would make all others wait."""
FARTHEST: Final = 10_000.0
"""The largest distance from zero of other numbers."""

_LANGUAGE: Final = Parameter("language", Settings.model_fields["language"].annotation, "auto")
_NUMBERS: Final = (bool, int, float, types.NoneType, ...)  # the last as in `tuple[int, ...]`
_DEEPEST: Final = 4  # op.<name>.params.<parameter>; a mapping below is the parameter's value
_SHAPES: Final[dict[Any, dict[str, Any]]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": 0, "maximum": MOST},
    float: {"type": "number", "minimum": -FARTHEST, "maximum": FARTHEST},
}
_NULL: Final = {"type": "null"}


@dataclass(frozen=True)
class Overrides:
    """What one request sets.

    Attributes:
        language: Empty if the request sets none.
        ops: By the names that the request used for them.
    """

    language: str = ""
    ops: Mapping[str, OpSettings] = field(default_factory=dict)

    @classmethod
    def of(cls, config: object, settings: Settings) -> Self:
        """Read a request's `config`, which ExperienceMaker merged over all its settings, keys of models included.

        Args:
            config: Keys with dots, such as `{"op.rerank.params.top_k": 5}`, or nested objects, or both.
            settings: Those of the service; they name the chat models, and may give ops other names.

        Raises:
            InputError: A key is unknown or not for requests, or a value does not fit; the message names the key.
        """
        if not isinstance(config, Mapping):
            raise InputError('config: give an object, such as {"op.rerank.params.top_k": 5}')
        language, ops = "", dict[str, OpSettings]()
        for path, value in _paths(config):
            if value is None:  # the same as not given, as in all requests
                continue
            try:
                match path:
                    case ("language",):
                        language = _LANGUAGE.check(value)
                    case ("op", name, "params", parameter):
                        own = ops.setdefault(name, OpSettings())
                        own.params |= _check_parameter(name, parameter, value, settings)
                    case ("op", name, "language"):
                        registry.find(name_in_code(name, settings.op))
                        ops.setdefault(name, OpSettings()).language = _LANGUAGE.check(value)
                    case ("op", name, "llm"):
                        registry.find(name_in_code(name, settings.op))
                        if not isinstance(value, str) or value not in ("default", *settings.llm):
                            raise FlowError("the service has no chat model of this name")
                        ops.setdefault(name, OpSettings()).llm = value
                    case _:
                        raise FlowError(_refusal(path))
            except FlowError as error:
                raise InputError(f"config.{'.'.join(path)}: {error}") from None
        return cls(language, ops)

    def apply_to(self, flow: Flow) -> Flow:
        """A copy of the flow with these settings. Those of ops that are not in the flow have no effect."""
        return replace(flow, plan=replace_leaves(flow.plan, self._adjust)) if self.ops else flow

    def _adjust(self, step: Step) -> Step:
        own = next((self.ops[title] for title in step.titles if title in self.ops), None)
        if own is None:
            return step
        settings = step.settings.model_copy(
            update={"llm": own.llm or step.settings.llm, "language": own.language or step.settings.language}
        )
        return replace(step, parameters={**step.parameters, **own.params}, settings=settings)


def json_schema(flow: Flow | None = None) -> dict[str, Any]:
    """The JSON schema of `config`: the languages, and each key with dots that takes a number or a switch.

    Args:
        flow: Only keys that have an effect on this flow; default is all keys.
    """
    properties: dict[str, Any] = {"language": {"enum": ["auto", "en", "zh", None]}}
    for op in registry.all_ops() if flow is None else [step.op for step in flow.steps]:
        for parameter in op.parameters.values():
            shapes = [_SHAPES[part] for part in registry.members_of(parameter.annotation) if part in _SHAPES]
            if shapes:
                properties[f"op.{op.name}.params.{parameter.name}"] = {"anyOf": [*shapes, _NULL]}
    return {"type": "object", "properties": properties, "additionalProperties": _NULL}


def _paths(config: Mapping[Any, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in config.items():
        path = (*above, *str(key).split("."))
        if isinstance(value, Mapping) and value and len(path) < _DEEPEST:
            yield from _paths(value, path)
        else:
            # JSON has one sort of number, so 3.0 is an integer there.
            yield path, int(value) if isinstance(value, float) and value.is_integer() else value


def _check_parameter(title: str, old_name: str, value: Any, settings: Settings) -> dict[str, Any]:
    """The parameter by the name that it has here, with its value."""
    called = name_in_code(title, settings.op)
    op = registry.find(called)
    if idle := reme01.op(called).parameters.get(old_name, reme01.Successor()).instead:
        raise FlowError(f"it has no effect here: {idle}")
    (name,) = reme01.rename_parameters(called, {old_name: value})
    (fit,) = check_arguments(op, {name: value}).values()
    # Free text could be a path or an address.
    if not _has_no_free_text(op.parameters[name].annotation):
        raise FlowError("it takes any text, which only the service's settings may give")
    if not _is_within_limits(fit):
        raise FlowError(f"whole numbers go from 0 to {MOST:,} here, others from -{FARTHEST:,.0f} to {FARTHEST:,.0f}")
    return {name: fit}


def _has_no_free_text(annotation: Any) -> bool:
    """Whether values of this type can hold no free text, keys of mappings aside."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal or annotation in _NUMBERS:
        return True
    return bool(inside) and all(_has_no_free_text(part) for part in (inside[1:] if origin is dict else inside))


def _is_within_limits(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_is_within_limits(part) for part in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return all(_is_within_limits(part) for part in value)
    if isinstance(value, int):
        return 0 <= value <= MOST
    return not isinstance(value, float) or -FARTHEST <= value <= FARTHEST


def _refusal(path: tuple[str, ...]) -> str:
    others = {"language", "op"} - {path[0]}
    return f"a request cannot set this; {did_you_mean(path[0], others, f'it may set {MAY_SET}')}"
