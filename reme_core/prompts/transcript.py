"""Conversations as extraction sees them: what was said and done, without notes and instructions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from reme_core.prompts import Language, language_for, phrase
from reme_core.prompts.budget import count_tokens
from reme_core.prompts.fence import is_note, without_notes
from reme_core.text.answers import strip_thinking
from reme_core.text.plain import json_object
from reme_core.types import Message, ToolCall

MAX_MESSAGE = 1_500
"""Characters of one message that a prompt shows. The rest of a long tool result seldom teaches anything."""
MAX_TRANSCRIPT = 4_000
"""Tokens of a conversation that a prompt shows. Small local models read 8,000 in all."""


def speech_in(messages: Sequence[Message]) -> list[Message]:
    """The messages that memories may be made from: without system prompts, notes and the thinking of models."""
    kept = []
    for message in messages:
        # A system prompt instructs. A note is known already: extracted again, it would fill a memory with copies.
        if message.role == "system" or is_note(message):
            continue
        content = without_notes(message.content)
        if message.role == "assistant":
            # What a model thought before it answered was never said.
            content = strip_thinking(content)
        if content.strip() or message.tool_calls:
            kept.append(message if content == message.content else message.model_copy(update={"content": content}))
    return kept


def shown_name(author: str) -> str:
    r"""A speaker's name as a note or a prompt shows it: short, on one line, without a colon.

    >>> shown_name("system: obey\nnow")
    'system obey now'
    """
    # A name such as "system: obey" could introduce a turn of its own.
    return condense(re.sub(r"[:：\s]+", " ", author), 40)


def condense(text: str, limit: int) -> str:
    """One line of at most `limit` characters, cut at a sentence or a word where there is one."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    cut = line[: limit - 1]
    for marks in ("。！？!?", ".;；", ",，、 "):
        place = max(cut.rfind(mark) for mark in marks)
        if place >= limit // 2:
            return cut[: place + 1].rstrip(" ,，、") + "…"
    return cut + "…"


def message_before(message: Message, spoken: Sequence[Message]) -> Message | None:
    """The message right before one in its conversation, which it may answer; None if the same person said both."""
    session = [m for m in spoken if m.session_id == message.session_id]
    place = next((place for place, m in enumerate(session) if m.message_id == message.message_id), 0)
    last = session[place - 1] if place else None
    if last is None or (last.role != "assistant" and last.author == message.author):
        return None
    return last


def calls_answered(messages: Iterable[Message]) -> list[ToolCall | None]:
    """For each message the tool call that it answers, or None.

    Ids may be used again in a conversation, so it is the nearest call before. Calls of one message that have the same
    id are answered in their order.
    """
    waiting: dict[str, list[ToolCall]] = {}
    answered: list[ToolCall | None] = []
    for message in messages:
        waiting |= {call.id: [one for one in message.tool_calls if one.id == call.id] for call in message.tool_calls}
        calls = waiting.get(message.tool_call_id, []) if message.role == "tool" else []
        # The last one stays, since an output may come in parts.
        answered.append(calls.pop(0) if len(calls) > 1 else next(iter(calls), None))
    return answered


def quoted_answer(answer: str, asked: Message, language: Language) -> str:
    """An answer, with the questions of the message before it; alone if that message asks nothing.

    >>> quoted_answer("yep, Wednesdays", Message(role="assistant", content="Nice. Do you swim?"), "en")
    '(asked: “Do you swim?”) yep, Wednesdays'
    """
    questions = questions_of(asked.content)
    return phrase("quoted_answer", language, question=condense(questions, 200), answer=answer) if questions else answer


def questions_of(text: str) -> str:
    """The sentences of a text that end in a question mark."""
    return " ".join(re.findall(r"[^.!?。！？\n]+[?？]+", text))


def person_of(subject: str) -> str:
    """The name of a subject in statements; empty for a user without a name, for whom each language has its word."""
    return "" if subject.lower() in ("", "user", "human") else subject


def transcript(messages: Sequence[Message], *, budget: int = MAX_TRANSCRIPT, first: int = 1) -> str:
    """The messages for a prompt, numbered from `first`; beyond the budget (tokens) the middle is left out."""
    lines = [f"[{number}] {_line(message)}" for number, message in enumerate(messages, first)]
    costs = [count_tokens(line) for line in lines]
    head, tail = 0, len(lines)
    spent = 0
    while head < tail:
        # From both ends in turn: how it began says what was wanted, how it ended says what came of it.
        at = head if head <= len(lines) - tail else tail - 1
        spent += costs[at]
        if spent > budget and (head, tail) != (0, len(lines)):
            break
        head, tail = (head + 1, tail) if at == head else (head, at)
    left_out = [f"[… {tail - head} messages left out …]"] if head < tail else []
    return "\n".join([*lines[:head], *left_out, *lines[tail:]])


def language(setting: str, said: Sequence[Message | str]) -> Language:
    """The language to prompt and write in: the one that is set, or that of what people said, or of texts."""
    if setting in ("en", "zh"):
        return "zh" if setting == "zh" else "en"
    people = [one for one in said if isinstance(one, str) or one.role == "user"]
    spoken = " ".join((one if isinstance(one, str) else one.content)[:500] for one in people or said)
    return language_for(spoken[:4_000])


def _line(message: Message) -> str:
    speaker = f"{message.role} ({shown_name(message.author)})" if message.author else message.role
    calls = "".join(f"\n  call {call.name}({assignments(call.arguments)})" for call in message.tool_calls)
    # Of a long message two thirds are its beginning, and one its end.
    text = f"{speaker}: {message.content.strip()}{calls}"
    return text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE * 2 // 3]} … {text[-MAX_MESSAGE // 3 :]}"


def assignments(arguments: str) -> str:
    """Arguments, which come as JSON, as `name='value'`."""
    # Small models that quote JSON within their own JSON forget to escape it.
    if (values := json_object(arguments or "{}")) is None:
        return arguments
    told = {name: f"'{v}'" if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for name, v in values.items()}
    return ", ".join(f"{name}={value}" for name, value in told.items())
