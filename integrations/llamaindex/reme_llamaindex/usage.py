"""Reports the tokens that memory used to LlamaIndex's callbacks, where `TokenCountingHandler` adds them up."""

from __future__ import annotations

from llama_index.core import Settings
from llama_index.core.callbacks import CBEventType, EventPayload
from llama_index.core.llms import ChatMessage, ChatResponse

from reme_core.turn import Usage


def report_usage(usage: Usage) -> None:
    """Report the usage to `Settings.callback_manager`, as one call of an LLM, if there is any."""
    if not usage.calls:
        return
    spent = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
    answer = ChatResponse(message=ChatMessage(role="assistant", content=""), raw={"usage": spent})
    with Settings.callback_manager.event(CBEventType.LLM, payload={EventPayload.MESSAGES: []}) as event:
        event.on_end(payload={EventPayload.MESSAGES: [], EventPayload.RESPONSE: answer})
