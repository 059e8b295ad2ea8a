"""Embedding by any OpenAI-compatible endpoint; for chat see `openai_chat`."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal, cast

import numpy as np
import openai
from openai.types import CreateEmbeddingResponse

from reme_core.errors import ModelAnswerError, ModelRefusedError
from reme_core.models.base import LEAST_CHARACTERS, TOO_MUCH, InputType, OnCall, RemoteModel, Usage, Vectors, normalise
from reme_core.models.endpoint import Endpoint, text_of_error

MAX_CHARACTERS: Final = 8_000
"""How much of one text is sent."""
# The common limit is 8,192 tokens, and a Chinese character may be one token. Many models have one of 512.


class OpenAIEmbedder(RemoteModel):
    """Embeds by `POST /embeddings`, in concurrent batches.

    Without `dimensions`, the width to ask for, it is left to the model; a `batch_size` of 0 is the provider's limit.
    """

    provider: ClassVar[str] = "openai"
    base_url: ClassVar[str] = "https://api.openai.com/v1"
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
        # `dimensions` is sent only if it was asked for: many servers refuse the field.
        asked = {"dimensions": dimensions} if dimensions else {}
        super().__init__(model, endpoint, params={**(params or {}), **asked}, on_call=on_call)
        self.name = f"{model}@{dimensions}" if dimensions else model
        self.dimensions = dimensions
        """The width of the vectors: the one asked for, or else that of the first answer."""
        self._batch_size = min(batch_size or self.batch_limit, self.batch_limit)
        # Base64 takes about a third of the bytes. A server that refuses it is asked for plain lists from then on.
        self._use_base64 = True

    async def embed(self, texts: Sequence[str], input_type: InputType = "passage") -> Vectors:
        """Embed texts; see `Embedder.embed`. Queries and passages are embedded alike: the API has no field for that."""
        if not texts:
            return np.empty((0, self.dimensions or 0), dtype=np.float32)
        clean, size = [_clean(text) for text in texts], self._batch_size
        batches = [clean[start : start + size] for start in range(0, len(clean), size)]
        with self._report(f"embed_{input_type}") as usage:
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(self._request_parts(batch, usage)) for batch in batches]
            except BaseExceptionGroup as failures:
                # One batch has failed, and the others were cancelled because of it.
                raise failures.exceptions[0] from None
            return normalise(np.concatenate([task.result() for task in tasks]))

    async def _request_parts(self, texts: list[str], usage: Usage) -> Vectors:
        """The vectors of a batch; what is too much for the server is asked for in halves, and of a text the first."""
        try:
            return await self._request(texts, usage)
        except ModelRefusedError as refusal:
            if not TOO_MUCH.search(str(refusal)) or (len(texts) == 1 and len(texts[0]) < LEAST_CHARACTERS):
                raise
        if len(texts) == 1:
            return await self._request_parts([texts[0][: len(texts[0]) // 2]], usage)
        middle = len(texts) // 2
        first = await self._request_parts(texts[:middle], usage)
        return np.concatenate([first, await self._request_parts(texts[middle:], usage)])

    async def _request(self, texts: list[str], usage: Usage) -> Vectors:
        async with self._endpoint.session(self._model) as client:
            answer = await self._create(client, texts)
        if not isinstance(answer, CreateEmbeddingResponse):
            raise self._endpoint.not_json_error(self._model, answer)
        self._endpoint.check(self._model, answer)
        tokens = getattr(answer.usage, "prompt_tokens", None)
        usage.prompt_tokens += tokens if isinstance(tokens, int) else 0
        return self._read_vectors(answer, len(texts))

    async def _create(self, client: openai.AsyncOpenAI, texts: list[str]) -> CreateEmbeddingResponse:
        encoding: Literal["base64", "float"] = "base64" if self._use_base64 else "float"
        try:
            return await client.embeddings.create(
                model=self._model, input=texts, encoding_format=encoding, extra_body=self._params
            )
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            if encoding == "float" or not re.search("encoding|base64", text_of_error(error.body)):
                raise
            self._use_base64 = False
            return await self._create(client, texts)

    def _read_vectors(self, answer: CreateEmbeddingResponse, count: int) -> Vectors:
        # Some servers number the vectors and mix them. Others number none: then they are in the order of the texts.
        # Gemini leaves out the number 0. With any other numbers, nobody can tell which vector belongs to which text.
        rows = answer.data or []
        if len(rows) != count:
            raise ModelAnswerError(
                f"{self.name} at {self._endpoint.address} gave {len(rows)} vectors for {count} texts; "
                "check that the server embeds each text of a list"
            )
        numbers = [getattr(row, "index", None) for row in rows]
        if any(number is not None for number in numbers):
            numbers = [0 if number is None else number for number in numbers]
            if set(numbers) != set(range(count)):
                raise ModelAnswerError(
                    f"{self.name} at {self._endpoint.address} numbered its {count} vectors {numbers}; check the server"
                )
            rows = sorted(rows, key=lambda row: getattr(row, "index", None) or 0)
        vectors = [_decode(getattr(row, "embedding", None)) for row in rows]
        widths = {len(vector) for vector in vectors}
        expected = self.dimensions or min(widths)
        if widths != {expected} or not expected:
            raise ModelAnswerError(
                f"{self.name} at {self._endpoint.address} gave vectors {sorted(widths)} wide where {expected} was "
                "expected; set dimensions to the model's width, or leave it out where the server can't choose"
            )
        self.dimensions = expected
        return np.stack(vectors)


def _clean(text: str) -> str:
    # Endpoints refuse empty texts and halves of surrogate pairs.
    return text[:MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8") if text.strip() else "-"


def _decode(embedding: object) -> Vectors:
    """A vector from base64 of little-endian floats, or from a plain list if the server ignored the encoding."""
    try:
        if isinstance(embedding, str):
            return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float32)
        vector = np.asarray(cast("list[float]", embedding), dtype=np.float32)
        if not vector.ndim:  # null, or a number: its width would be taken for the model's
            raise TypeError
        return vector.reshape(-1)
    except (ValueError, TypeError, binascii.Error):
        raise ModelAnswerError("the embedding endpoint gave a vector that can't be read", raw=str(embedding)) from None
