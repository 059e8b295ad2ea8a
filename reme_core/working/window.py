"""How full a window is, and where a conversation may be cut; both follow from its messages only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Final

from pydantic import BaseModel

from reme_core.errors import InputError
from reme_core.prompts.budget import most_tokens
from reme_core.text.chat_format import MessageLike, read_messages
from reme_core.types import Message

CountTokens = Callable[[str], int]
"""A function that counts the tokens of a text, such as `lambda text: len(encoding.encode(text))`."""

_MESSAGE: Final = 4  # tokens around a message, as OpenAI's documentation counts them
_CALL: Final = 8  # tokens around a call


class WindowUse(BaseModel):
    """How much of a model's window messages take."""

    tokens: int
    """The tokens of the messages, and the reserved ones."""
    window: int
    """How many tokens the model takes."""
    tool_tokens: int
    """How many of `tokens` are outputs of tools."""

    @property
    def share(self) -> float:
        """The share of the window that is taken; above 1 the messages do not fit."""
        return self.tokens / self.window


def tokens_of(message: Message, count: CountTokens) -> int:
    """The tokens of one message, with its tool calls."""
    calls = sum(_CALL + count(call.name) + count(call.arguments) for call in message.tool_calls)
    return _MESSAGE + count(message.content) + calls


def tokenizer_of(count_tokens: CountTokens | None) -> CountTokens:
    """The tokenizer that was given; an estimate if there is none.

    Raises:
        InputError: It cannot be called, or gives something else than a number.
    """
    if count_tokens is None:
        return most_tokens
    told = "count_tokens is a function from a text to its number of tokens"
    if not callable(count_tokens):
        raise InputError(f"{told}, not {count_tokens!r:.60}")
    # A tokenizer's `encode`, which gives the tokens themselves, is easily taken for it.
    if not isinstance(given := count_tokens("a text"), Real):
        raise InputError(f"{told}; this one gives {given!r:.60}")
    return count_tokens


def check_context(
    messages: Sequence[MessageLike], window: int, *, count_tokens: CountTokens | None = None, reserve: int = 0
) -> WindowUse:
    """Say how full a window is.

    Args:
        messages: The messages to show the model: `Message`s, or `{"role": …, "content": …}` as chat APIs take them.
        window: How many tokens the model takes.
        count_tokens: The model's own tokenizer; by default an estimate that is rather too high than too low.
        reserve: Tokens to keep free, for example for schemas of tools and the answer.

    Raises:
        InputError: A message has no known form, the window is not larger than `reserve`, or `count_tokens` cannot be
            called.

    Example:
        >>> check_context([Message(content="four letters a token")], 100).share
        0.09
    """
    if not all(isinstance(one, int) and not isinstance(one, bool) for one in (window, reserve)):
        raise InputError(f"window and reserve are whole numbers of tokens, not {window!r:.40} and {reserve!r:.40}")
    if window <= reserve or reserve < 0:
        raise InputError(f"window is how many tokens the model takes, more than the {reserve} reserved; not {window}")
    count = tokenizer_of(count_tokens)
    sizes = [(message.role, tokens_of(message, count)) for message in read_messages(messages)]
    of_tools = sum(size for role, size in sizes if role == "tool")
    return WindowUse(tokens=reserve + sum(size for _, size in sizes), window=window, tool_tokens=of_tools)


def is_short(text: str, limit: int) -> bool:
    """Whether a text has at most `limit` tokens in any vocabulary."""
    # A token has at least one byte, and a character at most four; so most texts need not be encoded.
    return 4 * len(text) <= limit or len(text.encode("utf-8", "replace")) <= limit


def exceeds(text: str, limit: int, count: CountTokens) -> bool:
    """Whether a text has more than `limit` tokens."""
    # For a much longer text the beginning is enough: few tokens have more than eight characters.
    return count(text[: 8 * limit]) > limit or (len(text) > 8 * limit and count(text) > limit)


def cuts(messages: Sequence[Message]) -> list[int]:
    """The places before which a conversation may be cut; no cut separates a tool call from its result.

    >>> call = {"role": "assistant", "tool_calls": [{"id": "c", "name": "f"}]}
    >>> said = [{"content": "Hi"}, call, {"role": "tool", "tool_call_id": "c", "content": "1"}, {"content": "Thanks"}]
    >>> cuts([Message.model_validate(message) for message in said])
    [1, 3]
    """
    within: set[int] = set()
    # Read backwards, so that a call finds the nearest result after it: ids may be used again in a conversation.
    results: dict[str, int] = {}
    for place in reversed(range(len(messages))):
        message = messages[place]
        if message.role == "tool":
            results[message.tool_call_id] = place
            within.add(place)
        for call in message.tool_calls:
            within.update(range(place + 1, results.get(call.id, place) + 1))
    return [place for place in range(1, len(messages)) if place not in within]
