"""Remove a model's thinking from a streamed answer, where two pieces may each have a part of a tag."""

from __future__ import annotations

import re
from typing import Final

from reme_core.text.answers import THINKING_TAGS

_OPEN: Final = re.compile(rf"<(?:{THINKING_TAGS})>", re.IGNORECASE)
_CLOSE: Final = re.compile(rf"</(?:{THINKING_TAGS})>\s*", re.IGNORECASE)
_LONGEST_TAG: Final = len("</reflection>")


class ThinkingFilter:
    """Gives the text of a streamed answer without the blocks in which the model thinks.

    A block begins at the start of the answer or of a line; a tag in the middle of a line is text. Of the forms that
    `reme_core.text.answers.strip_thinking` knows, this knows those that can be told before the answer is complete.

    Example:
        >>> thinking = ThinkingFilter()
        >>> [thinking.feed(piece) for piece in ("<thi", "nk>hm", "m</think>", "Hel", "lo")]
        ['', '', '', 'Hel', 'lo']
    """

    def __init__(self) -> None:
        self._pending = ""
        self._inside = False
        self._line_start = True
        self._has_output = False

    def feed(self, piece: str) -> str:
        """Take the next piece; returns the text that is certainly no thinking, which may be empty."""
        self._pending += piece
        text = ""
        while True:
            if self._inside:
                close = _CLOSE.search(self._pending)
                # White space after a tag is removed with it, so the end of the tag is unknown until other text follows.
                if close is None or close.end() == len(self._pending):
                    self._pending = self._pending[close.start() :] if close else self._pending[-_LONGEST_TAG:]
                    return text
                self._pending, self._inside, self._line_start = self._pending[close.end() :], False, True
            opening = _OPEN.search(self._pending)
            end = opening.start() if opening else self._safe_end()
            text += self._emit(self._pending[:end])
            self._pending = self._pending[end:]
            if opening is None:
                return text
            tag = opening.group()
            self._pending = self._pending[len(tag) :]
            if self._line_start:
                self._inside = True
            else:
                text += self._emit(tag)

    def finish(self) -> str:
        """The rest of the text, at the end of the stream; a block without a closing tag is left out."""
        rest = "" if self._inside else self._emit(self._pending)
        self._pending = ""
        return rest

    def _safe_end(self) -> int:
        # From the last "<" on, the text may be the beginning of a tag that the next piece completes.
        start = self._pending.rfind("<")
        return len(self._pending) if start < 0 or len(self._pending) - start >= _LONGEST_TAG else start

    def _emit(self, text: str) -> str:
        if not self._has_output:
            text = text.lstrip()
        if text:
            self._has_output = True
            line = text[text.rfind("\n") + 1 :]
            self._line_start = not line.strip() and ("\n" in text or self._line_start)
        return text
