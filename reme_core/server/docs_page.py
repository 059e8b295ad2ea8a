"""The page `/docs`: every endpoint with its parameters and answers, made from the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import jinja2

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader(__package__, "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
_TEMPLATES.globals["as_json"] = partial(json.dumps, indent=1, ensure_ascii=False)


def docs_page(document: Mapping[str, Any]) -> str:
    """The OpenAPI document as HTML, for people; programs take `/openapi.json`."""
    by_tag: dict[str, list[dict[str, Any]]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            answers = {status: answer["description"] for status, answer in operation["responses"].items()}
            told = operation | {"method": method, "path": path, "answers": answers}
            by_tag.setdefault((operation.get("tags") or ["other"])[0], []).append(told)
    return _TEMPLATES.get_template("docs.html").render(document, by_tag=by_tag)
