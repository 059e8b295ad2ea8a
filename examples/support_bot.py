"""A support bot in LangGraph: it remembers its customers, and asks a colleague before it gives money back.

    pip install "reme-core[langchain]" langchain-openai
    OPENAI_API_KEY=… python examples/support_bot.py ann

Each customer is a tenant. A refund interrupts the graph until somebody at the terminal has decided; the turn is then
resumed, with the note that it began with. An empty line ends it.
"""

from __future__ import annotations

import argparse
import uuid

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from reme_langchain import ReMeMiddleware


@tool
def refund(order: str, euros: float) -> str:
    """Give a customer money back for an order."""
    return f"{euros:.2f} euros were given back for order {order}."


def decide(request: dict[str, object]) -> dict[str, str]:
    """Ask the colleague at the terminal."""
    if input(f"colleague, {request['name']} {request['args']}? [y/n] ") == "y":
        return {"type": "approve"}
    return {"type": "reject", "message": "A colleague has refused this."}


def main() -> None:
    """Serve a customer until an empty line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("customer")
    customer = parser.parse_args().customer
    memory = ReMeMiddleware(workspace_id=customer)
    agent = create_agent(
        "openai:gpt-4.1-mini",
        [refund],
        system_prompt="You serve the customers of a shoe shop.",
        middleware=[
            memory,
            HumanInTheLoopMiddleware(interrupt_on={"refund": {"allowed_decisions": ["approve", "reject"]}}),
        ],
        checkpointer=InMemorySaver(),
    )
    thread = {"configurable": {"thread_id": str(uuid.uuid4())}}
    while said := input("customer: "):
        state = agent.invoke({"messages": [{"role": "user", "content": said}]}, thread)
        while interrupts := state.get("__interrupt__"):
            decisions = [decide(request) for request in interrupts[0].value["action_requests"]]
            state = agent.invoke(Command(resume={"decisions": decisions}), thread)
        print("bot:", state["messages"][-1].text)
    memory.close()


if __name__ == "__main__":
    main()
