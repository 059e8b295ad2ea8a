"""The runner: steps in order, branches side by side, one span an op, and errors that surface as themselves."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TypeVar

from opentelemetry import trace

from reme_core.flow.build import Flow, Plan, Step, Then
from reme_core.ops.beside import side_by_side
from reme_core.ops.deps import Deps
from reme_core.ops.state import RetrievalState, State, SummaryState
from reme_core.store.journal import working_for

S = TypeVar("S", RetrievalState, SummaryState)

_tracer = trace.get_tracer("reme_core.flow")


async def run(flow: Flow, state: S, deps: Deps) -> S:
    """Run a flow over a state, which it changes and gives back.

    Branches share the state: the flow was built only if they touch different fields. When one fails its siblings are
    cancelled, and the first error is raised as it was, not inside a group; a note names its op, and others that
    failed in the same moment.
    """
    with (
        _tracer.start_as_current_span(
            f"reme.flow {flow.name}", attributes={"reme.flow": flow.name, "reme.workspace_id": state.workspace_id}
        ),
        working_for(state.workspace_id),
    ):
        await _run(flow.plan, state, replace(deps, flow=flow.name))
    return state


async def _run(plan: Plan, state: State, deps: Deps) -> None:
    if isinstance(plan, Step):
        await _run_op(plan, state, deps)
    elif isinstance(plan, Then):
        for step in plan.steps:
            await _run(step, state, deps)
    else:
        await side_by_side([partial(_run, branch, state, deps) for branch in plan.branches])


async def _run_op(step: Step, state: State, deps: Deps) -> None:
    with _tracer.start_as_current_span(f"reme.op {step.title}", attributes={"reme.op": step.op.name}):
        try:
            await step.op.run(state, deps.for_op(step.settings), **step.parameters)
        except Exception as error:
            error.add_note(f"in the op '{step.title}'")
            raise
