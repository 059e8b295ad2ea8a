"""Calls of tools in Postgres: each is stored once; the view `tool_statistics` has their statistics."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from reme_core.errors import InputError, did_you_mean
from reme_core.given import AnyJson, Count, JsonObject, Measure, Moment, Observed, json_text
from reme_core.postgres.database import Database
from reme_core.store import rows
from reme_core.store.sql import ENSURE_WORKSPACE, NUMBERS, load
from reme_core.text.ids import stable_id
from reme_core.text.plain import json_object
from reme_core.text.redact import redact
from reme_core.types import Kind, Memory, now

_COLUMNS = (
    "call_hash", "tool_name", "input", "output", "success", "error", "time_cost", "token_cost", "summary", "evaluation",
    "score", "called_at", "summarised_at", "metadata",
)  # fmt: skip
_SQL = load("tool.sql", columns=", ".join(_COLUMNS))
_NO_OUTPUT: Final = "no output"

LISTED_CALLS: Final = 100
"""So many of its newest calls a tool's memory is given out with; ReMe 0.1 kept as many."""


class ToolCallResult(Observed):
    """A finished call of a tool.

    A call that is reported twice is counted once: calls of a workspace with the same `call_hash` are the same call. If
    no hash is given, it is computed from the tool's name, input and output, and from `called_at` if that is given.
    """

    model_config = ConfigDict(extra="forbid")

    tool_name: str = Field(min_length=1)
    input: AnyJson = Field(default_factory=dict)
    """The arguments: an object, or text that is no JSON object."""
    output: str = ""
    success: bool | None = None
    """Whether the call worked; if None, the output is searched for an error."""
    time_cost: Annotated[Measure, Field(ge=0)] | None = None
    """Seconds."""
    token_cost: Count | None = None
    summary: str = ""
    evaluation: str = ""
    score: Measure | None = None
    """How useful the call was, 0 to 1."""
    called_at: Moment = Field(default_factory=now)
    is_summarized: bool = False
    call_hash: str = ""
    metadata: JsonObject = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _rename_time(cls, value: Any) -> Any:
        # ReMe 0.1 has the time of a call under `create_time`; where it was not told, it writes "".
        if not isinstance(value, Mapping) or "create_time" not in value:
            return value
        rest = {name: own for name, own in value.items() if name != "create_time"}
        return {"called_at": value["create_time"], **rest} if value["create_time"] != "" else rest

    @field_validator("token_cost", mode="after")
    @classmethod
    def _negative_to_none(cls, value: int | None) -> int | None:
        # ReMe 0.1 writes -1 where the cost is not known.
        return None if value is None or value < 0 else value

    @field_validator("output", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return value if isinstance(value, str) else "" if value is None else json_text(value)

    @field_validator("input", mode="before")
    @classmethod
    def _parse_arguments(cls, value: Any) -> Any:
        # Arguments often come as JSON text, as the model wrote them. As an object, their names can be compared.
        if isinstance(value, str):
            return value if (parsed := json_object(value)) is None else parsed
        return {} if value is None else value

    @model_validator(mode="after")
    def _fill_hash(self) -> ToolCallResult:
        if not self.call_hash:
            # Not the default time, which differs each time the same call is reported.
            at = self.called_at.isoformat() if "called_at" in self.model_fields_set else ""
            identity = json.dumps([self.tool_name, self.input, self.output, at], sort_keys=True, default=str)
            self.call_hash = hashlib.sha256(identity.encode()).hexdigest()[:32]
        return self


Call = tuple[ToolCallResult, str]
"""A call and its error, which is empty if it worked."""


def parse_call(value: Mapping[str, Any] | ToolCallResult) -> ToolCallResult:
    """A call from the values that were reported; the error for an unknown key names the nearest one."""
    if isinstance(value, ToolCallResult):
        return value
    if not isinstance(value, Mapping):
        raise InputError(f"a call is a ToolCallResult or a dict of its fields, not {value!r:.60}")
    if problem := unknown_key(value):
        raise InputError(problem)
    return ToolCallResult(**value)


def unknown_key(call: Mapping[str, Any]) -> str:
    """The message for a key that calls do not have; empty if all keys are known."""
    known = ["create_time", *ToolCallResult.model_fields]
    name = next((name for name in call if name not in known), None)
    return "" if name is None else f"unknown key '{name}'; {did_you_mean(name, known, f'a call has {known}')}"


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
    avg_token_cost: float = 0.0
    """Mean over the newest 20 calls, as in ReMe 0.1; 0 if nothing is known. The same holds for the next two."""
    avg_time_cost: float = 0.0
    avg_score: float = 0.0


async def record(database: Database, workspace: str, calls: Sequence[Call]) -> list[str]:
    """Store calls, all or none, of several with one hash the first; returns the hashes of those that were new."""
    async with database.write_transaction(workspace) as conn:  # with the lock, so that no erasure passes a call by
        await conn.execute(ENSURE_WORKSPACE, {"workspace": workspace})
        return await insert(conn, workspace, redact(calls, database.settings.redact))


async def insert(conn: AsyncConnection[Any], workspace: str, calls: Sequence[Call]) -> list[str]:
    """Store calls within a transaction; see `record`."""
    written = rows.first_by((_row(call, error) for call, error in calls), lambda row: row["call_hash"])
    for row in written.values():
        rows.check_json(f"the call of tool {row['tool_name']!r}", row)
    sequence = {"sequence": "reme.tool_call_result_number_seq", "count": len(written)}
    ((numbers,),) = await (await conn.execute(NUMBERS, sequence)).fetchall()
    # Numbered as they were reported: times are often told in whole seconds, and a retry comes after what failed.
    numbered = [row | {"number": number} for row, number in zip(written.values(), sorted(numbers), strict=True)]
    # All writers insert in the order of the hashes: else two of them could deadlock on the same calls.
    values = {"workspace": workspace, "rows": Jsonb(sorted(numbered, key=lambda row: row["call_hash"]))}
    return [row[0] for row in await (await conn.execute(_SQL["insert_calls"], values)).fetchall()]


async def judge(database: Database, workspace: str, calls: Sequence[ToolCallResult]) -> None:
    """Store the judgement of calls: their `summary`, `evaluation` and `score`."""
    clean = redact(calls, database.settings.redact)
    judged = [call.model_dump(include={"call_hash", "summary", "evaluation", "score"}) for call in clean]
    await database.execute(workspace, _SQL["judge_calls"], {"workspace": workspace, "rows": Jsonb(judged)})


async def statistics(database: Database, workspace: str, tools: Sequence[str] | None = None) -> list[ToolStatistics]:
    """Statistics of the named tools, or of all tools, in the order of their names."""
    values = {"workspace": workspace, "tools": list(tools) if tools is not None else None}
    found = await database.fetch(workspace, _SQL["statistics"], values)
    # The statement has its columns in the order of the fields.
    return [ToolStatistics.model_construct(**dict(zip(ToolStatistics.model_fields, row, strict=True))) for row in found]


async def newest_calls(
    database: Database, workspace: str, tools: Sequence[str], *, limit: int
) -> dict[str, list[Call]]:
    """The newest `limit` calls of each tool, oldest first."""
    values = {"workspace": workspace, "tools": list(tools), "limit": limit}
    found: dict[str, list[Call]] = {tool: [] for tool in tools}
    for row in await database.fetch(workspace, _SQL["newest_calls"], values):
        fields = dict(zip(_COLUMNS, row, strict=True))
        error, summarised_at = fields.pop("error"), fields.pop("summarised_at")
        call = ToolCallResult.model_construct(**fields, is_summarized=summarised_at is not None)
        found[call.tool_name].append((call, error))
    return found


async def waiting_calls(database: Database, workspace: str, tools: Sequence[str] | None = None) -> dict[str, list[str]]:
    """The hashes of the calls that no guidance was made from yet, of each of the named tools, or of all tools."""
    values = {"workspace": workspace, "tools": list(tools) if tools is not None else None}
    return dict(await database.fetch(workspace, _SQL["waiting_calls"], values))


def first_id(tool: str) -> str:
    """The id of the first guidance for a tool."""
    return stable_id("tool", tool)


def memory_without_guidance(tool: str, workspace: str) -> Memory:
    """The memory of a tool that has calls and no guidance: an empty one, with the id that the guidance will get."""
    return Memory(kind=Kind.TOOL, memory_id=first_id(tool), workspace_id=workspace, subject=tool, when_to_use=tool)


async def guidance_ids(database: Database, workspace: str, tools: Sequence[str]) -> list[str]:
    """Ids of the memories with the guidance for these tools."""
    found = await database.fetch(workspace, _SQL["guidance_of"], {"workspace": workspace, "tools": list(tools)})
    return [row[0] for row in found]


def _row(call: ToolCallResult, error: str) -> dict[str, Any]:
    row = call.model_dump(mode="json", include=set(_COLUMNS))
    # A failed call may have no output, as after a time-out; without an error it would count as one that worked.
    error = error or ("" if call.success else _NO_OUTPUT)
    return row | {"error": error, "summarised_at": now().isoformat() if call.is_summarized else None}
