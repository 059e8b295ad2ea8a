"""Runs a flow: steps one after the other, branches at once, each op in a span of OpenTelemetry."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TypeVar

from opentelemetry import trace

from reme_core.flows.build import Flow, Plan, Step
from reme_core.flows.deps import Deps
from reme_core.flows.grammar import Serial
from reme_core.flows.parallel import parallel
from reme_core.flows.state import State
from reme_core.store.logs import logging_for_workspace

S = TypeVar("S", bound=State)

_tracer = trace.get_tracer("reme_core.flow")


async def run(flow: Flow, state: S, deps: Deps) -> S:
    """Run a flow on a state, which its ops change; returns the same state.

    Branches share the state: a flow whose branches use the same field is not built. If an op fails, those beside it are
    cancelled, and its error is raised as it is, with a note that names the op.
    """
    with (
        _tracer.start_as_current_span(
            f"reme.flow {flow.name}", attributes={"reme.flow": flow.name, "reme.workspace_id": state.workspace_id}
        ),
        logging_for_workspace(state.workspace_id),
    ):
        await _run(flow.plan, state, replace(deps, flow=flow.name))
    return state


async def _run(plan: Plan, state: State, deps: Deps) -> None:
    if isinstance(plan, Step):
        await _run_op(plan, state, deps)
    elif isinstance(plan, Serial):
        for step in plan.steps:
            await _run(step, state, deps)
    else:
        await parallel([partial(_run, branch, state, deps) for branch in plan.branches])


async def _run_op(step: Step, state: State, deps: Deps) -> None:
    with _tracer.start_as_current_span(f"reme.op {step.title}", attributes={"reme.op": step.op.name}):
        try:
            await step.op.run(state, deps.for_op(step.settings), **step.parameters)
        except Exception as error:
            # A note keeps the error's type and message, which callers and the HTTP service go by.
            error.add_note(f"in the op '{step.title}'")
            raise
