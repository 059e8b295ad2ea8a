"""Answers in JSON from models that are asked for it in words: the request, and reading the answer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from reme_core.errors import ModelAnswerError
from reme_core.models.base import Answer
from reme_core.text.answers import parse_json

_MAX_ECHO: Final = 4_000  # characters of an unusable answer that are shown to the model with the request to correct it

Wire = dict[str, Any]
"""A part of a request in the form of the API."""


def instruction(schema: type[BaseModel]) -> str:
    """The request for an answer that fits `schema`."""
    text = json.dumps(schema.model_json_schema(), ensure_ascii=False)
    return f"Answer with JSON alone, no other text, in the form of this JSON schema:\n{text}"


def with_instruction(wire: list[Wire], schema: type[BaseModel]) -> list[Wire]:
    """The conversation with the schema in words at its end, for servers that have no field for it."""
    # It is added to the last message of the user: some chat templates refuse two user messages in a row.
    if wire and wire[-1].get("role") == "user" and isinstance(wire[-1].get("content"), str):
        return [*wire[:-1], {**wire[-1], "content": f"{wire[-1]['content']}\n\n{instruction(schema)}"}]
    return [*wire, {"role": "user", "content": instruction(schema)}]


async def correct_once(
    answer: Callable[[list[Wire]], Awaitable[Answer]], wire: list[Wire], schema: type[BaseModel]
) -> Answer:
    """The answer to a conversation; an answer that cannot be used is shown to the model once, to be corrected.

    Raises:
        ModelAnswerError: The correction cannot be used either.
    """
    try:
        return await answer(wire)
    except ModelAnswerError as unusable:
        echo = {"role": "assistant", "content": unusable.raw[:_MAX_ECHO] or "(no answer)"}
        request = f"That answer cannot be used: {unusable}\n\n{instruction(schema)}"
        return await answer([*wire, echo, {"role": "user", "content": request}])


def read_answer(text: str, schema: type[Answer]) -> Answer:
    """The answer in a text; what it leaves null, where something else should stand, counts as left out.

    Raises:
        ModelAnswerError: The text has no JSON, or none that fits.
    """
    value = parse_json(text)
    if isinstance(value, list):
        # Models often give the list alone where the schema has an object with one list.
        fields = schema.model_json_schema().get("properties", {})
        lists = [name for name, form in fields.items() if form.get("type") == "array"]
        value = {lists[0]: value} if len(lists) == 1 else value
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'answer'}: {problem['msg']}" for problem in error.errors()[:10]
        )
    with suppress(ValidationError):
        return schema.model_validate(_without_nulls(value))
    raise ModelAnswerError(f"the model's answer does not fit {schema.__name__}: {problems}", raw=text)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(own) for name, own in value.items() if own is not None}
    return [_without_nulls(own) for own in value if own is not None] if isinstance(value, list) else value
