"""Embedding by any OpenAI-compatible endpoint; chat stands in `openai_chat`."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, Literal, cast

import numpy as np
import openai
from openai.types import CreateEmbeddingResponse

from reme_core.errors import ModelAnswerError
from reme_core.models.base import InputType, OnCall, Usage, Vectors, normalised, reported
from reme_core.models.endpoint import Endpoint

MAX_CHARACTERS: Final = 8_000
"""What is sent of one text: the common limit is 8,192 tokens, and a Chinese character may be one."""


class OpenAIEmbedder:
    """Embeds by `POST /embeddings`, in concurrent batches, vectors travelling as base64 where the server can.

    Args:
        model: The model's name at the endpoint.
        endpoint: Where it is served.
        dimensions: The width to ask for; sent only when set, since many servers refuse the field.
        batch_size: Texts a request; 0 takes the provider's limit.
        params: Further fields of the request body.
        on_call: Told of every embedding call.
    """

    provider: ClassVar[str] = "openai"
    batch_limit: ClassVar[int] = 128

    def __init__(
        self,
        model: str,
        endpoint: Endpoint,
        *,
        dimensions: int | None = None,
        batch_size: int = 0,
        params: dict[str, Any] | None = None,
        on_call: OnCall | None = None,
    ) -> None:
        self._model = model
        self._endpoint = endpoint
        self._asked = dimensions
        self._width = dimensions
        self._batch = min(batch_size or self.batch_limit, self.batch_limit)
        self._params = dict(params or {})
        self._on_call = on_call
        self._base64 = True

    @property
    def name(self) -> str:
        """The model, with the width where one is asked for: `text-embedding-3-small@512`."""
        return f"{self._model}@{self._asked}" if self._asked else self._model

    @property
    def dimensions(self) -> int | None:
        """The width of the vectors: as asked for, else as the first answer had it."""
        return self._width

    async def embed(self, texts: Sequence[str], input_type: InputType = "passage") -> Vectors:
        """Embed texts; see `Embedder.embed`. The endpoint isn't told of `input_type`: its protocol knows none."""
        if not texts:
            return np.empty((0, self._width or 0), dtype=np.float32)
        clean = [_clean(text) for text in texts]
        with reported(self._on_call, self.provider, self.name, f"embed_{input_type}") as usage:
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(self._request(batch, usage)) for batch in self._batches(clean)]
            except BaseExceptionGroup as failures:
                # One batch has failed and the others were cancelled; its error says it all.
                raise failures.exceptions[0] from None
            return normalised(np.concatenate([task.result() for task in tasks]))

    async def aclose(self) -> None:
        """Give connections back."""
        await self._endpoint.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._endpoint!r})"

    def _batches(self, texts: list[str]) -> Iterator[list[str]]:
        for start in range(0, len(texts), self._batch):
            yield texts[start : start + self._batch]

    async def _request(self, texts: list[str], usage: Usage) -> Vectors:
        async with self._endpoint.session(self._model) as client:
            answer = await self._create(client, texts)
        if not isinstance(answer, CreateEmbeddingResponse):
            raise self._endpoint.not_json(self._model, answer)
        if answer.usage is not None:
            usage.prompt_tokens += answer.usage.prompt_tokens or 0
        return self._vectors(answer, len(texts))

    async def _create(self, client: openai.AsyncOpenAI, texts: list[str]) -> CreateEmbeddingResponse:
        body = {**self._params, **({"dimensions": self._asked} if self._asked else {})}
        encoding: Literal["base64", "float"] = "base64" if self._base64 else "float"
        try:
            return await client.embeddings.create(
                model=self._model, input=texts, encoding_format=encoding, extra_body=body
            )
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            if encoding == "float" or not re.search("encoding|base64", error.message):
                raise
            self._base64 = False
            return await self._create(client, texts)

    def _vectors(self, answer: CreateEmbeddingResponse, count: int) -> Vectors:
        rows = answer.data or []
        if len(rows) != count:
            raise ModelAnswerError(
                f"{self.name} at {self._endpoint.address} gave {len(rows)} vectors for {count} texts; "
                "check that the server embeds each text of a list"
            )
        if sorted(row.index if row.index is not None else -1 for row in rows) == list(range(count)):
            rows = sorted(rows, key=lambda row: row.index)
        vectors = [_decoded(row.embedding) for row in rows]
        widths = {len(vector) for vector in vectors}
        expected = self._width or min(widths)
        if widths != {expected} or not expected:
            raise ModelAnswerError(
                f"{self.name} at {self._endpoint.address} gave vectors {sorted(widths)} wide where {expected} was "
                "expected; set dimensions to the model's width, or leave it out where the server can't choose"
            )
        self._width = expected
        return np.stack(vectors)


def _clean(text: str) -> str:
    # Endpoints refuse empty texts and lone surrogates.
    return text[:MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8") if text.strip() else "-"


def _decoded(embedding: object) -> Vectors:
    """A vector as the server sent it: base64 of little-endian floats, or a plain list where it ignores the encoding."""
    try:
        if isinstance(embedding, str):
            return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float32)
        return np.asarray(cast("list[float]", embedding), dtype=np.float32).reshape(-1)
    except (ValueError, TypeError, binascii.Error):
        raise ModelAnswerError("the embedding endpoint gave a vector that can't be read", raw=str(embedding)) from None
