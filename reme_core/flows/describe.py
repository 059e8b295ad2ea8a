"""Shows flows to people: as a tree, as a Mermaid chart, and as a list with ops and parameters."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from rich.console import Console
from rich.tree import Tree

from reme_core.errors import FlowError
from reme_core.flows.build import Flow, Plan, Step
from reme_core.flows.catalog import Catalog
from reme_core.flows.grammar import Serial
from reme_core.flows.registry import REQUIRED, all_ops


@dataclass(frozen=True)
class FlowDescription:
    """One flow as `reme flows` lists it; `problem` says why it cannot be built, and is empty if it can."""

    name: str
    text: str
    description: str
    input_schema: dict[str, dict[str, Any]]
    problem: str = ""

    @property
    def inputs(self) -> dict[str, str]:
        """The fields of its requests, each with its type and its default, or `required`, as text."""
        return {name: _describe_input(schema) for name, schema in self.input_schema.items()}


@dataclass(frozen=True)
class OpDescription:
    """One op as `reme flows` lists it; `parameters` has the type and default of each, as text."""

    name: str
    doc: str
    state: str
    reads: list[str]
    writes: list[str]
    parameters: dict[str, str]
    aliases: list[str]


def draw(flow: Flow) -> str:
    """Draw the flow as a tree of text, from top to bottom. Branches that run at once are below a `side by side`.

    Example:
        >>> from reme_core.flows.build import build
        >>> print(draw(build("build_query >> recall", name="find")))
        find
        ├── build_query
        └── recall
    """
    tree = Tree(flow.name)
    _add_to_tree(tree, flow.plan)
    # Wide and without colours: the text is the same in a pipe and in a terminal.
    drawn = io.StringIO()
    console = Console(file=drawn, width=200, color_system=None, highlight=False, markup=False)
    console.print(tree)
    return "\n".join(line.rstrip() for line in drawn.getvalue().splitlines())


def mermaid(flow: Flow) -> str:
    """Write the flow as a Mermaid chart, which GitHub and most documentation tools draw."""
    lines = ["flowchart LR"]
    start = "start((query))" if "query" in flow.state.inputs() else "start((input))"
    _draw_arrows(flow.plan, [start], lines, count(1))
    return "\n".join(lines)


def describe_flows(catalog: Catalog) -> list[FlowDescription]:
    """All flows, with the problem of each that cannot be built."""
    described = []
    for name in catalog.names():
        made = catalog.content(name)
        try:
            catalog.get(name)
            problem = ""
        except FlowError as error:
            problem = str(error)
        described.append(FlowDescription(name, made.flow_content.strip(), made.description, made.input_schema, problem))
    return described


def describe_ops() -> list[OpDescription]:
    """All ops, each with what it reads, writes and takes."""
    return [
        OpDescription(
            name=op.name,
            doc=op.doc,
            state=" or ".join(state.__name__ for state in op.states),
            reads=sorted(op.reads | op.uses),
            writes=sorted(op.writes),
            parameters={
                name: parameter.type_name + ("" if parameter.default is REQUIRED else f" = {parameter.default!r}")
                for name, parameter in op.parameters.items()
            },
            aliases=list(op.aliases),
        )
        for op in all_ops()
    ]


def _describe_input(schema: Mapping[str, Any]) -> str:
    kind = " | ".join(map(str, schema["enum"])) if schema.get("enum") else str(schema.get("type", "string"))
    if schema.get("required") is True:
        return f"{kind}, required"
    return f"{kind} = {schema['default']!r}" if "default" in schema else kind


def _label(step: Step) -> str:
    """The step with those of its parameters that differ from the op's defaults."""
    changed = {name: value for name, value in step.parameters.items() if value != step.op.parameters[name].default}
    inside = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in changed.items())
    return f"{step.title}({inside})" if inside else step.title


def _add_to_tree(tree: Tree, plan: Plan) -> None:
    if isinstance(plan, Step):
        tree.add(_label(plan))
    elif isinstance(plan, Serial):
        for step in plan.steps:
            _add_to_tree(tree, step)
    else:
        beside = tree.add("side by side")
        for branch in plan.branches:
            if isinstance(branch, Serial):
                # Without a node of its own, its steps would look like further branches.
                _add_to_tree(beside.add("in order"), branch)
            else:
                _add_to_tree(beside, branch)


def _draw_arrows(plan: Plan, before: list[str], lines: list[str], numbers: Iterator[int]) -> list[str]:
    """Add arrows to `lines`, from each node in `before` to the plan; returns the nodes at which the plan ends."""
    if isinstance(plan, Step):
        node = f"n{next(numbers)}"
        label = _label(plan).replace('"', "#quot;")  # as Mermaid writes a quotation mark within a label
        lines.extend(f'  {end} --> {node}["{label}"]' for end in before)
        return [node]
    if isinstance(plan, Serial):
        for step in plan.steps:
            before = _draw_arrows(step, before, lines, numbers)
        return before
    return [end for branch in plan.branches for end in _draw_arrows(branch, before, lines, numbers)]
