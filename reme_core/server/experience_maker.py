"""The endpoints of ExperienceMaker 0.1, before it was ReMe: `/retriever`, `/summarizer`, `/agent` and `/vector_store`.

They run today's flows and answer in yesterday's words. (`/vector_store` has the same form in both, and is a flow.)
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from reme_core.server.errors import ALWAYS, documented
from reme_core.server.route import JsonRoute
from reme_core.server.service import TheAccess, TheService
from reme_core.server.wire import FlowRequest, SearchRequest, TopK, TrajectoryIn, as_request


class RetrieverRequest(SearchRequest):
    """What to look for."""

    top_k: TopK = 1


class SummarizerRequest(FlowRequest):
    """Attempts to learn from."""

    traj_list: list[TrajectoryIn] = Field(default_factory=list)


class AgentRequest(FlowRequest):
    """A request to the agent."""

    query: Annotated[str, Field(pattern=r"\S")]


class RetrieverResponse(BaseModel):
    """What was found, singly and merged."""

    success: bool = True
    experience_list: list[dict[str, Any]]
    experience_merged: str
    metadata: dict[str, Any] = Field(default_factory=dict)


class SummarizerResponse(BaseModel):
    """What was learned."""

    success: bool = True
    experience_list: list[dict[str, Any]]
    deleted_experience_ids: list[str]
    metadata: dict[str, Any] = Field(default_factory=dict)


class AgentResponse(BaseModel):
    """What the agent answered."""

    success: bool = True
    answer: str
    messages: list[dict[str, Any]]
    metadata: dict[str, Any] = Field(default_factory=dict)


def router() -> APIRouter:
    """The endpoints."""
    routes = APIRouter(
        route_class=JsonRoute,
        tags=["ExperienceMaker 0.1"],
        responses=documented(404, 409, 502, *ALWAYS),
        deprecated=True,
    )

    @routes.post("/retriever")
    async def retriever(body: RetrieverRequest, service: TheService, access: TheAccess) -> RetrieverResponse:
        """`retrieve_task_memory` in ExperienceMaker's words."""
        request = as_request(body) | {"query": body.query, "top_k": body.top_k}
        found = await service.execute("retrieve_task_memory", request, access)
        experiences = [as_experience(memory) for memory in found.metadata["memory_list"]]
        return RetrieverResponse(experience_list=experiences, experience_merged=found.answer)

    @routes.post("/summarizer")
    async def summarizer(body: SummarizerRequest, service: TheService, access: TheAccess) -> SummarizerResponse:
        """`summary_task_memory` in ExperienceMaker's words."""
        request = as_request(body)
        request["trajectories"] = request.pop("traj_list", [])
        made = await service.execute("summary_task_memory", request, access)
        return SummarizerResponse(
            experience_list=[as_experience(memory) for memory in made.metadata["memory_list"]],
            deleted_experience_ids=made.metadata.get("deleted_memory_ids", []),
        )

    @routes.post("/agent")
    async def agent(body: AgentRequest, service: TheService, access: TheAccess) -> AgentResponse:
        """`react` in ExperienceMaker's words."""
        said = await service.execute("react", as_request(body), access)
        return AgentResponse(answer=said.answer, messages=said.messages)

    return routes


def as_experience(memory: dict[str, Any]) -> dict[str, Any]:
    """A memory of the wire, in the form that it had then."""
    return {
        "workspace_id": memory["workspace_id"],
        "experience_id": memory["memory_id"],
        "experience_type": "text",
        "when_to_use": memory["when_to_use"],
        "content": memory["content"],
        "score": memory["score"],
        "metadata": {
            "author": memory["author"],
            "created_time": memory["time_created"],
            "modified_time": memory["time_modified"],
            "extra_info": memory["metadata"],
        },
    }
