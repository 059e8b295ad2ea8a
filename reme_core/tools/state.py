"""The state that the ops of tool memory read and write."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from reme_core.flows.state import SummaryState
from reme_core.settings import Names


class ToolState(SummaryState):
    """Calls of tools to be stored, or the names of tools to make guidance for."""

    tool_names: Names = Field(default_factory=list)
    tool_call_results: list[dict[str, Any]] = Field(default_factory=list)
