import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from reme_core.errors import ConfigurationError, ModelAnswerError, ModelError, ModelUnavailableError
from reme_core.models import ModelCall, Tool
from reme_core.models.dashscope import DashScopeChat
from reme_core.models.endpoint import Endpoint
from reme_core.models.openai_chat import OpenAIChat
from reme_core.types import Message, ToolCall
from tests.loopback import Loopback, tool_call

KEY = "sk-loopback-secret"
ASK = [{"role": "user", "content": "What does Ada drink?"}]


class Fact(BaseModel):
    text: str
    score: float = 0.5


class Facts(BaseModel):
    facts: list[Fact]


@pytest.fixture
async def chat(loopback: Loopback):
    model = OpenAIChat("chat-1", Endpoint(loopback.url, KEY, max_retries=1))
    yield model
    await model.aclose()


@pytest.fixture
def calls() -> list[ModelCall]:
    return []


@pytest.fixture
async def watched(loopback: Loopback, calls: list[ModelCall]):
    model = OpenAIChat("chat-1", Endpoint(loopback.url, KEY, max_retries=1), on_call=calls.append)
    yield model
    await model.aclose()


async def test_thinking_is_set_apart_from_the_answer(loopback: Loopback, chat: OpenAIChat):
    loopback.chat({"content": "<think>tea or coffee?</think>\nTea.", "reasoning_content": "She said so."})
    answer = await chat.complete(ASK)
    assert (answer.text, answer.reasoning) == ("Tea.", "She said so.")


async def test_tokens_and_time_are_told(loopback: Loopback, watched: OpenAIChat, calls: list[ModelCall]):
    loopback.chat("She drinks tea.")
    answer = await watched.complete(ASK, purpose="rewrite")
    assert (answer.prompt_tokens, answer.completion_tokens) == (4, 3)
    assert calls[0].milliseconds > 0
    assert (calls[0].purpose, calls[0].ok, calls[0].prompt_tokens, calls[0].raw) == ("rewrite", True, 4, "")


async def test_a_loop_of_tool_calls_travels_there_and_back(loopback: Loopback, chat: OpenAIChat):
    loopback.chat({"tool_calls": [tool_call("recall", query="tea")]}, "Green tea.")
    tools = [Tool("recall", "Search memory", {"type": "object", "properties": {"query": {"type": "string"}}})]
    conversation: list[Any] = [Message(content="What does Ada drink?")]
    first = await chat.complete(conversation, tools=tools)
    assert first.tool_calls == [ToolCall(id="call-1", name="recall", arguments='{"query": "tea"}')]
    result = Message(role="tool", content="Ada drinks green tea", tool_call_id=first.tool_calls[0].id)
    second = await chat.complete([*conversation, first.as_message(), result], tools=tools)
    assert second.text == "Green tea."
    sent = loopback.bodies()[1]
    assert sent["tools"][0]["function"]["name"] == "recall"
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "tool"]
    assert sent["messages"][1]["tool_calls"][0]["function"] == {"name": "recall", "arguments": '{"query": "tea"}'}
    assert sent["messages"][2]["tool_call_id"] == "call-1"


async def test_a_call_without_a_type_is_that_of_a_function(loopback: Loopback, chat: OpenAIChat):
    untyped = {name: value for name, value in tool_call("recall", query="tea").items() if name != "type"}
    loopback.chat({"tool_calls": [untyped]})
    answer = await chat.complete(ASK)
    assert answer.tool_calls == [ToolCall(id="call-1", name="recall", arguments='{"query": "tea"}')]


async def test_the_settings_beat_the_default(loopback: Loopback):
    endpoint = Endpoint(loopback.url)
    plain, warm = OpenAIChat("m", endpoint), OpenAIChat("m", endpoint, params={"temperature": 0.7, "seed": 42})
    await plain.complete(ASK)
    await warm.complete(ASK)
    await warm.aclose()
    assert [body["temperature"] for body in loopback.bodies()] == [0.0, 0.7]
    assert [body.get("seed") for body in loopback.bodies()] == [None, 42]


async def test_a_refused_temperature_of_ours_is_left_out_from_then_on(loopback: Loopback, chat: OpenAIChat):
    loopback.refuses = {"temperature"}
    await chat.complete(ASK)
    await chat.complete(ASK)
    assert ["temperature" in body for body in loopback.bodies()] == [True, False, False]


@pytest.mark.parametrize(
    ("message", "later"),
    [
        ("'max_tokens' is too large: 1500. This model's maximum context length is 4096 tokens", True),
        ("Unsupported parameter: 'max_tokens' is not supported with this model", False),
    ],
)
async def test_a_bound_that_is_too_large_for_one_prompt_is_sent_with_the_next(
    loopback: Loopback, chat: OpenAIChat, message: str, later: bool
):
    loopback.chat({"facts": []})
    loopback.fail(400, message=message)
    await chat.complete_as(ASK, Facts, max_tokens=1500)
    await chat.complete_as(ASK, Facts, max_tokens=1500)
    assert ["max_tokens" in body for body in loopback.bodies()] == [True, False, later]


async def test_a_refusal_that_only_quotes_a_field_teaches_nothing_about_it(loopback: Loopback, chat: OpenAIChat):
    loopback.fail(400, times=2, message="too long: 'which temperature is not supported?'")
    with pytest.raises(ModelError, match="too long"):
        await chat.complete(ASK)
    await chat.complete(ASK)
    assert "temperature" in loopback.bodies()[-1]


async def test_a_refused_setting_of_the_users_is_an_error(loopback: Loopback):
    model = OpenAIChat("m", Endpoint(loopback.url), params={"temperature": 0.7})
    loopback.refuses = {"temperature"}
    with pytest.raises(ModelError, match="temperature"):
        await model.complete(ASK)
    await model.aclose()


async def test_dashscope_does_not_think_unless_told_to(loopback: Loopback):
    endpoint = Endpoint(loopback.url)
    await DashScopeChat("qwen3-8b", endpoint).complete(ASK)
    await DashScopeChat("qwen3-8b", endpoint, params={"enable_thinking": True}).complete(ASK)
    await endpoint.aclose()
    assert [body["enable_thinking"] for body in loopback.bodies()] == [False, True]


async def test_a_structured_answer_is_asked_for_by_schema(loopback: Loopback, chat: OpenAIChat):
    loopback.chat({"facts": [{"text": "Ada drinks tea"}]})
    assert await chat.complete_as(ASK, Facts) == Facts(facts=[Fact(text="Ada drinks tea")])
    form = loopback.bodies()[0]["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["schema"] == Facts.model_json_schema()
    assert loopback.bodies()[0]["messages"] == ASK


@pytest.mark.parametrize(
    ("refused", "mode", "requests"),
    [({"json_schema"}, "json_object", 2), ({"response_format"}, "plain", 3)],
)
async def test_an_unsupported_form_falls_back_and_is_remembered(
    loopback: Loopback, chat: OpenAIChat, refused: set[str], mode: str, requests: int
):
    loopback.refuses = refused
    loopback.chat({"facts": []})
    assert await chat.complete_as(ASK, Facts) == Facts(facts=[])
    assert len(loopback.requests) == requests
    assert loopback.bodies()[-1].get("response_format", {"type": "plain"})["type"] == mode
    assert '"facts"' in loopback.bodies()[-1]["messages"][-1]["content"]
    await chat.complete_as(ASK, Facts)
    assert len(loopback.requests) == requests + 1


async def test_a_request_refused_in_every_form_teaches_nothing_about_forms(loopback: Loopback, chat: OpenAIChat):
    loopback.fail(400, times=3, message="context length exceeded")
    with pytest.raises(ModelError, match="context length exceeded"):
        await chat.complete_as(ASK, Facts)
    loopback.chat({"facts": []})
    await chat.complete_as(ASK, Facts)
    assert loopback.bodies()[-1]["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    "reply",
    [
        'Sure:\n```json\n{"facts": [{"text": "tea"}]}\n```',
        "<think>{}</think>{'facts': [{'text': 'tea'},]}",
        '[{"text": "tea"}]',
        '{"facts": [{"text": "tea", "score": null}, null]}',
    ],
)
async def test_sloppy_answers_are_read(loopback: Loopback, chat: OpenAIChat, reply: str):
    loopback.chat({"content": reply})
    assert await chat.complete_as(ASK, Facts) == Facts(facts=[Fact(text="tea")])
    assert len(loopback.requests) == 1


async def test_an_unfit_answer_is_corrected_once_with_the_reason(
    loopback: Loopback, watched: OpenAIChat, calls: list[ModelCall]
):
    loopback.chat('{"facts": [{"score": "high"}]}', {"facts": [{"text": "tea"}]})
    assert await watched.complete_as(ASK, Facts, purpose="extract") == Facts(facts=[Fact(text="tea")])
    echo, request = loopback.bodies()[1]["messages"][1:]
    assert echo == {"role": "assistant", "content": '{"facts": [{"score": "high"}]}'}
    assert "facts.0.text: Field required" in request["content"]
    assert [(call.ok, call.purpose) for call in calls] == [(False, "extract"), (True, "extract")]


def cut(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer of a server that has reached the limit of tokens."""
    return {**answer, "choices": [{**answer["choices"][0], "finish_reason": "length"}]}


CUT_SHORT = '{"facts": [{"text": "tea"}, {"text": "cof'


async def test_an_answer_that_was_cut_off_is_not_taken_for_the_whole(
    loopback: Loopback, watched: OpenAIChat, calls: list[ModelCall]
):
    whole = {"facts": [{"text": "tea"}, {"text": "coffee"}, {"text": "milk"}]}
    loopback.chat(CUT_SHORT, whole)
    loopback.replace(cut)
    assert await watched.complete_as(ASK, Facts) == Facts.model_validate(whole)
    assert "was cut off" in loopback.bodies()[1]["messages"][-1]["content"]
    assert [call.ok for call in calls] == [False, True]


async def test_of_an_answer_that_is_cut_off_again_what_can_be_read_is_taken_and_warned_of(
    loopback: Loopback, chat: OpenAIChat, caplog: pytest.LogCaptureFixture
):
    loopback.chat(CUT_SHORT)
    loopback.replace(cut)
    loopback.replace(cut)
    assert (await chat.complete_as(ASK, Facts)).facts[0] == Fact(text="tea")
    assert "an answer of chat-1 was cut off twice at max_tokens" in caplog.text
    loopback.chat("Well, let me think")
    loopback.replace(cut)
    loopback.replace(cut)
    with pytest.raises(ModelAnswerError, match="was cut off at max_tokens"):
        await chat.complete_as(ASK, Facts)


@pytest.mark.parametrize("reply", ["I would rather not.", "", '{"facts": 3}', {"content": None}])
async def test_an_answer_that_stays_unfit_raises_and_is_logged_with_its_text(
    loopback: Loopback, watched: OpenAIChat, calls: list[ModelCall], reply: Any
):
    loopback.chat(reply)
    with pytest.raises(ModelAnswerError) as caught:
        await watched.complete_as(ASK, Facts)
    text = reply if isinstance(reply, str) else ""
    assert caught.value.raw == text
    assert [(call.ok, call.raw) for call in calls] == [(False, text)] * 2


@pytest.mark.parametrize(
    "said",
    [
        None,
        {"content": 5},
        {"content": ["Hello"]},
        {"content": {"text": "Hello"}},
        {"content": [{"type": "text", "text": 5}]},
        {"content": None, "tool_calls": [{"id": "call-1", "type": "function", "function": None}]},
    ],
)
async def test_an_answer_without_text_or_call_raises(loopback: Loopback, chat: OpenAIChat, said: dict[str, Any] | None):
    choices = [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **said}}] if said else []
    loopback.replace(lambda body: {**body, "choices": choices})
    with pytest.raises(ModelAnswerError, match="no answer"):
        await chat.complete(ASK)


@pytest.mark.parametrize(
    ("sent", "raw"), [('{"choices": [', '{"choices": ['), (b'{"choices": "\xff"}', '{"choices": "\ufffd"}')]
)
async def test_broken_json_from_the_server_raises_with_what_can_be_read(
    loopback: Loopback, chat: OpenAIChat, sent: str | bytes, raw: str
):
    loopback.garble(sent)
    with pytest.raises(ModelAnswerError, match="broken JSON") as caught:
        await chat.complete(ASK)
    assert caught.value.raw == raw


async def test_half_of_a_surrogate_pair_is_replaced_in_what_is_asked(loopback: Loopback, chat: OpenAIChat):
    loopback.chat({"facts": []})
    await chat.complete_as([Message(content="caf\ud800"), {"role": "user", "content": "\udfff"}], Facts)
    (asked,) = loopback.bodies("/chat/completions")
    assert [message["content"] for message in asked["messages"]] == ["caf\ufffd", "\ufffd"]


async def test_a_connection_that_is_reset_is_called_so(chat: OpenAIChat):
    async def reset(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with await asyncio.start_server(reset, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        model = OpenAIChat("chat-1", Endpoint(f"http://127.0.0.1:{port}/v1", max_retries=0))
        with pytest.raises(ModelUnavailableError, match=r"could not be reached \(\w.*\)"):
            await model.complete(ASK)
        await model.aclose()


async def test_an_unknown_model_is_named(loopback: Loopback, chat: OpenAIChat):
    loopback.fail(404, message="model not found")
    with pytest.raises(ModelError, match=r"chat-1.*model_name"):
        await chat.complete(ASK)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
async def test_a_stream_leaves_thinking_out_wherever_it_is_cut(loopback: Loopback, chat: OpenAIChat, size: int):
    text = "<think>Is 3 < 4?\nThen tea.</think>\n\nAda drinks <b>tea</b>; 2 < 3.\n<think>more</think>\nThe <think> tag."
    loopback.stream_pieces = lambda reply: [reply[at : at + size] for at in range(0, len(reply), size)]
    loopback.chat({"content": text, "reasoning_content": "hidden"})
    pieces = [piece async for piece in chat.stream(ASK)]
    assert "".join(pieces) == "Ada drinks <b>tea</b>; 2 < 3.\nThe <think> tag."
    assert "" not in pieces


async def test_a_stream_that_never_stops_thinking_says_nothing(loopback: Loopback, chat: OpenAIChat):
    loopback.chat({"content": "<think>on and on"})
    assert [piece async for piece in chat.stream(ASK)] == []


async def test_a_stream_comes_piece_by_piece_and_is_reported(
    loopback: Loopback, watched: OpenAIChat, calls: list[ModelCall]
):
    loopback.chat("She drinks tea.")
    pieces = [piece async for piece in watched.stream(ASK, purpose="answer")]
    assert len(pieces) > 2
    assert "".join(pieces) == "She drinks tea."
    assert [(call.ok, call.prompt_tokens, call.completion_tokens) for call in calls] == [(True, 4, 3)]


async def test_a_stream_left_early_is_no_failure(loopback: Loopback, watched: OpenAIChat, calls: list[ModelCall]):
    loopback.chat("She drinks tea.")
    stream = watched.stream(ASK)
    assert await anext(stream)
    await stream.aclose()
    assert [call.ok for call in calls] == [True]


async def test_a_server_that_does_not_stream_is_an_error(
    loopback: Loopback, watched: OpenAIChat, calls: list[ModelCall]
):
    loopback.garble('{"choices": [{"index": 0, "message": {"role": "assistant", "content": "Tea."}}]}')
    with pytest.raises(ModelAnswerError, match="sent no stream"):
        _ = [piece async for piece in watched.stream(ASK)]
    assert not calls[0].ok


async def test_a_stream_whose_connection_breaks_raises(loopback: Loopback, watched: OpenAIChat, calls: list[ModelCall]):
    loopback.chat("She drinks tea every single morning.")
    loopback.drop()
    with pytest.raises(ModelUnavailableError):
        _ = [piece async for piece in watched.stream(ASK)]
    assert [call.ok for call in calls] == [False]


async def test_white_space_around_a_key_and_an_address_is_no_part_of_them(loopback: Loopback):
    loopback.chat("Tea.")
    model = OpenAIChat("chat-1", Endpoint(f"{loopback.url}/\n", f" {KEY}\r\n"))
    assert (await model.complete(ASK)).text == "Tea."
    assert loopback.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    await model.aclose()


@pytest.mark.parametrize("key", ["sk-secret…end", "sk-secret\nsk-end", "sk-sécret", "sk-secret\x00"])
def test_a_key_that_no_header_can_hold_is_refused_without_telling_it(key: str):
    with pytest.raises(ConfigurationError, match="the api_key for http://localhost/v1") as caught:
        Endpoint("http://localhost/v1", key)
    assert "sk-s" not in str(caught.value)


async def test_the_key_is_in_no_repr(chat: OpenAIChat):
    assert KEY not in repr(chat) + repr(vars(chat)) + repr(vars(chat._endpoint))


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "http://local\nhost/v1",
        "http://127.0.0.1:99999999",
        "localhost:11434/v1",
        "127.0.0.1",
        "https://",
    ],
)
def test_what_is_no_address_is_refused_at_once(url: str):
    with pytest.raises(ConfigurationError, match="is no address"):
        Endpoint(url)
