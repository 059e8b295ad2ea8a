"""Makes flows of their texts, and checks names, parameters and fields, so that no flow fails over them when it runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Set
from copy import deepcopy
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property, partial
from itertools import combinations, product
from typing import Any, Final

from reme_core.errors import ConfigurationError, FlowError, InputError, did_you_mean
from reme_core.flows import registry
from reme_core.flows.grammar import Call, Serial, Tree, fault, leaves, parse, replace_leaves
from reme_core.flows.registry import REQUIRED, Op
from reme_core.flows.state import State
from reme_core.settings import OpSettings, reme01

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Step:
    """One op of a flow.

    Attributes:
        title: The name in the text, which may be an alias or a name that the settings give to the op.
        parameters: All of its parameters, defaults included.
        settings: What the settings say about it: a model or a language of its own.
        position: Its offset in the text.
    """

    title: str
    op: Op
    parameters: dict[str, Any]
    settings: OpSettings
    position: int = 0

    @property
    def titles(self) -> tuple[str, ...]:
        """The names under which settings may set it, its own first."""
        return _titles(self.title, self.op)


Plan = Tree[Step]
"""The steps of a flow in the order in which they run."""


@dataclass(frozen=True)
class Flow:
    """A flow that can run; `state` is the class of state that its ops work on."""

    name: str
    text: str
    plan: Plan
    state: type[State]
    description: str = ""
    input_schema: dict[str, dict[str, Any]] = field(default_factory=dict)

    def start(self, request: Mapping[str, Any]) -> State:
        """The state in which the flow begins, made from a caller's request.

        Raises:
            InputError: A field that this flow requires is missing, one does not fit, an unknown one has nearly the name
                of one that it takes, or the flow deletes and does not know one.
        """
        request = self.complete(request)
        self._refuse_mistyped(request)
        missing = [
            name
            for name, schema in self.input_schema.items()
            if schema.get("required") is True and request.get(name) is None
        ]
        if missing:
            raise InputError(f"{', '.join(missing)}: required by {self.name}")
        return self.state.of(request)

    def complete(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """A request, with the `default` of the `input_schema` for each field that it does not give."""
        return dict(request) | {
            name: deepcopy(schema["default"])  # what an op puts into a list is for this request alone
            for name, schema in self.input_schema.items()
            if request.get(name) is None and schema.get("default") is not None
        }

    @cached_property
    def steps(self) -> list[Step]:
        """Its steps, in the order of the text."""
        return leaves(self.plan)

    @cached_property
    def fields(self) -> Set[str]:
        """The fields that a request may have; of a flow that deletes, only those that it reads."""
        read = {name.removeprefix("extra.") for step in self.steps for name in step.op.reads | step.op.uses}
        inputs = self.state.inputs()
        return {"workspace_id", *self.input_schema, *(read & inputs if self.deletes else read | inputs)}

    @property
    def deletes(self) -> bool:
        """Whether it deletes what a request names."""
        return any(step.op.deletes for step in self.steps)

    @property
    def only_reads(self) -> bool:
        """Whether it leaves all that is remembered as it is; not of a flow with ops that do not say so."""
        return all(step.op.only_reads for step in self.steps)

    def refuse_unknown(self, options: Iterable[str]) -> None:
        """Raise an `InputError` for an option that it does not take: it would run, and take no notice of that."""
        known = self.fields | {"config"}
        for option in options:
            if option not in known:
                meant = "top_k" if option == "limit" else option  # `recall` calls it so
                hint = did_you_mean(meant, known, f"there are {', '.join(sorted(known))}")
                raise InputError(f"there is no option {option!r}; {hint}")

    def _refuse_mistyped(self, request: Mapping[str, Any]) -> None:
        # A `userid` would say nothing: the memories of everybody would be found. Of a flow that deletes, any unknown
        # field is refused, which may have been meant to say what to delete; to others, a field may be an op's own.
        known = self.fields
        forms = {name.removesuffix("_id"): name for name in known} | {name: name for name in known}
        for name, value in request.items():
            if name in known | _IN_EVERY_REQUEST or value is None:
                continue
            if near := get_close_matches(name.lower(), forms, n=1, cutoff=_IS_MEANT):
                advice = f"did you mean '{forms[near[0]]}'?"
            elif self.deletes:
                advice = did_you_mean(name, known, f"it takes {', '.join(sorted(known))}")
            else:
                continue
            raise InputError(f"{name}: nothing was done, since {self.name} takes no such field; {advice}")


# ReMe 0.1 sent these with every request; none says what to delete.
_IN_EVERY_REQUEST: Final = frozenset({"query", "messages", "metadata"})
_IS_MEANT: Final = 0.85  # How alike two names are: as `uesr_id` and `user_id`; `query_id` and `parent_id` are less so.


def build(
    text: str,
    *,
    name: str = "flow",
    settings: Mapping[str, OpSettings] | None = None,
    description: str = "",
    input_schema: Mapping[str, dict[str, Any]] | None = None,
) -> Flow:
    """Parse and check a flow.

    Args:
        text: Its expression, such as `build_query >> recall >> rerank(top_k=5)`.
        name: The name of the flow.
        settings: Parameters and models by the name of an op (`settings.op`). Parameters in the text win over them. An
            entry with a `backend` is another name for the op that the backend names.
        description: One sentence for those who call the flow.
        input_schema: The fields of its requests by name, each as `{type, description, required, default}`.

    Raises:
        FlowError: The grammar is wrong; an op or parameter is unknown; a value, or a default of the `input_schema`, is
            of the wrong type; an op reads a field that nothing before it writes; two branches use one field, which one
            of them writes; or the ops have no state in common.
        ConfigurationError: A parameter in `settings` does not exist or does not fit.
    """
    try:
        plan = replace_leaves(parse(text), partial(_bind, text=text, settings=settings or {}))
        state = _common_state(plan, text)
        _check_fields(plan, text, set(state.inputs()), state)
    except FlowError as error:
        raise FlowError(f"flow '{name}': {error}") from None
    flow = Flow(name, text, plan, state, description, dict(input_schema or {}))
    try:
        state.of(flow.complete({}))
    except InputError as error:
        raise FlowError(f"flow '{name}': the input_schema has a default that does not fit; {error}") from None
    return flow


def check_settings(settings: Mapping[str, OpSettings]) -> None:
    """Check the settings of ops, also of those that no flow uses.

    Raises:
        ConfigurationError: There is no such op, or it has no such parameter; the nearest name is given.
    """
    for title, override in settings.items():
        name = name_in_code(title, settings)
        try:
            _set_parameters(registry.find(name), override, title)
        except FlowError as error:
            raise ConfigurationError(f"op.{title}: {error}") from None
        for parameter in override.params:
            if idle := reme01.op(name).parameters.get(parameter, reme01.Successor()).instead:
                log.warning("op.%s.params.%s has no effect: %s", title, parameter, idle)


def _bind(call: Call, text: str, settings: Mapping[str, OpSettings]) -> Step:
    name = name_in_code(call.name, settings)
    try:
        op = registry.find(name)
    except FlowError as error:
        raise fault(text, call.position, str(error)) from None
    successor = reme01.op(name)
    if successor.instead:
        log.warning("the op '%s' has no effect in a flow: %s", call.name, successor.instead)
    # Settings under the name that the text uses win over those under the op's own name and its aliases.
    title = next((title for title in _titles(call.name, op) if title in settings), call.name)
    override = settings.get(title, OpSettings())
    # Defaults, then what an old name stands for, then the settings, then the text: each wins over those before it.
    parameters = {p.name: p.default for p in op.parameters.values() if p.default is not REQUIRED}
    parameters |= {**successor.given, **_set_parameters(op, override, title)}
    try:
        parameters.update(check_arguments(op, call.arguments))
    except FlowError as error:
        raise fault(text, call.position, str(error)) from None
    missing = [parameter for parameter in op.parameters if parameter not in parameters]
    if missing:
        raise fault(text, call.position, f"op '{op.name}' needs {missing[0]}: write {op.name}({missing[0]}=...)")
    return Step(call.name, op, parameters, override, call.position)


def name_in_code(title: str, settings: Mapping[str, OpSettings]) -> str:
    """The name of an op in the code, by the name that the settings may give it."""
    return settings[title].backend or title if title in settings else title


def _titles(name: str, op: Op) -> tuple[str, ...]:
    names = dict.fromkeys((name.removesuffix("_op"), op.name, *op.aliases))
    return (name, *names, *(f"{title}_op" for title in names))


def _set_parameters(op: Op, override: OpSettings, title: str) -> dict[str, Any]:
    try:
        return check_arguments(op, reme01.rename_parameters(override.backend or title, override.params))
    except FlowError as error:
        raise ConfigurationError(f"op.{title}.params: {error}") from None


def check_arguments(op: Op, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Convert arguments to the types of the op's parameters.

    Raises:
        FlowError: A parameter is unknown (the nearest name is given), or its value does not fit.
    """
    for name in arguments:
        if name not in op.parameters:
            hint = did_you_mean(name, op.parameters, f"it takes {', '.join(op.parameters) or 'none'}")
            raise FlowError(f"op '{op.name}' has no parameter '{name}'; {hint}")
    return {name: op.parameters[name].check(value) for name, value in arguments.items()}


def _common_state(plan: Plan, text: str) -> type[State]:
    """The class of state that all ops of the plan work on; of several, the most derived."""
    first, *others = leaves(plan)
    states = first.op.states
    for step in others:
        # An op works on every class that derives from one of its own, so the more derived of two is the common one.
        either = dict.fromkeys((*states, *step.op.states))
        common = tuple(state for state in either if issubclass(state, states) and step.op.works_on(state))
        if not common:
            raise fault(
                text,
                step.position,
                f"op '{step.title}' works on {step.op.states[0].__name__}, '{first.title}' before it on "
                f"{states[0].__name__}; all ops of a flow work on one state",
            )
        states = common
    return states[0]


def _check_fields(plan: Plan, text: str, available: set[str], state: type[State]) -> None:
    """Check that each field has a value when an op reads it; what the plan writes is added to `available`."""
    if isinstance(plan, Step):
        for name in sorted(plan.op.reads - available):
            writers = [op.name for op in registry.all_ops() if name in op.writes and op.works_on(state)]
            hint = f"; put one of these before it: {', '.join(writers)}" if writers else ""
            problem = f"op '{plan.title}' reads '{name}', which neither the caller gives nor an op before it writes"
            raise fault(text, plan.position, problem + hint)
    elif isinstance(plan, Serial):
        for step in plan.steps:
            _check_fields(step, text, available, state)
    else:
        for branch in plan.branches:
            # Each begins with what was there before all of them: nothing says which of them is first.
            _check_fields(branch, text, set(available), state)
        for left, right in combinations(plan.branches, 2):
            for one, other in product(leaves(left), leaves(right)):
                _check_beside(one, other, text)
    available.update(name for step in leaves(plan) for name in step.op.writes)


def _check_beside(one: Step, other: Step, text: str) -> None:
    # They run at the same time, so nothing says whether a field is read before it is written, or after.
    for name in sorted(one.op.writes & other.op.writes):
        problem = f"'{one.title}' and '{other.title}' both write '{name}' side by side; put one after the other"
        raise fault(text, other.position, problem)
    for writer, reader in ((one, other), (other, one)):
        for name in sorted(writer.op.writes & (reader.op.reads | reader.op.uses)):
            does = f"'{reader.title}' reads '{name}' while '{writer.title}' writes it side by side"
            raise fault(text, reader.position, f"{does}; put one after the other")
