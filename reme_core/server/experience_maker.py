"""The endpoints of ExperienceMaker 0.1, which ReMe grew out of: `/retriever`, `/summarizer` and `/agent`.

They run today's flows and answer in ExperienceMaker's format. Its fourth endpoint, `/vector_store`, is a flow, since
its format is still the same.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter
from pydantic import BaseModel, Field

from reme_core.given import JsonObject
from reme_core.server.errors import COMMON_STATUSES, openapi_errors
from reme_core.server.route import JsonRoute
from reme_core.server.service import TheAccess, TheService
from reme_core.server.wire import NOT_BLANK, OpenRequest, SearchRequest, TopK, TrajectoryIn, flow_arguments


class RetrieverRequest(SearchRequest):
    """What to look for."""

    top_k: TopK | None = 1


class SummarizerRequest(OpenRequest):
    """Attempts to learn from."""

    traj_list: list[TrajectoryIn] | None = Field(default_factory=list)


class AgentRequest(OpenRequest):
    """A request to the agent."""

    query: Annotated[str, Field(pattern=NOT_BLANK)]


class RetrieverResponse(BaseModel):
    """What was found, singly and merged."""

    success: bool = True
    experience_list: list[dict[str, Any]]
    experience_merged: str
    metadata: JsonObject = Field(default_factory=dict)


class SummarizerResponse(BaseModel):
    """What was learned."""

    success: bool = True
    experience_list: list[dict[str, Any]]
    deleted_experience_ids: list[str]
    metadata: JsonObject = Field(default_factory=dict)


class AgentResponse(BaseModel):
    """What the agent answered."""

    success: bool = True
    answer: str
    messages: list[dict[str, Any]]
    metadata: JsonObject = Field(default_factory=dict)


router = APIRouter(
    route_class=JsonRoute,
    tags=["ExperienceMaker 0.1"],
    responses=openapi_errors(404, 409, 502, *COMMON_STATUSES),
    deprecated=True,
)


@router.post("/retriever")
async def retriever(body: RetrieverRequest, service: TheService, access: TheAccess) -> RetrieverResponse:
    """`retrieve_task_memory` in ExperienceMaker's format."""
    request = {"query": "", "top_k": 1} | flow_arguments(body)
    response = await service.execute("retrieve_task_memory", request, access)
    experiences = [_experience(memory) for memory in response.metadata["memory_list"]]
    return RetrieverResponse(
        experience_list=experiences, experience_merged=response.answer, metadata=_other(response.metadata)
    )


@router.post("/summarizer")
async def summarizer(body: SummarizerRequest, service: TheService, access: TheAccess) -> SummarizerResponse:
    """`summary_task_memory` in ExperienceMaker's format."""
    request = flow_arguments(body)
    request = {"trajectories": request.pop("traj_list", [])} | request  # what comes under ReMe's name is learned, too
    response = await service.execute("summary_task_memory", request, access)
    return SummarizerResponse(
        experience_list=[_experience(memory) for memory in response.metadata["memory_list"]],
        deleted_experience_ids=response.metadata.get("deleted_memory_ids", []),
        metadata=_other(response.metadata),
    )


@router.post("/agent")
async def agent(body: AgentRequest, service: TheService, access: TheAccess) -> AgentResponse:
    """`react` in ExperienceMaker's format."""
    response = await service.execute("react", flow_arguments(body), access)
    return AgentResponse(answer=response.answer, messages=response.messages, metadata=_other(response.metadata))


def _other(metadata: dict[str, Any]) -> dict[str, Any]:
    """What a flow tells beside its memories: the retrieval's id, or what it went without."""
    return {name: value for name, value in metadata.items() if name not in ("memory_list", "deleted_memory_ids")}


_IN_METADATA: Final = ("author", "created_time", "modified_time", "extra_info")


def _experience(memory: dict[str, Any]) -> dict[str, Any]:
    """A memory of a flow's response, in ExperienceMaker's format."""
    # A memory that was loaded from ExperienceMaker's library has all of this in its metadata, as it stood there.
    metadata = {name: value for name, value in memory["metadata"].items() if name not in _IN_METADATA}
    extra_info = memory["metadata"].get("extra_info")
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
            "extra_info": metadata | (extra_info if isinstance(extra_info, dict) else {}),
        },
    }
