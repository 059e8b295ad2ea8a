"""Whether tool memory helps an agent to choose between tools, as ReMe 0.1's tool benchmark asks.

    python -m benchmarks.tools
    python -m benchmarks.tools --llm http://127.0.0.1:8000/v1 --model NAME --epochs 1 --queries 5

Three search tools say the same of themselves. Each is good at one sort of query and poor at others, with the chances of
failure and of results beside the point that 0.1's page has. Practice calls are reported with `add_tool_call_result`,
guidance is made with `summary_tool_memory` and fetched with `retrieve_tool_memory`; then other queries are asked with
it and without. A call scores 1 if its result is there and to the point.

Without `--llm` the model is scripted, and shows that the flows carry what a model needs, not how well one reads. It
judges a result by whether it names the query, counts in its guidance what helped by the first word of the query, and
takes the tool with the best count; without guidance it takes any.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel

from benchmarks.common import fresh_reme, interval, report
from reme_core.engine import Engine
from reme_core.models.agent_chat import AgentChat
from reme_core.models.base import Completion
from reme_core.settings import ChatSettings
from reme_core.types import Message

# The chance that a tool answers, and that its answer is to the point: github.com/modelscope/ReMe, docs/tool_memory.
TOOLS = {
    "SearchToolA": {"simple": 0.9, "moderate": 0.2, "complex": 0.5},
    "SearchToolB": {"simple": 0.3, "moderate": 0.9, "complex": 0.5},
    "SearchToolC": {"simple": 0.3, "moderate": 0.4, "complex": 0.9},
}
EARLIER = "ReMe 0.1's README, qwen3-30b: .672 without, .772 with"
FORMS = {
    "simple": "What is the {} of {}?",
    "moderate": "Explain how the {} of {} comes about",
    "complex": "Compare what research says of the {} of {}, by method and by finding",
}
_ASPECTS = "age", "size", "price", "history", "colour"
_PRACTISED = "copper", "Lisbon", "rice", "Saturn", "the violin", "chess", "glass", "the Nile"
_TESTED = "silver", "Oslo", "maize", "Mars", "the cello", "go", "paper", "the Rhine"


class Choice(BaseModel):
    """The tool that the agent takes."""

    tool: Literal["SearchToolA", "SearchToolB", "SearchToolC"]


def queries(things: Sequence[str], number: int, rng: random.Random) -> list[tuple[str, str]]:
    """So many queries of each sort, with their sort, in any order."""
    pairs = [(aspect, thing) for aspect in _ASPECTS for thing in things]
    asked = [(sort, form.format(*pair)) for sort, form in FORMS.items() for pair in rng.sample(pairs, number)]
    rng.shuffle(asked)
    return asked


async def use(reme: Engine, sort: str, query: str, guidance: str, rng: random.Random) -> tuple[dict[str, Any], float]:
    """Let the agent choose a tool, and call it: the call, and its score."""
    request = f"{guidance}\n\nAll three tools search the web. Which do you take for this query?\n{query}".strip()
    assert reme.chat is not None
    chosen = (await reme.chat.complete_as([{"role": "user", "content": request}], Choice, purpose="choose")).tool
    chance = TOOLS[chosen][sort]
    there, fits = rng.random() < chance, rng.random() < chance
    found = f"Found about “{query}”: three articles that agree." if fits else "Found about gardening: ten articles."
    call = {
        "tool_name": chosen, "input": {"query": query}, "success": there, "time_cost": 0.1, "token_cost": 20,
        "output": found if there else "Error: the search service is busy, try again later",
    }  # fmt: skip
    return call, float(there and fits)


async def epoch(reme: Engine, seed: int, number: int) -> tuple[list[float], list[float]]:
    """Practise, and ask other queries without guidance and with it: the scores of both."""
    rng, workspace, tools = random.Random(seed), f"epoch-{seed}", ",".join(TOOLS)
    calls = [(await use(reme, *query, "", rng))[0] for query in queries(_PRACTISED, number, rng)]
    await reme.execute("add_tool_call_result", workspace_id=workspace, tool_call_results=calls)
    await reme.execute("summary_tool_memory", workspace_id=workspace, tool_names=tools)
    guidance = str((await reme.execute("retrieve_tool_memory", workspace_id=workspace, tool_names=tools)).answer)
    tested = queries(_TESTED, number, rng)
    without = [(await use(reme, *query, "", rng))[1] for query in tested]
    return without, [(await use(reme, *query, guidance, rng))[1] for query in tested]


async def scripted(messages: list[Message]) -> Completion:
    """The scripted model; see the top of this file."""
    asked = "\n".join(message.content for message in messages)
    if "Which do you take" in asked:
        return _answer(tool=_best(asked))
    if "<calls>" in asked:
        return _answer(when_to_use="To search the web", guidance=_counts(asked))
    topic = re.search(r'"query": "([^"]+)"', asked)
    fits = topic is not None and f"“{topic[1]}”" in asked
    return _answer(summary="Results.", evaluation="To the point." if fits else "Of no use.", score=float(fits))


def _answer(**fields: Any) -> Completion:
    return Completion(json.dumps(fields))


def _counts(asked: str) -> str:
    """For each first word of a query: how many calls were to the point, of how many."""
    calls = re.findall(r'^\[\d+\] \{"query": "(\w+).*→ (.*)', asked, re.MULTILINE)
    good = Counter(word for word, outcome in calls if "To the point" in outcome)
    return "; ".join(f"{word}: {good[word]} of {n}" for word, n in Counter(word for word, _ in calls).items())


def _best(asked: str) -> str:
    """The tool whose guidance has the best count for queries that begin like this one."""
    word = asked.partition("for this query?\n")[2].split()[0]
    rates = dict.fromkeys(TOOLS, 0.0)
    for part in asked.split("SearchTool")[1:]:
        if count := re.search(rf"{word}: (\d+) of (\d+)", part):
            rates[f"SearchTool{part[0]}"] = int(count[1]) / int(count[2])
    best = max(rates.values())
    return random.Random(asked).choice([tool for tool, rate in rates.items() if rate == best])


async def main(given: argparse.Namespace) -> None:
    """Print both success rates, and what the earlier system reports."""
    chat = None
    overrides: dict[str, Any] = {}
    if given.llm:
        overrides["llm"] = {"default": ChatSettings(model_name=given.model, base_url=given.llm)}
    else:
        chat = AgentChat("scripted", scripted)
        chat.use_running_loop()
    scores: tuple[list[float], list[float]] = [], []
    async with fresh_reme(chat=chat, **overrides) as reme:
        for seed in range(given.epochs):
            for number, those in enumerate(await epoch(reme, seed, given.queries)):
                scores[number].extend(those)
    both = np.array(scores).T
    low, high = interval(both, np.ones(len(both)))
    rates = {
        way: {"success": round(float(rate), 3), "from": round(float(least), 3), "to": round(float(most), 3)}
        for way, rate, least, most in zip(("without", "with"), both.mean(axis=0), low, high, strict=True)
    }
    print(EARLIER)
    for way, rate in rates.items():
        print(f"{way:<8} memory: {rate['success']:.3f} of {len(both)} calls helped ({rate['from']} to {rate['to']})")
    report(
        benchmark="tools", model=given.model or "scripted", epochs=given.epochs, queries=len(both), **rates,
        holds=rates["with"]["from"] > rates["without"]["to"],
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--queries", type=int, default=20, help="of each of three sorts, for practice and for the test")
    parser.add_argument("--llm", default="", help="base URL of an OpenAI-compatible endpoint; without, it is scripted")
    parser.add_argument("--model", default="", help="the model there")
    asyncio.run(main(parser.parse_args()))
