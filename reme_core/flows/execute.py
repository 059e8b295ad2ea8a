"""Flows as callers see them: a name and a request go in, one response of a fixed form comes out.

The response has the form that ReMe 0.1 gave it, so the HTTP service, MCP and `ReMeApp` all hand out the same thing.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, Field

from reme_core.flow.build import Flow, steps_of
from reme_core.flow.catalog import Catalog
from reme_core.flow.overrides import Overrides
from reme_core.flow.run import run
from reme_core.ops.deps import Deps
from reme_core.ops.state import RetrievalState, State
from reme_core.store.libraries import to_wire


class Response(BaseModel):
    """What a flow gives back.

    Attributes:
        answer: What it says: guidance, a note, or the memories as JSON text.
        messages: What an agent loop said and did; empty for all other flows.
        success: Always true; a flow that fails raises.
        metadata: `memory_list`, `update_result`, `action_result` …, as the flow has them.
    """

    answer: str = ""
    messages: list[dict[str, Any]] = Field(default_factory=list)
    success: bool = True
    metadata: dict[str, Any] = Field(default_factory=dict)


class Flows:
    """All flows over one open store.

    Args:
        catalog: The flows there are.
        deps: What their ops stand on.
    """

    def __init__(self, catalog: Catalog, deps: Deps) -> None:
        self.catalog = catalog
        self._deps = deps

    async def execute(
        self, name: str, request: Mapping[str, Any], *, tell: Callable[[str], None] | None = None
    ) -> Response:
        """Run a flow.

        Args:
            name: Which one.
            request: `workspace_id`, `query`, `trajectories` …, as the flow takes them; what it doesn't know is passed
                to ops from elsewhere. A `config` sets parameters of ops and the language for this request alone
                (see `Overrides`), unless the flow's own `input_schema` has a field of that name.
            tell: Hears the answer piece by piece, where an op lets a model write it.

        Raises:
            FlowError: There is no such flow; the nearest name is given.
            InputError: A field that the flow requires is missing, or one does not fit.
        """
        flow, deps = self.catalog.get(name), dataclasses.replace(self._deps, tell=tell)
        if request.get("config") is not None and "config" not in flow.input_schema:
            overrides = Overrides.of(request["config"], deps.settings)
            flow = overrides.applied_to(flow)
            deps = dataclasses.replace(deps, language=overrides.language or deps.language)
            request = {key: value for key, value in request.items() if key != "config"}
        state: Any = flow.start(request)
        return respond(flow, await run(flow, state, deps))


def written_by(flow: Flow) -> frozenset[str]:
    """The fields of the state that the ops of a flow set."""
    return frozenset().union(*(step.op.writes for step in steps_of(flow.plan)))


def respond(flow: Flow, state: State) -> Response:
    """Say what a finished flow found, by the fields that its ops set."""
    written = written_by(flow)
    metadata: dict[str, Any] = {}
    if isinstance(state, RetrievalState):
        if "hits" in written:
            metadata["memory_list"] = [to_wire(memory) for memory in state.memories]
            metadata["retrieval_id"] = state.retrieval_id
        messages = [message.model_dump(mode="json") for message in state.transcript]
        return Response(answer=state.answer, messages=messages, metadata=metadata | state.report)
    answer = state.answer
    if "memories" in written:
        metadata["memory_list"] = [to_wire(memory) for memory in state.memories]
        answer = answer or json.dumps(metadata["memory_list"], ensure_ascii=False)
    if "closing" in written:
        metadata["deleted_memory_ids"] = [close.memory_id for close in state.closing]
    if "update_result" in written:
        metadata["update_result"] = dataclasses.asdict(state.update_result)
    return Response(answer=answer, metadata=metadata | state.report)
