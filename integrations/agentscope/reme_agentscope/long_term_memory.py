"""`ReMeLongTermMemory`: long-term memory for agents of AgentScope 1."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Unpack

from agentscope.memory import LongTermMemoryBase
from agentscope.message import Msg, TextBlock
from agentscope.model import ChatModelBase, ChatResponse
from agentscope.tool import ToolResponse

from reme_core.errors import InputError
from reme_core.turn import (
    AgentChat,
    Client,
    Closing,
    Completion,
    MemoryTools,
    ReMeLike,
    TurnMemory,
    TurnOptions,
    calls_in,
    check_model,
    check_session,
    heard_call,
    heard_message,
    text_of_value,
)
from reme_core.types import Message, new_id

NOTE_NAME: Final = "long_term_memory"
"""The name of the message by which a `ReActAgent` puts the note into its working memory."""


class ReMeLongTermMemory(LongTermMemoryBase, Closing):  # type: ignore[misc]  # of AgentScope 1, which has no types beside 2
    """Long-term memory for `ReActAgent(long_term_memory=…)`.

    In the modes `static_control` and `both` the agent retrieves before each reply and records after it. AgentScope 1
    puts the note into the agent's working memory; after the reply the note is emptied there, so that notes do not pile
    up. An interrupted agent does not record: the user's message is recorded with the next reply, without the
    interrupted one. In the modes `agent_control` and `both` it has the tools `record_to_memory` and
    `retrieve_from_memory`.

    ```python
    memory = ReMeLongTermMemory(workspace_id="alice")
    agent = ReActAgent("assistant", "You are helpful.", model, formatter, long_term_memory=memory)
    ```
    """

    def __init__(
        self,
        database_url: ReMeLike = None,
        workspace_id: str | None = None,
        *,
        client: Client | None = None,
        session_id: str | None = None,
        chat_model: ChatModelBase | None = None,
        **options: Unpack[TurnOptions],
    ) -> None:
        """Choose the workspace, and how a reply uses its memory.

        Args:
            database_url: A database URL or settings; None for the settings of the environment.
            workspace_id: The workspace. By default all users share the workspace `default`.
            client: An open `AsyncReMe` or `ReMe` in place of a URL; it is never closed here.
            session_id: The id of the conversation; by default a new one, which `state_dict` keeps.
            chat_model: The model that reads conversations for memory, such as the agent's own; by default the one in
                the settings. Without any, people's statements are kept word for word.
            options: How a reply uses memory; see `TurnOptions`. There is no `window`.

        Raises:
            InputError: An option is unknown, or a value does not fit.
        """
        super().__init__()
        chat = as_chat(chat_model) if chat_model is not None else None
        self.turn = TurnMemory(database_url, workspace_id, client=client, chat=chat, **options)
        if self.turn.position != "user":
            raise InputError("position can only be 'user': AgentScope 1 itself puts what is retrieved into its memory")
        if self.turn.window is not None:
            raise InputError(
                "there is no window: AgentScope 1 itself chooses what the model is shown (CompressionConfig)"
            )
        self.session_id = check_session(session_id) or new_id()
        self.register_state("session_id")

    async def aclose(self) -> None:
        """Deliver what waits and disconnect. AgentScope never closes a memory, so the application must."""
        await self.turn.aclose()

    async def retrieve(self, msg: Msg | list[Msg] | None, limit: int = 5, **kwargs: Any) -> str:
        """The note about a message; empty if nothing was recalled.

        Args:
            msg: The message or messages that the agent replies to.
            limit: Not used; the options `top_k` and `token_budget` limit the note.
            kwargs: Not used.
        """
        asked = [message for one in _as_list(msg) for message in from_msg(one, self.session_id)]
        if not asked:
            return ""
        # Whoever is replied to asks, also if it is another agent.
        asked = [one.model_copy(update={"role": "user"}) if one.role == "assistant" else one for one in asked]
        return (await self.turn.begin(asked, session_id=self.session_id)).text

    async def record(self, msgs: list[Msg | None], **kwargs: Any) -> None:
        """Record the new messages of a working memory.

        Args:
            msgs: All its messages, as an agent gives them after every reply.
            kwargs: Not used.
        """
        given = [msg for msg in msgs if msg is not None]
        said = [message for msg in _without_interrupted_replies(given) for message in from_msg(msg, self.session_id)]
        self.turn.record_calls(calls_in(said))
        await self.turn.record(said, session_id=self.session_id)
        for msg in given:
            if msg.name == NOTE_NAME:
                msg.content = []  # formatters skip a message without content

    # AgentScope makes the schemas of the next two tools from their docstrings, which are written for the model.

    async def record_to_memory(  # noqa: D417
        self, thinking: str, content: list[str], **kwargs: Any
    ) -> ToolResponse:
        """Store lasting facts in long-term memory, so that they are known in later conversations.

        Use it for facts about the user, their wishes, and lessons learned; not for small talk.

        Args:
            thinking (`str`):
                Why this is worth remembering.
            content (`list[str]`):
                The facts, each as one full sentence that makes sense on its own.
        """
        tools = MemoryTools(self.turn)
        return _response([await tools.add_memory(fact) for fact in _as_list(content)])

    async def retrieve_from_memory(  # noqa: D417
        self, keywords: list[str], limit: int = 5, **kwargs: Any
    ) -> ToolResponse:
        """Search long-term memory for what was said or learned in earlier conversations.

        Args:
            keywords (`list[str]`):
                What to look for: each is searched by itself, a name, a date, or a short phrase.
            limit (`int`, optional):
                How many memories to give for each at most, and as many quotes of what was said, 1 to 20.
        """
        tools = MemoryTools(self.turn)
        found = await asyncio.gather(*(tools.search_memory(word, limit) for word in _as_list(keywords)))
        return _response(list(dict.fromkeys(found)))


def from_msg(msg: Msg, session_id: str = "") -> list[Message]:
    """A message of AgentScope 1 as `Message`s: its text with the tool calls, and their results."""
    text = heard_message(
        msg.role,
        msg.get_text_content(),
        author="" if msg.name == "user" else msg.name,
        own_id=msg.id,
        session_id=session_id,
        tool_calls=[
            heard_call(block.get("id"), block.get("name"), block.get("input"))
            for block in msg.get_content_blocks("tool_use")
        ],
        metadata=msg.metadata,
    )
    results = [
        heard_message(
            "tool",
            _output_text(block.get("output")),
            author=block.get("name"),
            own_id=f"{msg.id}:{block.get('id')}",
            session_id=session_id,
            tool_call_id=block.get("id"),
        )
        for block in msg.get_content_blocks("tool_result")
    ]
    return results if results and not text.content else [text, *results]


def as_chat(model: ChatModelBase) -> AgentChat:
    """A model of the framework as the chat model of memory."""
    check_model(model, ChatModelBase)

    async def answer(messages: list[Message]) -> Completion:
        given = await model([{"role": message.role, "content": message.content} for message in messages])
        pieces = [given] if isinstance(given, ChatResponse) else [piece async for piece in given]
        response = pieces[-1]  # if the model streams, the last piece is the whole response
        used = response.usage
        tokens = (used.input_tokens, used.output_tokens) if used else (0, 0)
        return Completion(_output_text(response.content), "", [], *tokens)

    return AgentChat(model.model_name, answer)


def _without_interrupted_replies(msgs: Sequence[Msg]) -> list[Msg]:
    """The messages without notes, and without what an interrupted agent said after the user's message."""
    kept: list[Msg] = []
    for msg in msgs:
        if msg.name == NOTE_NAME:
            continue
        if isinstance(msg.metadata, dict) and msg.metadata.get("_is_interrupted"):
            while kept and kept[-1].role != "user":
                kept.pop()
            continue
        kept.append(msg)
    return kept


def _output_text(output: Any) -> str:
    if not isinstance(output, list | tuple):
        return text_of_value(output)
    return "\n".join(block["text"] for block in output if block["type"] == "text")


def _response(texts: Sequence[str]) -> ToolResponse:
    return ToolResponse(content=[TextBlock(type="text", text=text) for text in texts])


def _as_list(given: Any) -> list[Any]:
    # Models also give a text where a list of texts is asked for; its characters are no facts.
    return [] if given is None else given if isinstance(given, list) else [given]
