"""Read the answers of chat models: remove the thinking, and find the JSON in the text around it."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import json_repair

from reme_core.errors import ModelAnswerError
from reme_core.text.plain import plain_json

THINKING_TAGS: Final = "seed:think|thinking|think|thoughts?|reasoning|reflection"
"""Names of the tags around a model's thinking, as alternatives of a regular expression."""

_TAG: Final = re.compile(
    # A code block (a fence at a line's start, closed by one) or an inline code span: passed over.
    r"(?P<code>^(?P<fence>`{3,}|~{3,})[^\n]*\n.*?^(?P=fence)[ \t]*$|`[^`\n]+`)"
    rf"|<(?P<empty>{THINKING_TAGS})\s*/>"
    rf"|<(?P<open>{THINKING_TAGS})(?:\s[^<>]*)?>|</(?P<close>{THINKING_TAGS})\s*>"
    r"|(?P<open2>\[THINK\]|◁think▷)|(?P<close2>\[/THINK\]|◁/think▷)",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
# gpt-oss puts the name of a channel before each part of its answer; only the part in `final` is for the reader.
_CHANNEL: Final = re.compile(r"<\|channel\|>\s*(\w+)[^<]*<\|message\|>")
_CONTROL: Final = re.compile(r"<\|(?:start|end|return|channel|message|call)\|>.*\Z", re.DOTALL)

_FENCED: Final = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*(?:json\w*)?[ \t]*\n(.*?)^[ \t]*\1", re.M | re.S | re.I)
# Where a JSON object or array may begin: prose has brackets too, "[see above]" and "{x | x > 0}".
_START: Final = re.compile(
    r"""\{\s*(?:["'“”}]|[A-Za-z_]\w*\s*:(?!:)|\Z)|\[\s*(?:[\[{"'“”\]]|-?\d|true\b|false\b|null\b|\Z)""", re.I
)
# Python's decoder takes NaN and Infinity, which neither JSON nor jsonb knows.
_DECODER: Final = json.JSONDecoder(parse_constant=lambda _: None, strict=False)
# A repair takes time up to the square of the text's length; after this many there is no JSON in the answer.
_MAX_REPAIRS: Final = 8


def strip_thinking(text: str) -> str:
    """Remove a model's thinking from its answer.

    Known forms: `<think>…</think>` with the names of `THINKING_TAGS`, `[THINK]…[/THINK]`, `◁think▷…◁/think▷` and the
    channels of gpt-oss. A block without a closing tag reaches to the end of the text; a closing tag without an opening
    one ends a block that begins with the text. Code blocks and code spans stay as they are, and so does a single tag in
    the middle of a sentence.

    >>> strip_thinking("<think>They want a greeting.</think>Hello!")
    'Hello!'
    """
    channels = list(_CHANNEL.finditer(text))
    if channels:
        last = channels[-1]
        # An answer that ends in another channel was cut while the model still thought.
        return _CONTROL.sub("", text[last.end() :]).strip() if last[1] == "final" else ""
    kept: list[str] = []
    at = depth = search_from = thinking_from = 0
    while mark := _TAG.search(text, search_from):
        search_from = mark.end()
        if mark["code"]:
            # A thinking block may be cut in the middle of its code, so there a tag in code counts.
            search_from = mark.start() + 1 if depth else search_from
            continue
        if mark["open"] or mark["open2"]:
            if depth == 0:
                kept.append(text[at : mark.start()])
                thinking_from = mark.start()
            depth += 1
            continue
        if depth > 0:
            depth -= 0 if mark["empty"] else 1
        elif mark["empty"]:
            kept.append(text[at : mark.start()])
        # Some chat templates open the block in the prompt, so that the answer has the closing tag only.
        elif kept or not _ends_thinking(text, mark):
            continue
        at = mark.end()
    # A tag that opens in the middle of a line and never closes is a word of the text, not a cut answer.
    if depth > 0 and not _starts_line(text, thinking_from):
        kept.append(text[thinking_from:])
    elif depth == 0:
        kept.append(text[at:])
    return "".join(kept).strip()


def _ends_thinking(text: str, close: re.Match[str]) -> bool:
    # A tag with a space before and text behind it is a word of a sentence: "write </think> at the end".
    before, after = text[: close.start()], text[close.end() :]
    return not before or not before[-1].isspace() or _starts_line(text, close.start()) or after[:1] in ("", "\n")


def _starts_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip()


def parse_json(text: str) -> Any:
    """Find the JSON object or array in a model's answer; a bare string or number does not count.

    Looks at the whole answer, then at its fenced blocks, then for values within other text. The longest value is
    returned; several in a row (JSON lines) are returned as a list. Malformed JSON (single quotes, trailing commas, a
    missing end) is repaired. What Postgres cannot store is replaced: NUL characters, NaN and the like (`plain_json`).

    Raises:
        ModelAnswerError: there is no JSON object or array; `raw` holds the text.

    >>> parse_json('Here you are: {"memories": ["likes tea",]}')
    {'memories': ['likes tea']}
    """
    answer = strip_thinking(text)
    fenced = [block[2] for block in _FENCED.finditer(answer)]
    try:
        # The unchanged text first: a JSON string may contain <think> tags.
        for candidate in (text, answer, *fenced):
            value = _decode(candidate.strip())
            if value is not None:
                return plain_json(value)
        for candidate in (*fenced, answer):
            value = _find_longest(candidate)
            if value is not None:
                return plain_json(value)
    except (RecursionError, ValueError):  # json_repair makes the one into the other
        raise ModelAnswerError("the model's JSON is nested too deeply to be read", raw=text) from None
    beginning = f"it begins {answer[:80]!r}" if answer else "it is empty" if not text.strip() else "it is all thinking"
    raise ModelAnswerError(
        f"the model's answer holds no JSON object or array ({beginning}); ask again, or raise its max_tokens", raw=text
    )


def _decode(text: str) -> dict[str, Any] | list[Any] | None:
    try:
        value = _DECODER.decode(text)
    except ValueError:
        return None
    return value if isinstance(value, dict | list) else None


def _repair(text: str) -> object:
    try:
        return json_repair.loads(text, skip_json_loads=True)
    except AssertionError:  # of the library, which takes the fence of a block for a key
        return None


def _find_longest(text: str) -> dict[str, Any] | list[Any] | None:
    """The longest value, or run of values, in a text; a value that cannot be decoded is repaired."""
    best: dict[str, Any] | list[Any] | None = None
    longest = 0
    run: list[Any] = []
    run_start = run_end = 0
    at = repairs = 0
    while start := _START.search(text, at):
        try:
            value, end = _DECODER.raw_decode(text, start.start())
        except ValueError:
            repairs += 1
            if repairs > _MAX_REPAIRS:
                break
            # Nobody can tell where a broken value ends, so the repair takes all the text from its start.
            value, end = _repair(text[start.start() :]), len(text)
            if not isinstance(value, dict | list) or not value:
                # The bracket belonged to prose; the next one may begin the JSON.
                at = start.start() + 1
                continue
        # Words between two values end the run; a line break or a comma does not (JSON lines).
        if not run or text[run_end : start.start()].strip(" \t\r\n,;"):
            run, run_start = [], start.start()
        run.append(value)
        run_end = at = end
        if run_end - run_start > longest:
            best, longest = (run[0] if len(run) == 1 else list(run)), run_end - run_start
    return best
