"""Reports the tokens that memory used to LangChain's callbacks, where `UsageMetadataCallbackHandler` adds them up.

They are reported as a call of a chat model with the tag `nostream`, so that it does not appear in the user's stream.
"""

from __future__ import annotations

from typing import Final

from langchain_core.callbacks import AsyncCallbackManager
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, LLMResult
from langgraph.config import get_config

from reme_core.turn import Usage

MODEL_NAME: Final = "reme"
"""The model name under which the tokens are reported."""


async def report_usage(usage: Usage) -> None:
    """Report usage to the callbacks of the running graph, if there is any."""
    if usage.calls:
        callbacks = AsyncCallbackManager.configure(get_config().get("callbacks"), local_tags=["nostream"])
        for run in await callbacks.on_chat_model_start({"name": "reme"}, [[]]):
            await run.on_llm_end(_result(usage))


def _result(usage: Usage) -> LLMResult:
    spent = UsageMetadata(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
    )
    message = AIMessage(content="", usage_metadata=spent, response_metadata={"model_name": MODEL_NAME})
    return LLMResult(generations=[[ChatGeneration(message=message)]])
