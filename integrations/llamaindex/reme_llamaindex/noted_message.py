"""`NotedMessage`: a message with a note that only the model is shown.

Front ends also get what a memory gives to an agent: agents stream it (`AgentInput`) before they call a model. So the
note is kept beside the message, and is put into the prompt when the model is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from llama_index.core.base.llms.types import ContentBlock
from llama_index.core.llms import ChatMessage, MessageRole, TextBlock
from pydantic import PrivateAttr

from reme_core.turn import Position


class NotedMessage(ChatMessage):
    """A message with a hidden note; `show_notes` puts the note into the prompt."""

    _note: str = PrivateAttr(default="")
    _position: Position = PrivateAttr(default="user")
    _behind: bool = PrivateAttr(default=False)

    @classmethod
    def of(cls, message: ChatMessage, note: str, position: Position, *, behind: bool = False) -> Self:
        """A message with a note, which is to stand in this message (`user`) or in the `system` message.

        With `behind`, a note for `user` stands in a message of its own behind this one.
        """
        noted = cls.model_construct(**dict(message))
        noted._note, noted._position, noted._behind = note, position, behind
        return noted

    def format_vars(self, **kwargs: Any) -> Self:
        """The message as a chat engine's prompt template makes it anew, with its note."""
        return self.of(super().format_vars(**kwargs), self._note, self._position, behind=self._behind)


def show_notes(prompt: list[ChatMessage]) -> None:
    """Replace each `NotedMessage` in a prompt by its message, and put its note into the prompt; changes the list."""
    # The blank lines: LlamaIndex's OpenAI joins the blocks of a message with nothing between.
    for noted in [message for message in prompt if isinstance(message, NotedMessage)]:
        place = next(place for place, message in enumerate(prompt) if message is noted)
        if noted._position == "user":
            note = TextBlock(text=f"{noted._note}\n\n")
            if noted._behind:
                shown = [_with_blocks(noted, noted.blocks), ChatMessage(role=MessageRole.USER, blocks=[note])]
            else:
                shown = [_with_blocks(noted, [note, *noted.blocks])]
            prompt[place : place + 1] = shown
            continue
        prompt[place : place + 1] = [_with_blocks(noted, noted.blocks)] if noted.blocks else []
        head = next((message for message in prompt if message.role == MessageRole.SYSTEM), None)
        if head is None:
            prompt.insert(0, ChatMessage(role=MessageRole.SYSTEM, content=noted._note))
        else:
            prompt[prompt.index(head)] = _with_blocks(head, [*head.blocks, TextBlock(text=f"\n\n{noted._note}")])


def _with_blocks(message: ChatMessage, blocks: Sequence[ContentBlock]) -> ChatMessage:
    return ChatMessage.model_construct(**dict(message) | {"blocks": list(blocks)})
