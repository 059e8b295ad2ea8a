"""AgentScope 1's own ReMe classes on our `ReMeApp`; run by a Python that has that version (see `test_reme_app.py`).

python agentscope1_reme.py <model URL>
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from agentscope.embedding import OpenAITextEmbedding
from agentscope.memory import ReMePersonalLongTermMemory, ReMeTaskLongTermMemory, ReMeToolLongTermMemory
from agentscope.message import Msg
from agentscope.model import OpenAIChatModel
from agentscope.tool import ToolResponse

import reme_core.compat.as_reme_ai  # noqa: F401 - the one line that a user writes

CALL = {
    "create_time": "2025-11-21 10:00:00",
    "tool_name": "web_search",
    "input": {"query": "weather"},
    "output": "Found 10 results",
    "token_cost": 100,
    "success": True,
    "time_cost": 1.2,
}


def text_of(response: ToolResponse) -> str:
    return "\n".join(block["text"] for block in response.content)


async def personal(**models: Any) -> None:
    async with ReMePersonalLongTermMemory(agent_name="Friday", user_name="alice", **models) as memory:
        await memory.record([Msg("user", "I like to drink coffee in the morning", "user"), None])
        assert "coffee" in await memory.retrieve(Msg("user", "What do I drink in the morning?", "user"))
        told = text_of(await memory.record_to_memory("He says so", ["I live in Lisbon"]))
        assert "recorded" in told, told
        assert "coffee" in text_of(await memory.retrieve_from_memory(["coffee in the morning"], limit=3))


async def task(**models: Any) -> None:
    async with ReMeTaskLongTermMemory(agent_name="Friday", user_name="shop", **models) as memory:
        attempt = [
            Msg("user", "Refund order 7", "user"),
            Msg("Friday", "Refunded through the payments API.", "assistant"),
        ]
        await memory.record(attempt, score=1.0)
        assert await memory.retrieve(Msg("user", "Refund order 8", "user"))
        told = text_of(await memory.record_to_memory("Learned", ["Look at the order before refunding"]))
        assert "Successfully recorded" in told, told
        assert "refund" in text_of(await memory.retrieve_from_memory(["refund an order"])).lower()


async def tool(**models: Any) -> None:
    async with ReMeToolLongTermMemory(agent_name="Friday", user_name="tools", **models) as memory:
        told = text_of(await memory.record_to_memory("It went well", [json.dumps(CALL)]))
        assert "Successfully recorded 1" in told, told
        found = text_of(await memory.retrieve_from_memory(["web_search"]))
        assert found and "No tool guidelines" not in found, found
        await memory.record([Msg("system", json.dumps(CALL | {"output": "Found 3 results"}), "system")])
        assert await memory.retrieve(Msg("user", "web_search", "user"))


async def main(url: str) -> None:
    client = {"base_url": url}
    models = {
        "model": OpenAIChatModel("loop-chat", api_key="key", client_kwargs=client),
        "embedding_model": OpenAITextEmbedding("key", "loop-embedding", dimensions=64, base_url=url),
    }
    for kind in (personal, task, tool):
        await kind(**models)
        print(kind.__name__, "works")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
