"""The requests of flows over HTTP and MCP: a model for each flow, made from its `input_schema`.

Names, defaults and formats are those of ReMe 0.1, so that its clients work unchanged. Those clients send more than the
documentation of ReMe 0.1 says: `null` for missing text, times in several formats, tool calls nested as in OpenAI's API.
The models here check and document all of that; `reme_core.types` reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Path
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic.fields import FieldInfo

from reme_core.errors import did_you_mean
from reme_core.flows.build import Flow
from reme_core.flows.overrides import MAY_SET, json_schema
from reme_core.flows.state import RetrievalState
from reme_core.given import LARGEST_MEASURE, JsonObject, moment_of
from reme_core.postgres.database import check_workspace
from reme_core.store.tool_calls import unknown_key
from reme_core.types import Role

DEFAULT_WORKSPACE: Final = "default"

NOT_BLANK: Final = r"\S"
WITHOUT_NUL: Final = r"^[^\x00]*$"
_WORKSPACE = r"(?:[^*][\s\S]{0,199}|\*[\s\S]{1,199})"  # up to 200 characters, but not `*`, which means all
_PATH_WORKSPACE = r"^(?:[^*\x00][^\x00]{0,199}|\*[^\x00]{1,199})$"


def _parse_time(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("give a time as YYYY-MM-DD HH:MM:SS or in ISO 8601") from None
    return moment_of(moment).astimezone(UTC)  # since Postgres takes no offsets of 16 hours or more


# JSON has only one type of number, so 3.0 may stand for an integer.
_FROM_WHOLE_FLOAT: Final = BeforeValidator(lambda n: int(n) if isinstance(n, float) and n.is_integer() else n)

WorkspaceId = Annotated[
    str,
    AfterValidator(lambda name: check_workspace(name) if name else DEFAULT_WORKSPACE),
    WithJsonSchema({"type": "string", "maxLength": 200, "pattern": f"^{_WORKSPACE}?$"}),
    Field(description="Whose memory it is; nothing is seen across workspaces. Empty is `default`."),
]
Time = Annotated[datetime, BeforeValidator(_parse_time), Field(strict=True)]
Moment = Annotated[
    str,
    AfterValidator(lambda text: _parse_time(text).isoformat() if text.strip() else None),
    WithJsonSchema({"type": "string", "anyOf": [{"format": "date-time"}, {"const": ""}]}),
    Field(description="`YYYY-MM-DD HH:MM:SS` (UTC), or ISO 8601 with a time zone; empty is none."),
]
PathWorkspace = Annotated[
    str,
    AfterValidator(check_workspace),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 200, "pattern": _PATH_WORKSPACE}),
    Path(description="Whose memory it is; nothing is seen across workspaces."),
]
Integer = Annotated[int, Field(strict=True), _FROM_WHOLE_FLOAT]
TopK = Annotated[int, Field(strict=True, ge=1, le=1000), _FROM_WHOLE_FLOAT]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Measure = Annotated[Number, Field(ge=-LARGEST_MEASURE, le=LARGEST_MEASURE)]
Name = Annotated[str, Field(min_length=1)]
Names = Annotated[list[str] | str, Field(description="Names, as a list or separated by commas.")]


class _Wire(BaseModel):
    model_config = ConfigDict(extra="allow")


class Strict(BaseModel):
    """A body, or a part of one, that refuses fields which it does not know."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False})

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, value: Any) -> Any:
        known = list(cls.model_fields)
        for name in value if isinstance(value, dict) else ():
            if name not in known:
                raise ValueError(
                    f"there is no field '{name}'; " + did_you_mean(name, known, f"it has {', '.join(known)}")
                )
        return value


class ToolCallIn(_Wire):
    """A tool call: `{index, id, type, name, arguments}`, or OpenAI's form with a nested `function`."""

    index: Integer | None = 0
    id: str | None = ""
    type: str | None = "function"
    name: str | None = ""
    arguments: str | dict[str, Any] | None = Field("", description="The arguments, as JSON text or as an object.")
    function: FunctionIn | None = Field(None, description="The same as `name` and `arguments`, as OpenAI nests them.")


class FunctionIn(_Wire):
    """What OpenAI nests in a tool call."""

    name: str | None = ""
    arguments: str | dict[str, Any] | None = ""


class MessageIn(_Wire):
    """A message of a conversation."""

    role: Role | None = "user"
    content: str | list[dict[str, Any]] | None = Field(
        "", description="The text, or content parts of which the text is taken."
    )
    reasoning_content: str | None = ""
    tool_calls: list[ToolCallIn] | None = None
    tool_call_id: str | None = ""
    time_created: Moment | None = Field(None, description="When it was said; default: now.")
    metadata: JsonObject | None = None
    message_id: Name | None = Field(None, description="Messages with the same id are stored once.")
    session_id: str | None = Field("", description="The conversation it belongs to.")
    author: str | None = Field("", description="Who speaks, if the role does not say it.")
    name: str | None = Field("", description="The same as `author`, as OpenAI calls it.")
    user_id: str | None = Field("", description="The person it belongs to.")
    agent_id: str | None = Field("", description="The agent it belongs to.")
    run_id: str | None = Field("", description="The run it belongs to.")
    id: Name | None = Field(None, description="The same as `message_id`.")
    sent_at: Moment | None = Field(None, description="The same as `time_created`.")


class TrajectoryIn(_Wire):
    """One attempt at a task, and how well it went: a score of 1 is a success."""

    task_id: str | None = ""
    messages: list[MessageIn] | None = Field(default_factory=list)
    score: Measure | StrictBool | None = 0.0
    metadata: JsonObject | None = None


class ToolCallResultIn(_Wire):
    """How one call of a tool went."""

    # `_refuse_unknown_keys` refuses them, since it can name the key that was probably meant.
    model_config = ConfigDict(extra="allow", json_schema_extra={"additionalProperties": False})

    tool_name: Name
    create_time: Moment | None = None
    called_at: Moment | None = Field(None, description="The same as `create_time`.")
    input: dict[str, Any] | str | None = None
    output: Any = None
    # Numbers without limits: one that does not fit keeps out its own call, and not the others of the request.
    token_cost: Integer | None = Field(None, description="-1 is unknown.")
    success: StrictBool | None = None
    time_cost: Number | None = Field(None, description="Seconds.")
    summary: str | None = ""
    evaluation: str | None = Field("", description="What the call was good for; without it the model judges.")
    score: Number | None = None
    is_summarized: StrictBool | None = False
    call_hash: str | None = Field("", description="A call with the same hash is counted once.")
    metadata: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, value: Any) -> Any:
        if isinstance(value, dict) and (problem := unknown_key(value)):
            raise ValueError(problem)
        return value


class MemoryRef(_Wire):
    """A memory as a retrieval returned it. Only its id is needed."""

    memory_id: str = Field(min_length=1, validation_alias=AliasChoices("memory_id", "experience_id"))


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


_CONFIG: Final[Any] = Field(None, description=f"For this request alone; it may set {MAY_SET}.")


class FlowRequest(_Wire):
    """The fields that every flow takes. Null is the same as left out, here and in all fields that are not required."""

    workspace_id: WorkspaceId | None = DEFAULT_WORKSPACE
    config: Annotated[dict[str, Any] | None, WithJsonSchema(_or_null(json_schema()))] = _CONFIG


_QUERY_OR_MESSAGES: Final[dict[str, Any]] = {
    "anyOf": [
        {"properties": {"query": {"type": "string", "pattern": NOT_BLANK}}, "required": ["query"]},
        {
            "properties": {
                "messages": {
                    "type": "array",
                    "contains": {
                        "properties": {
                            "role": {"enum": ["user", "assistant", "tool"]},
                            "content": {"type": "string", "pattern": NOT_BLANK},
                        },
                        "required": ["content"],
                    },
                }
            },
            "required": ["messages"],
        },
    ]
}
"""JSON Schema: there is a query, or a message from which a query can be made."""


class DeletionRequest(FlowRequest):
    """A request to a flow that deletes."""

    # `Flow.start` refuses other fields, since it can name the one that was probably meant.
    model_config = ConfigDict(json_schema_extra={"additionalProperties": False})


class OpenRequest(FlowRequest):
    """The fields that every flow takes that deletes nothing. Other fields are passed on to the flow."""

    query: str | None = Field("", description="What is asked; without effect on a flow that asks nothing.")
    messages: list[MessageIn] | None = Field(
        default_factory=list, description="A conversation; without effect on a flow that reads none."
    )
    metadata: JsonObject | None = Field(
        default_factory=dict, description="What else the caller sends; `record_task_memory` reads its `retrieval_id`."
    )


class SearchRequest(OpenRequest):
    """A request that searches the memory."""

    model_config = ConfigDict(json_schema_extra=_QUERY_OR_MESSAGES)


_FIELD_TYPES: Final[Mapping[str, Any]] = {
    "query": str,
    "messages": list[MessageIn],
    "workspace_id": WorkspaceId,
    "src_workspace_id": WorkspaceId,
    "metadata": dict[str, Any],
    "trajectories": list[TrajectoryIn],
    "tool_names": Names,
    "memory_dicts": list[MemoryRef],
    "tool_call_results": Annotated[list[ToolCallResultIn], Field(min_length=1)],
}
"""The types of fields that an `input_schema` cannot describe precisely enough, by name."""

_LIMITS: Final = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "pattern": "pattern",
}
"""The keywords of an `input_schema` that are checked, and pydantic's names for them."""

_PLAIN_TYPES: Final = {"bool", "dict", "float", "int", "list", "str"}
_SAID_OF_PATTERNS: Final = {
    NOT_BLANK: "it is empty; give a text",
    WITHOUT_NUL: "it holds a NUL character (U+0000); remove it",
}
"""What a caller is told whose text does not match; of other patterns, pydantic's message."""

_TYPES: Final[Mapping[str, Any]] = {"string": str, "number": Number, "boolean": StrictBool, "object": dict[str, Any]}

_models: Final[dict[str, type[FlowRequest]]] = {}  # by what they are made of: apps of a process have the same flows


def request_model(flow: Flow) -> type[FlowRequest]:
    """The model of a flow's requests: the fields that all flows take, and those of its `input_schema`."""
    config = json_schema(flow)
    retrieves = issubclass(flow.state, RetrievalState)
    searches = any(step.op.name == "build_query" for step in flow.steps)
    made_of = repr((flow.name, flow.description, flow.input_schema, config, retrieves, searches, flow.deletes))
    if made_of not in _models:
        fields: dict[str, Any] = {}
        for name, schema in flow.input_schema.items():
            # What pydantic keeps to itself, such as `model_config`, is the alias of a field of another name.
            is_taken = hasattr(BaseModel, name) or name.startswith("_")
            attribute = f"field {name}" if is_taken else name
            fields[attribute] = _field(name, schema)
        if "config" not in fields:
            fields["config"] = (Annotated[dict[str, Any] | None, WithJsonSchema(_or_null(config))], _CONFIG)
        if "top_k" not in fields and retrieves:
            fields["top_k"] = (TopK | None, 3)
        title = "".join(part.capitalize() for part in flow.name.split("_"))
        doc = flow.description or f"What the flow {flow.name} takes."
        base = SearchRequest if searches else DeletionRequest if flow.deletes else OpenRequest
        _models[made_of] = create_model(f"{title}Request", __base__=(base,), __doc__=doc, **fields)
    return _models[made_of]


def flow_arguments(body: FlowRequest) -> dict[str, Any]:
    """The arguments for the flow: the fields of the request that were sent and are not null."""
    # For what was not sent, the flow's own defaults apply.
    return body.model_dump(exclude_unset=True, exclude_none=True, by_alias=True)


def describe_problems(errors: Iterable[Mapping[str, Any]]) -> str:
    """The first ten errors that pydantic found, each with its field but without its value."""
    # Values may be private or very long.
    problems = [f"{_field_of(error)}: {_sentence_on(error)}" for error in errors]
    return "; ".join(problems[:10])


def _field_of(error: Mapping[str, Any]) -> str:
    # Where a field may be of several types, pydantic also names the type that it tried, such as `list[…]` or `bool`.
    parts = [str(part) for part in error["loc"]]
    if parts[1:] and (parts[-1] in _PLAIN_TYPES or parts[-1].startswith("constrained-")):
        parts.pop()
    return ".".join(part for part in parts if not part.endswith("]")) or "body"


def _sentence_on(error: Mapping[str, Any]) -> str:
    said_of_pattern = _SAID_OF_PATTERNS.get(error.get("ctx", {}).get("pattern", ""))
    return said_of_pattern or str(error["msg"]).removeprefix("Value error, ")


def _field(name: str, schema: Mapping[str, Any]) -> tuple[Any, FieldInfo]:
    annotation = _FIELD_TYPES.get(name) or _annotation(schema)
    limits: dict[str, Any] = {ours: schema[theirs] for theirs, ours in _LIMITS.items() if theirs in schema}
    about: dict[str, Any] = {"alias": name, "description": schema.get("description") or None}
    base = OpenRequest.model_fields.get(name)
    if schema.get("required") is True:
        return annotation, Field(**limits, **about)
    # Limits belong to the value, and not to null; an integer has its own already.
    limits = {} if schema.get("type") == "integer" else limits
    or_null = (Annotated[annotation, Field(**limits)] if limits else annotation) | None
    if "default" not in schema and base is not None:
        return or_null, Field(default_factory=lambda: base.get_default(call_default_factory=True), **about)
    return or_null, Field(schema.get("default"), **about)


def _annotation(schema: Mapping[str, Any]) -> Any:
    if schema.get("enum"):
        return Literal[tuple(schema["enum"])]
    kind = schema.get("type", "string")
    if kind == "string" and schema.get("format") == "date-time":
        return Moment
    if kind == "array":
        return list[_annotation(schema["items"])] if isinstance(schema.get("items"), Mapping) else list[Any]  # type: ignore[misc]  # a type of the running program
    if kind == "integer":
        least, most = schema.get("minimum", -(2**31)), schema.get("maximum", 2**31 - 1)
        return Annotated[int, Field(strict=True, ge=least, le=most), _FROM_WHOLE_FLOAT]
    return _TYPES.get(str(kind), Any)
