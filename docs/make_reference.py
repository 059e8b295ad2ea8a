"""Makes the reference pages of the site from the code: settings, HTTP, MCP, the command line, and the tables."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.cli import get_docs_for_click

from reme_core import Settings, types
from reme_core.cli.main import app as command_line
from reme_core.flows.catalog import Catalog
from reme_core.server.http import create_app
from reme_core.server.mcp_tools import tool, tool_names
from reme_core.server.wire import request_model

TABLES = Path(__file__).parents[1] / "reme_core" / "tables.json"
Schema = Mapping[str, Any]


def settings_page() -> str:
    """Every setting with its type, its default and what it means."""
    head = "Each may follow a command as `--set http.port=8010`, stand in the environment or in `.env` as "
    return f"# Settings\n\n{head}`REME_HTTP__PORT=8010`, or in a YAML file (`--config`).\n\n" + "\n".join(
        _sections("", Settings)
    )


def http_page() -> str:
    """Every endpoint with what it takes."""
    document = create_app(Settings()).openapi()
    schemas, by_tag = document["components"]["schemas"], dict[str, list[str]]()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            told = _plain(operation.get("description") or operation["summary"])
            answer = _type(_json_schema(operation["responses"]["200"])) if "200" in operation["responses"] else ""
            parameters = operation.get("parameters", [])
            rows = [_row(p["name"], p["schema"], p["required"], p.get("description", "")) for p in parameters]
            rows += _fields(_json_schema(operation.get("requestBody", {})), schemas)
            lines = [f"### `{method.upper()} {path}`", "", f"{told} *Answer:* {answer}" if answer else told, ""]
            by_tag.setdefault(operation["tags"][0], []).append("\n".join([*lines, *_table("field", rows)]))
    by_tag["Values"] = [
        "\n".join(
            [f"### {name}", "", _plain(schema.get("description", "")), "", *_table("field", _values(name, schema))]
        )
        for name, schema in sorted(schemas.items())
        if "properties" in schema and not name.endswith("Request")
    ]
    parts = [f"## {tag}\n\n" + "\n\n".join(shown) for tag, shown in by_tag.items()]
    return "# HTTP\n\n[The services](../service.md) tells how it is used.\n\n" + "\n\n".join(parts)


def _json_schema(part: Schema) -> Schema:
    """The schema of a body in JSON; nothing where it is none."""
    schema: Schema = part.get("content", {}).get("application/json", {}).get("schema", {})
    return schema


def mcp_page() -> str:
    """The tools that a model is shown by default."""
    catalog, parts = Catalog(Settings()), []
    for name in tool_names(Settings(), catalog):
        flow = catalog.get(name)
        shown = tool(flow, request_model(flow))
        rows = _fields(shown.inputSchema, shown.inputSchema.get("$defs", {}))
        parts.append("\n".join([f"## `{name}`", "", _plain(shown.description or ""), "", *_table("argument", rows)]))
    return "# MCP\n\nThe tools that there are by default ([the services](../service.md#mcp)).\n\n" + "\n\n".join(parts)


def command_page() -> str:
    """Every command with its arguments and options; those of all commands stand at the top alone."""
    root = typer.main.get_command(command_line)
    _keep_whole(root)
    page = get_docs_for_click(obj=root, ctx=typer.Context(root, info_name="reme"), name="reme")
    head, *commands = re.split(r"^(?=##)", page, flags=re.MULTILINE)
    shared = re.findall(r"^\* `--(?:json|set|config|debug|help)\b.*\n", head, re.MULTILINE)
    rest = "".join(commands)
    for line in shared:
        rest = rest.replace(line, "")
    names = ", ".join(f"`{name}`" for name in re.findall(r"`(--\w+)", "".join(shared)))
    head = head.replace("**Commands**:", f"Every command takes {names}.\n\n**Commands**:")
    return head + rest.replace("**Options**:\n\n\n", "")


def _keep_whole(command: Any) -> None:
    """Let lists show the first sentence of each command's help, where typer would cut it."""
    command.short_help = (command.help or "").split("\n\n")[0]
    for inner in getattr(command, "commands", {}).values():
        _keep_whole(inner)


def sql_page() -> str:
    """Every table and view with its columns."""
    parts = []
    for name, relation in json.loads(TABLES.read_text(encoding="utf-8")).items():
        columns = [(f"`{c['name']}`", f"`{c['type']}`", _cell(c["comment"])) for c in relation["columns"]]
        kind = "view" if relation["view"] else "table"
        rows = ["| column | type | |", "|---|---|---|", *(f"| {' | '.join(column)} |" for column in columns)]
        parts.append("\n".join([f"## `reme.{name}`", "", f"*{kind}* {_plain(relation['comment'])}", "", *rows]))
    return "# Tables and views\n\n[SQL](../sql.md) shows what to ask them.\n\n" + "\n\n".join(parts)


def _sections(prefix: str, model: type[BaseModel]) -> Iterator[str]:
    """A table of a section, followed by those of the sections within it."""
    meanings, below = _docstrings(model), []
    if prefix:
        yield f"## `{prefix}`\n\n{_plain(inspect.getdoc(model) or '')}\n"
    rows = []
    for name, field in model.model_fields.items():
        inner = [one for one in _classes(field.annotation) if issubclass(one, BaseModel)]
        if inner:
            below.append(
                (f"{prefix}.{name}".lstrip(".") + (".<name>" if "dict" in str(field.annotation) else ""), inner[0])
            )
            continue
        rows.append(f"| `{name}` | {_default(field)} | {_cell(meanings.get(name, ''))} |")
    yield "\n".join(["| setting | default | |", "|---|---|---|", *rows, ""])
    for name, inner_model in below:
        yield from _sections(name, inner_model)


def _default(field: FieldInfo) -> str:
    """The default of a setting; none for a folder, which depends on the machine."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "" if isinstance(value, Path) else f"`{json.dumps(value, default=str)}`"


def _classes(annotation: Any) -> list[type]:
    """The classes that an annotation is made of."""
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return [annotation]
    return [found for part in getattr(annotation, "__args__", ()) for found in _classes(part)]


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """What stands below the fields of a class, and of those that it derives from."""
    told: dict[str, str] = {}
    for one in reversed([base for base in model.__mro__ if base.__module__.startswith("reme_core")]):
        body = ast.parse(textwrap.dedent(inspect.getsource(one))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, text in zip(body.body, body.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                told[ast.unparse(field.target)] = inspect.cleandoc(str(text.value.value))
    return told


def _fields(schema: Schema, definitions: Mapping[str, Schema]) -> list[str]:
    """A row for each property of an object."""
    schema = definitions.get(schema.get("$ref", "").rsplit("/", 1)[-1], schema)
    needed = schema.get("required", [])
    return [
        _row(name, part, name in needed, part.get("description", ""))
        for name, part in schema.get("properties", {}).items()
    ]


def _values(name: str, schema: Schema) -> list[str]:
    """The rows of an object; what the schema does not tell of its fields, the class of that name does."""
    told = _docstrings(getattr(types, name)) if hasattr(types, name) else {}
    properties = {
        field: {"description": told.get(field, ""), **part} for field, part in schema.get("properties", {}).items()
    }
    return _fields({**schema, "properties": properties}, {})


def _row(name: str, schema: Schema, is_needed: bool, meaning: str) -> str:
    default = schema.get("default")
    told = "required" if is_needed else "" if default in (None, "", [], {}) else f"`{json.dumps(default)}`"
    return f"| `{name}` | {_type(schema)} | {told} | {_cell(meaning)} |"


def _table(first: str, rows: list[str]) -> list[str]:
    return [f"| {first} | type | default | |", "|---|---|---|---|", *rows] if rows else []


def _type(schema: Schema) -> str:
    """The type of a value in words, such as `array of MessageIn`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if schema.get("format") == "date-time" or {"format": "date-time"} in schema.get("anyOf", ()):
        return "time"
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(_type(choice) for choice in choices if choice.get("type") != "null"))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any")) if schema else ""


def _cell(text: str) -> str:
    """Text for a cell of a table."""
    return _plain(" ".join(text.split())).replace("|", "\\|")


def _plain(text: str) -> str:
    """Text in which `<name>` is no markup."""
    return re.sub(r"(`[^`]*`)|<", lambda found: found[1] or "&lt;", text)
