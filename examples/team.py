"""A team in AutoGen with one memory: what it was told in one task, both members know in the next.

pip install "reme-core[autogen]" "autogen-ext[openai]"
OPENAI_API_KEY=… python examples/team.py "Write two lines about our shop. We never say 'cheap'."
OPENAI_API_KEY=… python examples/team.py "Write two lines about our spring sale."
"""

from __future__ import annotations

import argparse
import asyncio

from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_agentchat.ui import Console
from autogen_ext.models.openai import OpenAIChatCompletionClient
from reme_autogen import ReMeAssistantAgent, ReMeMemory

from reme_core import AsyncReMe

DUTIES = {
    "writer": "You write what is asked for, and mend it as the editor says.",
    "editor": "You judge what the writer wrote by what the user wants. Say APPROVED once nothing is to be mended.",
}


async def main(task: str) -> None:
    """Let the team work at a task."""
    model = OpenAIChatCompletionClient(model="gpt-4.1-mini")
    async with AsyncReMe() as reme:
        members = [
            ReMeAssistantAgent(name, model, system_message=duty, memory=[ReMeMemory(client=reme, workspace_id="team")])
            for name, duty in DUTIES.items()
        ]
        enough = TextMentionTermination("APPROVED", sources=["editor"]) | MaxMessageTermination(8)
        await Console(RoundRobinGroupChat(members, termination_condition=enough).run_stream(task=task))
        for member in members:
            await member.close()
    await model.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("task")
    asyncio.run(main(parser.parse_args().task))
