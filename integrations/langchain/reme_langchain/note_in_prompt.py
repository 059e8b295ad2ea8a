"""Shows a note to a chat model and to nobody else.

An agent's state, a request's messages and a model's input are streamed to front ends: by the stream modes of LangGraph,
by `astream_events`, by tracers. So the note is put in at a lower level: in the methods by which a chat model calls its
provider.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import fields
from typing import Any, Final, NamedTuple, cast

from langchain.agents.middleware import ModelRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from reme_core.turn import NOTE_METADATA, Position

_METHODS: Final = (
    "_generate", "_agenerate", "_stream", "_astream", "_stream_chat_model_events", "_astream_chat_model_events",
)  # fmt: skip
_SHARED: Final = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")


class PlacedNote(NamedTuple):
    """A note, its position in the prompt, and the name of the middleware that puts it there."""

    text: str
    position: Position
    name: str


# For a model that makes itself anew when it is given tools: copied or constructed again, it has lost its notes.
_last_shown: Final[ContextVar[tuple[PlacedNote, ...]]] = ContextVar("reme_notes", default=())


def show_note(request: ModelRequest[Any], note: PlacedNote) -> ModelRequest[Any]:
    """A request whose model is shown the note, even if other middleware replaces the model afterwards."""
    values = {field.name: getattr(request, field.name) for field in fields(request)}
    notes = (*(request.notes if isinstance(request, _RequestWithNotes) else ()), note)
    shown = _RequestWithNotes(**values)
    object.__setattr__(shown, "notes", notes)
    return shown.override(model=request.model)


def place_note(messages: Sequence[BaseMessage], note: PlacedNote) -> list[BaseMessage]:
    """The messages with the note: before the words of the user's last one, or at the end of the system message.

    If the note is there already, they are returned as they are.
    """
    shown = list(messages)
    kind = HumanMessage if note.position == "user" else SystemMessage
    places = [place for place, message in enumerate(shown) if isinstance(message, kind)]
    if not places:
        return [kind(note.text, additional_kwargs=_mark(note)), *shown]
    place = places[-1] if kind is HumanMessage else places[0]
    message = shown[place]
    if note.name in message.additional_kwargs.get(_MARK, ()):
        return shown
    content: Any
    if isinstance(message.content, str):
        parts = [note.text, message.content] if kind is HumanMessage else [message.content, note.text]
        content = "\n\n".join(part for part in parts if part)
    else:
        part = {"type": "text", "text": note.text}
        content = [part, *message.content] if kind is HumanMessage else [*message.content, part]
    marks = message.additional_kwargs | _mark(note, *message.additional_kwargs.get(_MARK, ()))
    shown[place] = message.model_copy(update={"content": content, "additional_kwargs": marks})
    return shown


[_MARK] = NOTE_METADATA


def _mark(note: PlacedNote, *others: str) -> dict[str, Any]:
    return {_MARK: [*others, note.name]}


class _RequestWithNotes(ModelRequest[Any]):
    notes: tuple[PlacedNote, ...] = ()

    def override(self, **overrides: Any) -> ModelRequest[Any]:
        if (model := overrides.get("model")) is not None:
            if isinstance(model, BaseChatModel):
                overrides["model"] = _model_with_notes(model, self.notes)
            else:  # a runnable that hides its model, so the note stands in the messages
                messages = overrides.get("messages", self.messages)
                overrides["messages"] = functools.reduce(place_note, self.notes, messages)
        changed = super().override(**overrides)
        object.__setattr__(changed, "notes", self.notes)
        return changed


def _model_with_notes(model: BaseChatModel, notes: tuple[PlacedNote, ...]) -> BaseChatModel:
    """A model that shares the state of the given one, and puts notes into each prompt."""
    shown = object.__new__(_class_with_notes(getattr(type(model), "reme_class", type(model))))
    for name in _SHARED:
        object.__setattr__(shown, name, getattr(model, name))
    object.__setattr__(shown, "reme_notes", notes)
    _last_shown.set(notes)
    return shown


@functools.cache
def _class_with_notes(kind: type[BaseChatModel]) -> type[Any]:
    # It has the name of the model's class, because serialisation and tracing show it. The notes are in a slot, because
    # `__dict__` is shared with the model. The answer depends on the note, so it must not come from a cache.
    own = {name: _method_with_notes(kind, name) for name in _METHODS if _is_own(kind, name)}
    names = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    made: Any = type(kind)(kind.__name__, (kind,), {**names, **own, "__slots__": ("reme_notes",)})
    made.reme_class = kind
    made.cache = property(lambda _: False)
    return cast(type[Any], made)


def _is_own(kind: type[BaseChatModel], name: str) -> bool:
    """Whether a class overrides a method of `BaseChatModel`, which looks at this to see what a model can do."""
    method = getattr(kind, name, None)
    return method is not None and method is not getattr(BaseChatModel, name, None)


def _method_with_notes(kind: type[BaseChatModel], name: str) -> Callable[..., Any]:
    method = getattr(kind, name)

    @functools.wraps(method)
    def place_and_call(self: Any, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        notes = getattr(self, "reme_notes", None) or _last_shown.get()
        return method(self, functools.reduce(place_note, notes, messages), *args, **kwargs)

    return place_and_call
