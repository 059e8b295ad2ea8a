"""Runs flows: a name and a request go in, a response of a fixed form comes out.

Steps run one after the other, branches at once, and each op in a span of OpenTelemetry. The response is that of
ReMe 0.1. The HTTP service, the MCP service and `ReMeApp` all give it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from opentelemetry import trace
from pydantic import BaseModel, Field

from reme_core.flows.build import Flow, Plan, Step
from reme_core.flows.catalog import Catalog
from reme_core.flows.deps import Deps
from reme_core.flows.grammar import Serial
from reme_core.flows.overrides import Overrides
from reme_core.flows.parallel import parallel
from reme_core.flows.state import RetrievalState, State, SummaryState, UpdateResult
from reme_core.store.libraries.calls import add_calls
from reme_core.store.libraries.format import time_text, to_wire
from reme_core.store.logs import logging_for_workspace
from reme_core.types import Message

S = TypeVar("S", bound=State)

_tracer = trace.get_tracer("reme_core.flow")


class Response(BaseModel):
    """What a flow answers.

    Attributes:
        answer: Guidance, a note, or the memories as JSON text.
        messages: In ReMe 0.1's form, what an agent loop was asked, said and did, or the conversation that fits a
            window; empty for all other flows.
        success: Always true; a flow that fails raises an error.
        metadata: `memory_list`, `update_result`, `action_result` …, whichever the flow has.
    """

    answer: str = ""
    messages: list[dict[str, Any]] = Field(default_factory=list)
    success: bool = True
    metadata: dict[str, Any] = Field(default_factory=dict)


class Flows:
    """All flows over one open store."""

    def __init__(self, catalog: Catalog, deps: Deps) -> None:
        self.catalog = catalog
        self._deps = deps

    async def execute(
        self,
        name: str,
        request: Mapping[str, Any],
        *,
        tell: Callable[[str], None] | None = None,
        episode_ids: Sequence[str] = (),
    ) -> Response:
        """Run a flow, and give its response.

        Args:
            name: The name of the flow.
            request: `workspace_id`, `query`, `trajectories` …, whatever the flow takes; other fields reach ops of other
                packages, in `extra`. `config` sets parameters of ops and the language for this request alone (see
                `Overrides`), unless the `input_schema` of the flow has a field of that name.
            tell: Is called with each piece of the answer as a model writes it.
            episode_ids: Recorded episodes that it learns from; see `SummaryState`.

        Raises:
            FlowError: There is no such flow; the nearest name is given.
            InputError: A field that the flow requires is missing, or one does not fit.
        """
        flow, deps = self.catalog.get(name), dataclasses.replace(self._deps, tell=tell)
        if request.get("config") is not None and "config" not in flow.input_schema:
            overrides = Overrides.of(request["config"], deps.settings)
            flow = overrides.apply_to(flow)
            deps = dataclasses.replace(deps, language=overrides.language or deps.language)
            # It would go to `extra` otherwise, where ops of other packages could take it for theirs.
            request = {key: value for key, value in request.items() if key != "config"}
        state = flow.start(request)
        if isinstance(state, SummaryState):
            state.episode_ids = list(episode_ids)
        response = respond(flow, await run(flow, state, deps))
        await add_calls(deps.database, state.workspace_id, response.metadata.get("memory_list", []))
        return response


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
        await _run(flow.plan, state, dataclasses.replace(deps, flow=flow.name))
    return state


async def _run(plan: Plan, state: State, deps: Deps) -> None:
    if isinstance(plan, Step):
        await _run_op(plan, state, deps)
    elif isinstance(plan, Serial):
        for step in plan.steps:
            await _run(step, state, deps)
    else:
        await parallel(_run(branch, state, deps) for branch in plan.branches)


async def _run_op(step: Step, state: State, deps: Deps) -> None:
    with _tracer.start_as_current_span(f"reme.op {step.title}", attributes={"reme.op": step.op.name}):
        try:
            await step.op.run(state, deps.for_op(step.settings), **step.parameters)
        except Exception as error:  # of the op, and raised again
            # A note keeps the error's type and message, which callers and the HTTP service go by.
            error.add_note(f"in the op '{step.title}'")
            raise


def respond(flow: Flow, state: State) -> Response:
    """The response of a flow that has run: the fields that its ops set."""
    # An empty `memory_list` says that nothing was found, so a flow that does not look for memories has none.
    written = {name for step in flow.steps for name in step.op.writes}
    metadata: dict[str, Any] = {}
    if isinstance(state, RetrievalState) and "hits" in written:
        metadata["memory_list"] = [to_wire(memory) for memory in state.memories]
        metadata["retrieval_id"] = state.retrieval_id
    if not isinstance(state, SummaryState):
        messages = [_message_to_wire(message) for message in state.transcript]
        return Response(answer=state.answer, messages=messages, metadata=metadata | state.report)
    answer = state.answer
    if "memories" in written:
        metadata["memory_list"] = [to_wire(memory) for memory in state.memories]
        answer = answer or json.dumps(metadata["memory_list"], ensure_ascii=False)
    if "closing" in written:
        metadata["deleted_memory_ids"] = [close.memory_id for close in state.closing]
    if "update_result" in written:
        metadata["update_result"] = dataclasses.asdict(state.update_result or UpdateResult())
    return Response(answer=answer, metadata=metadata | state.report)


def _message_to_wire(message: Message) -> dict[str, Any]:
    # The fields of a message in ReMe 0.1.
    names = {"role", "content", "reasoning_content", "tool_calls", "tool_call_id", "metadata"}
    return message.model_dump(mode="json", include=names) | {"time_created": time_text(message.sent_at)}
