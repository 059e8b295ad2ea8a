"""What a single request may set otherwise than the service: parameters of ops, their model, and the language.

ExperienceMaker took a `config` with each request, `{"op.rerank_op.params.top_k": 5}`, and merged it over all its
settings, addresses and keys of models included. Here a request sets what changes its own answer and nothing else:
numbers within limits, switches and choices. Free text could be a path or an address; no parameter takes it from here.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self

from reme_core.errors import FlowError, InputError
from reme_core.flow.build import Beside, Flow, Plan, Step, Then, checked, steps_of
from reme_core.ops import registry
from reme_core.ops.registry import Op, Parameter
from reme_core.settings import OpSettings, Settings

MAY_SET: Final = "language, op.<name>.params.<parameter>, op.<name>.language and op.<name>.llm"
"""The keys that a request may set, for people."""
MOST: Final = 1_000
"""The largest whole number; as for `top_k`, more would only make others wait."""
FARTHEST: Final = 10_000.0
"""How far from zero other numbers may be."""

_LANGUAGE: Final = Parameter("language", Settings.model_fields["language"].annotation, "auto")
_NUMBERS: Final = (bool, int, float, types.NoneType, ...)
_DEEPEST: Final = 4
_SHAPES: Final[dict[Any, dict[str, Any]]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": 0, "maximum": MOST},
    float: {"type": "number", "minimum": -FARTHEST, "maximum": FARTHEST},
}
_NULL: Final = {"type": "null"}


@dataclass(frozen=True)
class Overrides:
    """What one request sets. `language` is empty where it sets none; `ops` go by the names that the request used."""

    language: str = ""
    ops: Mapping[str, OpSettings] = field(default_factory=dict)

    @classmethod
    def of(cls, config: object, settings: Settings) -> Self:
        """Read a request's `config`.

        Args:
            config: Keys with dots, `{"op.rerank.params.top_k": 5}`, or objects within each other, or both.
            settings: Those of the service, which name variants of ops, and the chat models there are.

        Raises:
            InputError: A key is unknown or not for requests, or a value does not fit; the message names the key.
        """
        if not isinstance(config, Mapping):
            raise InputError('config: give an object, such as {"op.rerank.params.top_k": 5}')
        language, ops = "", dict[str, OpSettings]()
        for path, value in _leaves(config):
            if value is None:  # as everywhere, the same as not given
                continue
            try:
                match path:
                    case ("language",):
                        language = _LANGUAGE.check(value)
                    case ("op", name, "params", parameter):
                        own = ops.setdefault(name, OpSettings())
                        own.params[parameter] = _parameter(_op(name, settings), parameter, value)
                    case ("op", name, "language"):
                        _op(name, settings)
                        ops.setdefault(name, OpSettings()).language = _LANGUAGE.check(value)
                    case ("op", name, "llm"):
                        _op(name, settings)
                        ops.setdefault(name, OpSettings()).llm = _chat(value, settings)
                    case _:
                        raise FlowError(_refusal(path))
            except FlowError as error:
                raise InputError(f"config.{'.'.join(path)}: {error}") from None
        return cls(language, ops)

    def applied_to(self, flow: Flow) -> Flow:
        """The flow as this request wants it. What it sets for ops that are not in the flow has no effect."""
        return replace(flow, plan=self._applied(flow.plan)) if self.ops else flow

    def _applied(self, plan: Plan) -> Plan:
        if isinstance(plan, Then):
            return Then(tuple(self._applied(step) for step in plan.steps))
        if isinstance(plan, Beside):
            return Beside(tuple(self._applied(branch) for branch in plan.branches))
        own = next((self.ops[title] for title in plan.titles if title in self.ops), None)
        return plan if own is None else _adjusted(plan, own)


def json_schema(flow: Flow | None = None) -> dict[str, Any]:
    """What a `config` may hold, for OpenAPI: the languages, and every key with dots that takes a number or a switch.

    Args:
        flow: Leave out what has no effect on this one.
    """
    properties: dict[str, Any] = {"language": {"enum": ["auto", "en", "zh", None]}}
    for op in registry.all_ops() if flow is None else [step.op for step in steps_of(flow.plan)]:
        for parameter in op.parameters.values():
            shapes = [_SHAPES[part] for part in _alternatives(parameter.annotation) if part in _SHAPES]
            if shapes:
                properties[f"op.{op.name}.params.{parameter.name}"] = {"anyOf": [*shapes, _NULL]}
    return {"type": "object", "properties": properties, "additionalProperties": _NULL}


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)


def _adjusted(step: Step, own: OpSettings) -> Step:
    settings = step.settings.model_copy(
        update={"llm": own.llm or step.settings.llm, "language": own.language or step.settings.language}
    )
    return replace(step, parameters={**step.parameters, **own.params}, settings=settings)


def _leaves(config: Mapping[Any, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in config.items():
        path = (*above, *str(key).split("."))
        if isinstance(value, Mapping) and value and len(path) < _DEEPEST:
            yield from _leaves(value, path)
        else:
            # JSON has one sort of number, so 3.0 is an integer there.
            yield path, int(value) if isinstance(value, float) and value.is_integer() else value


def _op(name: str, settings: Settings) -> Op:
    variant = settings.op.get(name)
    return registry.find(variant.backend if variant and variant.backend else name)


def _parameter(op: Op, name: str, value: Any) -> Any:
    (fit,) = checked(op, {name: value}).values()
    if not _is_tame(op.parameters[name].annotation):
        raise FlowError("it takes any text, which only the service's settings may give")
    if not _is_within(fit):
        raise FlowError(f"whole numbers go from 0 to {MOST:,} here, others from -{FARTHEST:,.0f} to {FARTHEST:,.0f}")
    return fit


def _chat(name: Any, settings: Settings) -> str:
    if not isinstance(name, str) or name not in settings.llm:
        raise FlowError("the service has no chat model of this name")
    return name


def _is_tame(annotation: Any) -> bool:
    """Whether a type leaves no room for free text, but in the keys of a mapping."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal or annotation in _NUMBERS:
        return True
    return bool(inside) and all(_is_tame(part) for part in (inside[1:] if origin is dict else inside))


def _is_within(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_is_within(part) for part in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return all(_is_within(part) for part in value)
    if isinstance(value, int):
        return 0 <= value <= MOST
    return not isinstance(value, float) or -FARTHEST <= value <= FARTHEST


def _refusal(path: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(path[0], ("language", "op"), n=1, cutoff=0.6)
    hint = f"; did you mean '{near[0]}'?" if near and near[0] != path[0] else ""
    return f"a request cannot set this{hint or f'; it may set {MAY_SET}'}"
