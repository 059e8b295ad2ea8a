"""The tools of the MCP service: which flows a model sees, with schemas that have only what a model needs.

Every tool costs tokens in every request of a client. So by default there are few tools, and none of them deletes
anything; the setting `mcp.tools` names others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcp import types

from reme_core.errors import ConfigurationError, did_you_mean
from reme_core.flows.build import Flow
from reme_core.flows.catalog import Catalog
from reme_core.flows.execute import Response
from reme_core.given import LARGEST_MEASURE
from reme_core.server.wire import FlowRequest
from reme_core.settings import Settings
from reme_core.types import SCOPES

DEFAULT_TOOLS: Final = (
    "retrieve_personal_memory", "retrieve_task_memory", "retrieve_tool_memory", "summary_personal_memory",
    "summary_task_memory", "record_task_memory", "add_memory", "list_memory",
)  # fmt: skip
"""The built-in flows that are tools by default."""

_DETAILS: Final = frozenset({*SCOPES, "index", "metadata", "reasoning_content"})
_EMPTY: Final[tuple[object, ...]] = (None, "", [], {})
_BOUNDLESS: Final = (LARGEST_MEASURE, -LARGEST_MEASURE)  # limits that no model comes near
_REF: Final = re.compile(r"#/\$defs/(\w+)")


def tool_names(settings: Settings, catalog: Catalog) -> list[str]:
    """The flows that are tools: those that `mcp.tools` names; by default `DEFAULT_TOOLS` and all flows in the settings.

    Raises:
        ConfigurationError: `mcp.tools` names an unknown flow.
    """
    asked = settings.mcp.tools
    if asked == "all":
        return catalog.names()
    if asked == "default":
        return [name for name in catalog.names() if name in DEFAULT_TOOLS or name in settings.flow]
    for name in asked:
        if name not in catalog.names():
            advice = did_you_mean(name, catalog.names(), "`reme flows` lists all flows")
            raise ConfigurationError(f"mcp.tools names '{name}', but there is no such flow; {advice}")
    return list(asked)


def tool(flow: Flow, model: type[FlowRequest]) -> types.Tool:
    """A flow as a tool. The `model` validates its calls, and accepts more fields than the tool shows."""
    schema = model.model_json_schema()
    # The tool has the description already. `anyOf` demands a query or messages; a flow whose query is required says so.
    schema = {name: value for name, value in schema.items() if name not in ("description", "anyOf")}
    required = schema.get("required", [])
    shown = [name for name in flow.input_schema if name != "messages" or "query" not in required]
    schema = _short({**schema, "properties": {name: schema["properties"][name] for name in shown}})
    schema["$defs"] = _used_definitions(schema)
    return types.Tool(
        name=flow.name,
        description=flow.description,
        inputSchema={name: value for name, value in schema.items() if value not in _EMPTY},
        outputSchema=_short({**Response.model_json_schema(), "description": ""}),
        annotations=types.ToolAnnotations(
            readOnlyHint=flow.only_reads, destructiveHint=flow.deletes, openWorldHint=False
        ),
    )


def _short(schema: Any) -> Any:
    """A schema without what a model does not need: titles, empty defaults, and other names and forms of fields."""
    if isinstance(schema, list):
        return [_short(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    needless = ("title", "pattern", "maxLength")
    kept = {name: value for name, value in schema.items() if name not in needless and value not in _BOUNDLESS}
    if kept.get("description") == "":
        del kept["description"]
    if kept.get("default", "") in _EMPTY:
        kept.pop("default", None)
    if kept.get("additionalProperties") is True:
        del kept["additionalProperties"]
    if options := kept.pop("anyOf", None):  # the usual form comes first
        return _short({**options[0], **kept})
    if isinstance(properties := kept.get("properties"), Mapping):
        named = {name: part for name, part in properties.items() if not _is_alias(part)}
        kept["properties"] = {name: _short(part) for name, part in named.items()}
    if isinstance(definitions := kept.get("$defs"), Mapping):
        kept["$defs"] = {name: _without_details(_short(part)) for name, part in definitions.items()}
    return {name: value if name in ("properties", "$defs") else _short(value) for name, value in kept.items()}


def _without_details(definition: dict[str, Any]) -> dict[str, Any]:
    """A definition without the scope, which a model gives once in a request, and without fields for programs only."""
    shown = {name: part for name, part in definition.get("properties", {}).items() if name not in _DETAILS}
    return definition | {"properties": shown}


def _is_alias(part: Mapping[str, Any]) -> bool:
    return str(part.get("description", "")).startswith("The same")


def _used_definitions(schema: Mapping[str, Any]) -> dict[str, Any]:
    definitions: Mapping[str, Any] = schema.get("$defs", {})

    def reach(part: Any, seen: frozenset[str]) -> Iterator[str]:
        for name in set(_REF.findall(str(part))) - seen:
            yield name
            yield from reach(definitions[name], seen | {name})

    used = set(reach(schema["properties"], frozenset()))
    return {name: definition for name, definition in definitions.items() if name in used}
