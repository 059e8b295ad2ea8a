"""Calls of tools as they are reported, and their statistics."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator, model_validator

from reme_core.types import Moment, now


class ToolCallResult(BaseModel):
    """A finished call of a tool.

    `call_hash` makes reporting idempotent: the same hash in one workspace is counted once. If none is given, it is
    computed from the tool's name, input and output, and from the time of the call if that is given.
    """

    model_config = ConfigDict(populate_by_name=True, extra="ignore")

    tool_name: str = Field(min_length=1)
    input: Any = Field(default_factory=dict)
    """The arguments: an object, or text that is no JSON object."""
    output: str = ""
    success: bool | None = None
    """Whether it worked; None means that the output is searched for an error."""
    time_cost: float | None = Field(None, ge=0, allow_inf_nan=False)
    """Seconds."""
    token_cost: int | None = None
    summary: str = ""
    evaluation: str = ""
    score: float | None = Field(None, allow_inf_nan=False)
    """How useful it was, 0 to 1."""
    called_at: Moment = Field(default_factory=now, validation_alias=AliasChoices("called_at", "create_time"))
    is_summarized: bool = False
    call_hash: str = ""
    metadata: dict[str, Any] = Field(default_factory=dict)

    @field_validator("token_cost", mode="after")
    @classmethod
    def _negative_to_none(cls, value: int | None) -> int | None:
        return None if value is None or value < 0 else value

    @field_validator("output", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)

    @field_validator("input", mode="before")
    @classmethod
    def _parse_arguments(cls, value: Any) -> Any:
        # Arguments often come as JSON text, as the model wrote them; of objects the names can be compared.
        if isinstance(value, str):
            try:
                parsed = json.loads(value)
            except ValueError:
                return value
            return parsed if isinstance(parsed, dict) else value
        return {} if value is None else value

    @model_validator(mode="after")
    def _fill_hash(self) -> ToolCallResult:
        if not self.call_hash:
            # The default time would give the same call another hash each time it is reported.
            at = self.called_at.isoformat() if "called_at" in self.model_fields_set else ""
            identity = json.dumps([self.tool_name, self.input, self.output, at], sort_keys=True, default=str)
            self.call_hash = hashlib.sha256(identity.encode()).hexdigest()[:32]
        return self


class ToolStatistics(BaseModel):
    """Statistics over all calls of a tool."""

    tool_name: str
    calls: int
    successes: int
    success_rate: float
    mean_score: float | None = None
    time_p50: float | None = None
    """Median seconds of a call; None if no call has a `time_cost`."""
    time_p95: float | None = None
    tokens_p50: float | None = None
    tokens_p95: float | None = None
    recent_errors: list[str] = Field(default_factory=list)
    """Errors of the five newest calls that failed, newest first."""
    last_called_at: datetime
    not_summarised: int = 0
    """Number of calls since guidance was last made."""
