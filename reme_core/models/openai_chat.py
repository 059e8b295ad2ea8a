"""Chat by any OpenAI-compatible endpoint: text, tool calls, streams, and answers that fit a schema."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, Literal, cast, get_args

import openai
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessage, ChatCompletionMessageParam
from pydantic import BaseModel

from reme_core.errors import ModelAnswerError
from reme_core.given import storable
from reme_core.models.base import Answer, Completion, Conversation, RemoteModel, Tool, Usage
from reme_core.models.endpoint import shorten, text_of_error
from reme_core.models.json_in_words import Wire, correct_once, read_answer, with_instruction
from reme_core.models.thinking import ThinkingFilter
from reme_core.text.answers import strip_thinking
from reme_core.types import Message, ToolCall

log = logging.getLogger(__name__)

JsonMode = Literal["json_schema", "json_object", "plain"]

# Ollama and llama.cpp fail with 500 at a schema that they, or the model, cannot hold to.
_OF_FORMAT: Final = re.compile("grammar|schema|(?:for |response_)format", re.IGNORECASE)

_THINKING_TOKENS: Final = 25_000  # what OpenAI's guide to reasoning models says to leave for it

_MODES: Final[tuple[JsonMode, ...]] = get_args(JsonMode)


class OpenAIChat(RemoteModel):
    """A chat model behind `POST /chat/completions`.

    If the server does not support a kind of `response_format` or a default field, this object does not send it again.
    """

    provider: ClassVar[str] = "openai"
    base_url: ClassVar[str] = "https://api.openai.com/v1"
    # Extracting twice from the same text should give the same memories, as far as a model can do that.
    defaults: ClassVar[dict[str, Any]] = {"temperature": 0.0}

    # What this server has refused: these fields, and the modes before this one.
    _unsupported: frozenset[str] = frozenset()
    _json_mode: JsonMode = "json_schema"
    _thinking_tokens: int = 0
    """How much longer than asked an answer may be, once the model has shown that it thinks, which counts as well."""

    async def complete(self, messages: Conversation, *, tools: Sequence[Tool] = (), purpose: str = "") -> Completion:
        """Answer in text, or by calling `tools`; see `ChatModel.complete`."""
        options: Wire = {"tools": [_tool_to_wire(tool) for tool in tools]} if tools else {}
        with self._report(purpose) as usage:
            async with self._endpoint.session(self._model) as client:
                answer = await self._create(client, _to_wire(messages), self._options(options))
            message = self._read_message(answer, usage)
            return Completion(
                text=strip_thinking(message.content or ""),
                reasoning=_read_reasoning(message),
                tool_calls=_read_tool_calls(message),
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
            )

    async def complete_as(
        self, messages: Conversation, schema: type[Answer], *, max_tokens: int | None = None, purpose: str = ""
    ) -> Answer:
        """Answer in JSON that fits `schema`; see `ChatModel.complete_as`.

        The request has a JSON schema, or `json_object`, or words alone: the first of these that the server supports. An
        answer that cannot be used is shown to the model once, to be corrected; so is one that was cut off. If it is cut
        off again, what can be read of it is taken, since a small model may never end.
        """
        wire = _to_wire(messages)
        bound = 0 if self._params.keys() & {"max_tokens", "max_completion_tokens"} else max_tokens or 0

        async def answer(asked: list[Wire]) -> Answer:
            options = self._options({"max_tokens": bound + self._thinking_tokens} if bound else {})
            return await self._answer_once(asked, schema, options, purpose, is_last=asked is not wire)

        return await correct_once(answer, wire, schema)

    async def stream(self, messages: Conversation, *, purpose: str = "") -> AsyncIterator[str]:
        """Answer piece by piece, without the reasoning; see `ChatModel.stream`."""
        options = self._options({"stream_options": {"include_usage": True}})
        thinking, chunk = ThinkingFilter(), None
        with self._report(purpose) as usage:
            async with self._endpoint.session(self._model) as client:
                chunks = await self._create(client, _to_wire(messages), options, stream=True)
                async with chunks:
                    async for chunk in chunks:
                        if (piece := self._read_piece(chunk, usage)) and (shown := thinking.feed(piece)):
                            yield shown
            if chunk is None:  # the server answered in one piece
                raise ModelAnswerError(f"{self._model} at {self._endpoint.address} sent no stream; see that it can")
            if rest := thinking.finish():
                yield rest

    def _options(self, extra: Wire) -> Wire:
        return {**self.defaults, **self._params, **extra}

    async def _create(self, client: openai.AsyncOpenAI, wire: list[Wire], options: Wire, stream: bool = False) -> Any:
        """Send a request; a default field that the server refuses is left out, later too if it is unsupported."""
        refused, unsupported = self._unsupported, self._unsupported
        while True:
            sent = {key: value for key, value in options.items() if key not in refused}
            try:
                answer = await client.chat.completions.create(
                    model=self._model,
                    messages=cast("list[ChatCompletionMessageParam]", storable(wire)),
                    stream=stream,
                    extra_body=sent,
                )
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                # Only defaults: if a field that the user has set is refused, that must be an error.
                ours = (set(self.defaults) | {"stream_options", "max_tokens"}) - set(self._params)
                told = text_of_error(error.body)
                named = {key for key in ours & set(sent) if key == error.param or key in told}
                if not named:
                    raise
                refused |= named
                # A bound that is too large for this prompt is not for the next.
                lasts = any(words in told.lower() for words in ("unsupported", "not support"))
                unsupported |= named if lasts else named - {"max_tokens"}
            else:
                # The messages of some servers quote the request; only now it is known that the fields were the reason.
                self._unsupported |= unsupported
                return answer

    async def _answer_once(
        self, wire: list[Wire], schema: type[Answer], options: Wire, purpose: str, *, is_last: bool
    ) -> Answer:
        with self._report(purpose) as usage:
            async with self._endpoint.session(self._model) as client:
                answer = await self._request_json(client, wire, schema, options)
            text = self._read_message(answer, usage).content or ""
            if answer.choices[0].finish_reason != "length":
                return read_answer(text, schema)
            if not strip_thinking(text):
                self._thinking_tokens = _THINKING_TOKENS
            # The beginning of an answer can often be read as if it were the whole.
            if is_last:
                with suppress(ModelAnswerError):
                    beginning = read_answer(text, schema)
                    log.warning("an answer of %s was cut off twice at max_tokens; its beginning is taken", self._model)
                    return beginning
            problem = f"an answer of {self._model} was cut off at max_tokens; give a shorter one, or raise max_tokens"
            raise ModelAnswerError(problem, raw=text)

    async def _request_json(
        self, client: openai.AsyncOpenAI, wire: list[Wire], schema: type[BaseModel], options: Wire
    ) -> ChatCompletion:
        refusal: openai.APIStatusError | None = None
        for mode in _MODES[_MODES.index(self._json_mode) :]:
            messages = wire if mode == "json_schema" else with_instruction(wire, schema)
            try:
                answer = await self._create(client, messages, {**options, **_response_format(mode, schema)})
            except openai.APIStatusError as error:
                # The messages of servers differ too much to tell what was refused, so the next mode is tried. If even
                # the plain request is refused, the response format was not the reason: the mode stays as it was.
                if error.status_code not in (400, 422) and not _OF_FORMAT.search(text_of_error(error.body)):
                    raise
                refusal = refusal or error
                continue
            self._json_mode = mode
            return cast("ChatCompletion", answer)
        assert refusal is not None
        raise refusal

    def _read_message(self, answer: object, usage: Usage) -> ChatCompletionMessage:
        if not isinstance(answer, ChatCompletion):
            raise self._endpoint.not_json_error(self._model, answer)
        self._endpoint.check(self._model, answer)
        try:  # the SDK does not validate: any JSON that the server sent may be in these fields
            _read_usage(answer.usage, usage)
            message = answer.choices[0].message
            message.content = storable(_text(message.content or message.refusal))
            # To join is to refuse what is no text.
            "".join(call.function.name or "" for call in message.tool_calls or () if call.type != "custom")
        except (AttributeError, LookupError, TypeError, ValueError):
            raise self._no_answer(answer) from None
        return message

    def _read_piece(self, chunk: ChatCompletionChunk, usage: Usage) -> str:
        try:
            _read_usage(chunk.usage, usage)
            return "".join(_text(choice.delta.content) for choice in chunk.choices[:1])
        except (AttributeError, LookupError, TypeError, ValueError):
            raise self._no_answer(chunk) from None

    def _no_answer(self, answer: BaseModel) -> ModelAnswerError:
        raw = answer.model_dump_json(warnings=False, exclude_none=True)
        message = f"{self._model} at {self._endpoint.address} gave no answer ({shorten(raw)}); see the server's log"
        return ModelAnswerError(message, raw=raw)


def _text(content: object) -> str:
    """The text of a message or a piece of it; models of Mistral that think have theirs in parts.

    Raises:
        LookupError, TypeError: It is no text.
    """
    if isinstance(content, list):
        return "".join([part["text"] for part in content if part["type"] == "text"])
    return "".join([cast("str", content or "")])


def _read_usage(told: CompletionUsage | None, usage: Usage) -> None:
    if told is not None:
        usage.prompt_tokens = int(told.prompt_tokens or 0)
        usage.completion_tokens = int(told.completion_tokens or 0)


def _to_wire(messages: Conversation) -> list[Wire]:
    """Messages in the form of the API; a dict stays as it is."""
    return [message if isinstance(message, dict) else _message_to_wire(message) for message in messages]


def _message_to_wire(message: Message) -> Wire:
    wire: Wire = {"role": message.role, "content": message.content}
    if message.tool_calls:
        wire["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _tool_to_wire(tool: Tool) -> Wire:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _read_tool_calls(message: ChatCompletionMessage) -> list[ToolCall]:
    return [
        ToolCall(id=str(call.id or ""), name=call.function.name, arguments=call.function.arguments or "", index=index)
        for index, call in enumerate(message.tool_calls or [])
        if call.type != "custom"  # some servers leave the type out, and have numbers for ids
    ]


def _read_reasoning(message: ChatCompletionMessage) -> str:
    # OpenAI's schema has no field for it. Most servers call it reasoning_content, vLLM and OpenRouter call it
    # reasoning.
    extra = message.model_extra or {}
    return str(extra.get("reasoning_content") or extra.get("reasoning") or "")


def _response_format(mode: JsonMode, schema: type[BaseModel]) -> Wire:
    if mode == "plain":
        return {}
    if mode == "json_object":
        return {"response_format": {"type": "json_object"}}
    # Not strict: the strict form allows neither optional fields nor free mappings, and the answer is validated anyway.
    form = {"name": schema.__name__, "schema": schema.model_json_schema(), "strict": False}
    return {"response_format": {"type": "json_schema", "json_schema": form}}
