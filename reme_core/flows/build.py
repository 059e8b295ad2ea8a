"""From a flow's text to a flow that can run: every name, parameter and field is checked here, not when it runs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reme_core.errors import ConfigurationError, FlowError, InputError
from reme_core.flow.grammar import Call, Node, Parallel, Sequence, fault, parse
from reme_core.ops import registry
from reme_core.ops.registry import REQUIRED, Op
from reme_core.ops.state import State
from reme_core.settings import OpSettings


@dataclass(frozen=True)
class Step:
    """One op, ready to run: `title` is its name in the text, `parameters` are complete, defaults included."""

    title: str
    op: Op
    parameters: dict[str, Any]
    settings: OpSettings
    position: int = 0

    @property
    def titles(self) -> tuple[str, ...]:
        """The names by which settings may mean it, its own first."""
        return _titles(self.title, self.op)


@dataclass(frozen=True)
class Then:
    """Steps one after the other."""

    steps: tuple[Plan, ...]


@dataclass(frozen=True)
class Beside:
    """Branches side by side."""

    branches: tuple[Plan, ...]


Plan = Step | Then | Beside


@dataclass(frozen=True)
class Flow:
    """A checked flow. `state` is the kind of state it works on."""

    name: str
    text: str
    plan: Plan
    state: type[State]
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=dict)

    def start(self, request: Mapping[str, Any]) -> State:
        """The state that a caller's request begins with.

        Raises:
            InputError: A field that this flow requires is missing, or one does not fit.
        """
        missing = [
            name
            for name, schema in self.input_schema.items()
            if isinstance(schema, Mapping) and schema.get("required") is True and request.get(name) is None
        ]
        if missing:
            raise InputError(f"{', '.join(missing)}: required by {self.name}")
        return self.state.of(request)


def build(
    text: str,
    *,
    name: str = "flow",
    settings: Mapping[str, OpSettings] | None = None,
    description: str = "",
    input_schema: Mapping[str, Any] | None = None,
) -> Flow:
    """Parse and check a flow.

    Args:
        text: Its expression, such as `build_query >> recall >> rerank(top_k=5)`.
        name: What it is called.
        settings: Overrides by op (`settings.op`); what the expression itself says wins over them. One with a
            `backend` gives a name of its own to that op, with other parameters.
        description: One sentence for its callers.
        input_schema: What it takes, by name: `{type, description, required, default}`.

    Raises:
        FlowError: Bad grammar; an unknown op or parameter; a value of the wrong type; an op that reads what nothing
            before it writes; two branches that touch one field; ops of different kinds of state.
        ConfigurationError: A parameter in `settings` does not exist or does not fit.
    """
    try:
        plan = _bind(parse(text), text, settings or {})
        state = _common_state(plan, text)
        _check(plan, text, set(state.inputs()), state)
    except FlowError as error:
        raise FlowError(f"flow '{name}': {error}") from None
    return Flow(name, text, plan, state, description, dict(input_schema or {}))


def check_settings(settings: Mapping[str, OpSettings]) -> None:
    """See that every op that is set exists, whether or not a flow names it.

    Raises:
        ConfigurationError: One does not; the nearest name is given.
    """
    for title, override in settings.items():
        try:
            _settled(registry.find(override.backend or title), override, title)
        except FlowError as error:
            raise ConfigurationError(f"op.{title}: {error}") from None


def steps_of(plan: Plan) -> list[Step]:
    """All steps, in the order of the text."""
    if isinstance(plan, Step):
        return [plan]
    return [step for part in (plan.steps if isinstance(plan, Then) else plan.branches) for step in steps_of(part)]


def _bind(node: Node, text: str, settings: Mapping[str, OpSettings]) -> Plan:
    if isinstance(node, Sequence):
        return Then(tuple(_bind(step, text, settings) for step in node.steps))
    if isinstance(node, Parallel):
        return Beside(tuple(_bind(branch, text, settings) for branch in node.branches))
    return _step(node, text, settings)


def _step(call: Call, text: str, settings: Mapping[str, OpSettings]) -> Step:
    own = settings.get(call.name)
    try:
        op = registry.find(own.backend if own and own.backend else call.name)
    except FlowError as error:
        raise fault(text, call.position, str(error)) from None
    override = next((settings[title] for title in _titles(call.name, op) if title in settings), OpSettings())
    parameters = {p.name: p.default for p in op.parameters.values() if p.default is not REQUIRED}
    parameters.update(_settled(op, override, call.name))
    try:
        parameters.update(checked(op, call.arguments))
    except FlowError as error:
        raise fault(text, call.position, str(error)) from None
    missing = [parameter for parameter in op.parameters if parameter not in parameters]
    if missing:
        raise fault(text, call.position, f"op '{op.name}' needs {missing[0]}: write {op.name}({missing[0]}=...)")
    return Step(call.name, op, parameters, override, call.position)


def _titles(name: str, op: Op) -> tuple[str, ...]:
    return (name, op.name, *op.aliases, *(f"{title}_op" for title in (op.name, *op.aliases)))


def _settled(op: Op, override: OpSettings, title: str) -> dict[str, Any]:
    try:
        return checked(op, override.params)
    except FlowError as error:
        raise ConfigurationError(f"op.{title}.params: {error}") from None


def checked(op: Op, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as an op takes them.

    Raises:
        FlowError: One is unknown (the nearest name is given), or its value does not fit.
    """
    for name in arguments:
        if name not in op.parameters:
            near = difflib.get_close_matches(name, op.parameters, n=1, cutoff=0.5)
            there = f"it takes {', '.join(op.parameters)}" if op.parameters else "it takes none"
            raise FlowError(
                f"op '{op.name}' has no parameter '{name}'; " + (f"did you mean '{near[0]}'?" if near else there)
            )
    return {name: op.parameters[name].check(value) for name, value in arguments.items()}


def _common_state(plan: Plan, text: str) -> type[State]:
    first, *others = steps_of(plan)
    states = first.op.states
    for step in others:
        common = tuple(state for state in states if state in step.op.states)
        if not common:
            raise fault(
                text,
                step.position,
                f"op '{step.title}' works on {step.op.states[0].__name__}, '{first.title}' before it on "
                f"{states[0].__name__}; a flow either retrieves or summarises",
            )
        states = common
    return states[0]


@dataclass
class _Touched:
    reads: dict[str, Step] = field(default_factory=dict)
    writes: dict[str, Step] = field(default_factory=dict)


def _check(plan: Plan, text: str, available: set[str], state: type[State]) -> _Touched:
    """Walk the plan as it will run; `available` grows by what was written, the result says what was touched."""
    touched = _Touched()
    if isinstance(plan, Step):
        for name in sorted(plan.op.reads - available):
            raise fault(text, plan.position, _unwritten(plan, name, state))
        touched.reads.update(dict.fromkeys(plan.op.reads | plan.op.uses, plan))
        touched.writes.update(dict.fromkeys(plan.op.writes, plan))
    elif isinstance(plan, Then):
        for step in plan.steps:
            part = _check(step, text, available, state)
            touched.reads.update(part.reads)
            touched.writes.update(part.writes)
    else:
        branches = [_check(branch, text, set(available), state) for branch in plan.branches]
        for part in branches:
            _collide(touched, part, text)
            touched.reads.update(part.reads)
            touched.writes.update(part.writes)
    available.update(touched.writes)
    return touched


def _collide(left: _Touched, right: _Touched, text: str) -> None:
    """Branches run at the same time: what one of them writes, the other may neither write nor read."""
    for name in sorted(left.writes.keys() & right.writes.keys()):
        step, other = right.writes[name], left.writes[name]
        raise fault(text, step.position, f"'{other.title}' and '{step.title}' both write '{name}' side by side")
    for writer, reader in ((left, right), (right, left)):
        for name in sorted(writer.writes.keys() & reader.reads.keys()):
            step, other = reader.reads[name], writer.writes[name]
            raise fault(
                text,
                step.position,
                f"'{step.title}' reads '{name}' while '{other.title}' writes it side by side; put one after the other",
            )


def _unwritten(step: Step, name: str, state: type[State]) -> str:
    writers = [op.name for op in registry.all_ops() if name in op.writes and state in op.states]
    hint = f"; put one of these before it: {', '.join(writers)}" if writers else ""
    return f"op '{step.title}' reads '{name}', which neither the caller gives nor an op before it writes{hint}"
