"""One call of a tool, as it is reported: what went in, what came out, and what it cost."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator, model_validator

from reme_core.schema import Moment, now


class ToolCallResult(BaseModel):
    """A finished call of a tool.

    `call_hash` makes reporting idempotent: the same hash in one workspace is counted once. Where none is given it is
    made of the tool, its input, its output, and the time of the call where that is told.
    """

    model_config = ConfigDict(populate_by_name=True, extra="ignore")

    tool_name: str = Field(min_length=1)
    input: Any = Field(default_factory=dict)
    """The arguments: an object, or text as it was sent."""
    output: str = ""
    success: bool | None = None
    """Whether it worked; where that is not told, the output is asked for an error."""
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
    def _negative_is_unknown(cls, value: int | None) -> int | None:
        return None if value is None or value < 0 else value

    @field_validator("output", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)

    @field_validator("input", mode="before")
    @classmethod
    def _parsed(cls, value: Any) -> Any:
        # Arguments often come as JSON text, as a model wrote them; as an object their names can be compared.
        if isinstance(value, str):
            try:
                parsed = json.loads(value)
            except ValueError:
                return value
            return parsed if isinstance(parsed, dict) else value
        return {} if value is None else value

    @model_validator(mode="after")
    def _hashed(self) -> ToolCallResult:
        if not self.call_hash:
            at = self.called_at.isoformat() if "called_at" in self.model_fields_set else ""
            told = json.dumps([self.tool_name, self.input, self.output, at], sort_keys=True, default=str)
            self.call_hash = hashlib.sha256(told.encode()).hexdigest()[:32]
        return self


class ToolStatistics(BaseModel):
    """How a tool fares, over all its calls."""

    tool_name: str
    calls: int
    successes: int
    success_rate: float
    mean_score: float | None = None
    time_p50: float | None = None
    """Seconds a call, the median; None where no call told."""
    time_p95: float | None = None
    tokens_p50: float | None = None
    tokens_p95: float | None = None
    recent_errors: list[str] = Field(default_factory=list)
    """In the five newest calls that failed, newest first."""
    last_called_at: datetime
    not_summarised: int = 0
    """Calls since guidance was last made."""
