"""The page `/docs`: every endpoint with its parameters and answers, made from the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any, Final

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "code,pre{font:14px/1.4 ui-monospace,monospace}pre{overflow:auto}summary{cursor:pointer;padding:.3rem 0}"
)


def docs_page(document: Mapping[str, Any]) -> str:
    """The OpenAPI document as HTML, for people; programs take `/openapi.json`."""
    by_tag: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["other"])[0]
            by_tag.setdefault(tag, []).append(_operation_html(method, path, operation))
    parts = [f"<h2>{escape(tag)}</h2>{''.join(shown)}" for tag, shown in by_tag.items()]
    schemas = document.get("components", {}).get("schemas", {})
    forms = "".join(_details(name, f"<pre>{_json(schema)}</pre>") for name, schema in sorted(schemas.items()))
    info = document["info"]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style>"
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info.get('description', ''))}"
        f' <a href="openapi.json">openapi.json</a></p>{"".join(parts)}<h2>schemas</h2>{forms}</html>'
    )


def _operation_html(method: str, path: str, operation: Mapping[str, Any]) -> str:
    told = f"<p>{escape(operation.get('description', ''))}</p>"
    for parameter in operation.get("parameters", ()):
        needed = " (required)" if parameter.get("required") else ""
        meaning = escape(parameter.get("description", ""))
        told += f"<p><code>{escape(parameter['name'])}</code> in {parameter['in']}{needed} {meaning}</p>"
    if body := operation.get("requestBody"):
        told += f"<p>Body:</p><pre>{_json(body['content'])}</pre>"
    answers = {status: answer.get("description", "") for status, answer in operation["responses"].items()}
    told += f"<p>Answers:</p><pre>{_json(answers)}</pre>"
    head = f"<code>{method.upper()} {escape(path)}</code> {escape(operation.get('summary', ''))}"
    return f"<details><summary>{head}</summary>{told}</details>"


def _details(name: str, inside: str) -> str:
    return f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>{inside}</details>'


def _json(value: Any) -> str:
    return escape(json.dumps(value, indent=1, ensure_ascii=False))
