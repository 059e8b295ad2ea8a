"""Remove a model's thinking from a streamed answer, where two pieces may each have a part of a tag."""

from __future__ import annotations

import re
from typing import Final

from reme_core.text.answers import THINKING_TAGS

_TAG: Final = re.compile(rf"<(?P<closes>/)?(?:{THINKING_TAGS})>", re.IGNORECASE)
_BEGUN: Final = re.compile(r"</?[a-z]{0,10}\Z", re.IGNORECASE)  # a tag, perhaps, that the next piece completes


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
        self._space_counts = False
        """Whether white space is text: not at the start of the answer, nor behind a block."""

    def feed(self, piece: str) -> str:
        """Take the next piece; returns the text that is certainly no thinking, which may be empty."""
        self._pending += piece
        text = ""
        while tag := _TAG.search(self._pending):
            text += self._take(tag.start())
            if self._inside and tag["closes"]:
                self._inside, self._line_start, self._space_counts = False, True, False
                self._pending = self._pending[len(tag.group()) :]
            elif self._line_start and not tag["closes"]:
                self._inside = True
                self._pending = self._pending[len(tag.group()) :]
            else:
                text += self._take(len(tag.group()))
        begun = _BEGUN.search(self._pending)
        return text + self._take(begun.start() if begun else len(self._pending))

    def finish(self) -> str:
        """The rest of the text, at the end of the stream; a block without a closing tag is left out."""
        return self._take(len(self._pending))

    def _take(self, count: int) -> str:
        """The next characters that wait, as far as they are text."""
        text, self._pending = self._pending[:count], self._pending[count:]
        if self._inside:
            return ""
        if not self._space_counts:
            text = text.lstrip()
        if text:
            self._space_counts = True
            self._line_start = not text[text.rfind("\n") + 1 :].strip() and ("\n" in text or self._line_start)
        return text
