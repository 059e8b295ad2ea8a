"""Thinking taken out of a streamed answer, where a tag may be cut anywhere between two pieces."""

from __future__ import annotations

import re
from typing import Final

_NAMES: Final = "seed:think|thinking|think|thoughts?|reasoning|reflection"
_OPEN: Final = re.compile(rf"<(?:{_NAMES})>", re.IGNORECASE)
_CLOSE: Final = re.compile(rf"</(?:{_NAMES})>\s*", re.IGNORECASE)
_LONGEST_TAG: Final = len("</reflection>")


class ThinkingFilter:
    """Passes on what a model says and drops the blocks in which it thinks.

    A block counts where it starts the answer or a line; a tag amid a sentence is text. The forms are those of
    `reme_core.text.answers.strip_thinking` that can be told before the answer is complete.

    Example:
        >>> thinking = ThinkingFilter()
        >>> [thinking.feed(piece) for piece in ("<thi", "nk>hm", "m</think>", "Hel", "lo")]
        ['', '', '', 'Hel', 'lo']
    """

    def __init__(self) -> None:
        self._held = ""
        self._inside = False
        self._line_start = True
        self._said = False

    def feed(self, piece: str) -> str:
        """Take the next piece; returns what can be shown by now."""
        self._held += piece
        shown = ""
        while True:
            if self._inside:
                close = _CLOSE.search(self._held)
                # White space after the tag is the tag's, so its end isn't known while nothing follows.
                if close is None or close.end() == len(self._held):
                    self._held = self._held[close.start() :] if close else self._held[-_LONGEST_TAG:]
                    return shown
                self._held, self._inside, self._line_start = self._held[close.end() :], False, True
            opening = _OPEN.search(self._held)
            end = opening.start() if opening else self._safe_end()
            text = self._held[:end]
            shown += self._show(text)
            self._held = self._held[end:]
            if opening is None:
                return shown
            tag = opening.group()
            self._held = self._held[len(tag) :]
            if self._line_start:
                self._inside = True
            else:
                shown += self._show(tag)

    def finish(self) -> str:
        """What was held back when the stream ended; a block that never closed stays hidden."""
        rest = "" if self._inside else self._show(self._held)
        self._held = ""
        return rest

    def _safe_end(self) -> int:
        """Where the text ends that surely isn't the beginning of a tag."""
        start = self._held.rfind("<")
        return len(self._held) if start < 0 or len(self._held) - start >= _LONGEST_TAG else start

    def _show(self, text: str) -> str:
        if not self._said:
            text = text.lstrip()
        if text:
            self._said = True
            line = text[text.rfind("\n") + 1 :]
            self._line_start = not line.strip() and ("\n" in text or self._line_start)
        return text
