"""A long task in a small window: how full it gets, whether what left it is found again, and what that costs.

    python -m benchmarks.working_memory

A scripted agent works through 200 turns in a window of 16,000 tokens. 40 of them call tools whose outputs have 2 to
50 KB (logs, one-line JSON, tables, code). In the second half it is asked 20 questions about rows in the middle of those
outputs, none of which the window shows any more; it answers them with the two tools alone. This is done with the whole
conversation given before every call of the model, and with what the last fitting left; with a chat model (scripted: it
chooses by the numbers of lines) and without. Tokens are counted by our estimate, and by cl100k where LlamaIndex, which
ships it, is installed.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.common import fresh_reme, percentiles, report
from reme_core import AsyncReMe
from reme_core.models.agent_chat import AgentChat
from reme_core.models.base import Completion
from reme_core.prompts.budget import most_tokens
from reme_core.turn import TurnMemory, WindowTools, fit_window
from reme_core.types import Message, ToolCall
from reme_core.working.window import check_context

WINDOW, TURNS, OUTPUTS, QUESTIONS = 16_000, 200, 40, 20
BAR = 0.75


def output(number: int, rng: random.Random) -> tuple[str, str, str]:
    """An output of a tool, a pattern that finds one of its middle rows, and the id that stands in it."""
    size = rng.randint(2_000, 50_000)
    rows: list[str] = []
    while sum(map(len, rows)) < size:
        n, value = len(rows), f"{rng.randrange(10**9):09d}"
        rows.append(
            (
                f"2026-11-23T10:{n % 60:02d}:{number:02d}Z INFO job-{number} step {n} took {n % 97} ms, id {value}",
                json.dumps({"job": number, "row": n, "name": f"item-{n}", "id": value}),
                f"| job-{number} | row {n} | {n * 3.7:.2f} | {value} |",
                f"    if job == {number} and row == {n}:\n        return load('part_{n}.csv', id={value})",
            )[number % 4]
        )
    place = len(rows) // 2
    found = re.search(r"\d{9}", rows[place])
    assert found is not None
    pattern = (
        f"job-{number} step {place} ", f'"job": {number}, "row": {place},',
        rf"job-{number} \| row {place} \|", f"job == {number} and row == {place}:",
    )[number % 4]  # fmt: skip
    return (", " if number % 4 == 1 else "\n").join(rows), found[0], pattern


@dataclass
class Run:
    """What one way of working came to."""

    shares: list[float] = field(default_factory=list)
    exact: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    compactions: int = 0
    most_calls: int = 0
    answered: int = 0
    parted: int = 0
    lost: int = 0


class Agent:
    """The scripted agent: it shows its model what fits, and keeps all that was said."""

    def __init__(self, turn: TurnMemory, calls: list[str], whole: bool, exact: Callable[[str], int] | None) -> None:
        self.turn, self.calls, self.whole, self.exact = turn, calls, whole, exact
        self.tools = {tool.__name__: tool for tool in WindowTools(turn, lambda: "task").all()}
        self.said: list[Message] = [
            Message(role="system", content="You look into jobs, and answer from what they gave.")
        ]
        self.context = list(self.said)
        self.run = Run()

    def say(self, *messages: Message) -> None:
        self.said += messages
        self.context += messages

    async def look(self) -> list[Message]:
        """What the model sees next."""
        before, began = len(self.calls), time.perf_counter()
        fitted = await fit_window(self.turn, self.said if self.whole else self.context, "task")
        assert fitted is not None
        self.run.seconds.append(time.perf_counter() - began)
        self.run.shares.append(fitted.use.share)
        if self.exact is not None:
            self.run.exact.append(check_context(fitted.messages, WINDOW, count_tokens=self.exact).share)
        self.run.compactions += bool(fitted.made)
        self.run.most_calls = max(self.run.most_calls, len(self.calls) - before)
        called = [call.id for message in fitted.messages for call in message.tool_calls]
        self.run.parted += called != [m.tool_call_id for m in fitted.messages if m.role == "tool"]
        if not self.whole:
            self.context = list(fitted.messages)
        return fitted.messages

    async def use(self, name: str, result: str | None = None, **arguments: Any) -> str:
        """Call a tool: one of the two, or one whose result is given."""
        call = ToolCall(id=f"call-{len(self.said)}", name=name, arguments=json.dumps(arguments))
        told = result if result is not None else await self.tools[name](**arguments)
        self.say(Message(role="assistant", tool_calls=[call]), Message(role="tool", tool_call_id=call.id, content=told))
        await self.look()
        return str(told)


async def work(agent: Agent, rng: random.Random) -> None:
    """200 turns, and what of them is still there."""
    details: list[tuple[int, str, str]] = []
    asked = iter(range(QUESTIONS))
    for turn in range(TURNS):
        agent.say(Message(content=f"Turn {turn}: look at part {rng.randrange(10**6)} and tell me how it stands."))
        await agent.look()
        if turn % (TURNS // OUTPUTS) == 0:
            number = turn // (TURNS // OUTPUTS)
            text, answer, pattern = output(number, rng)
            details.append((number, answer, pattern))
            await agent.use("read_job", text, job=number)
        if turn >= TURNS // 2 and turn % 5 == 2 and (n := next(asked, None)) is not None:
            await ask(agent, *details[n])
        words = " ".join(
            rng.choices(
                ["the", "job", "has", "run", "as", "planned", "and", "its", "part", "waits", "for", "review"], k=60
            )
        )
        agent.say(Message(role="assistant", content=f"Decided for turn {turn}: keep part_{turn}.csv. {words}"))
    visible = "\n".join([message.content for message in await agent.look()])
    kept = visible + "".join(
        [await everything(agent, one.artifact_id) for one in await agent.turn.reme.working.artifacts("w", "task")]
    )
    agent.run.lost = sum(
        message.content not in kept and json.dumps(message.content)[1:-1] not in kept for message in agent.said
    )


async def ask(agent: Agent, number: int, answer: str, pattern: str) -> None:
    """Ask for the id in a row of an output, which only the tools can tell now."""
    agent.say(Message(content=f"Which id has the row {pattern!r} of job {number}?"))
    assert answer not in str(await agent.look()), "it still stands in the window"
    found = re.search(r"(\w{12}) @(\d+) ", await agent.use("grep_working_memory", pattern=pattern))
    if found:
        told = await agent.use("read_working_memory", handle=found[1], offset=int(found[2]))
        row = re.search(rf"{pattern}[\s\S]*?\b(\d{{9}})\b", told)
        agent.run.answered += row is not None and row[1] == answer


async def everything(agent: Agent, handle: str) -> str:
    """An artifact, read to its end."""
    return (await agent.turn.reme.working.read("w", handle, size=10**8)).text


async def measure(whole: bool, with_model: bool, exact: Callable[[str], int] | None) -> dict[str, Any]:
    """One way of working, from an empty database."""
    calls: list[str] = []

    async def choose(messages: list[Message]) -> Completion:
        calls.append(messages[-1].content)
        numbers = [int(n) for n in re.findall(r"^\[(\d+)\]", messages[-1].content, re.M)]
        return Completion(
            json.dumps({"tasks": numbers[-3:], "facts": numbers[:3], "story": "The jobs were looked at."})
        )

    model = AgentChat("scripted", choose)
    model.use_running_loop()
    async with fresh_reme(chat=model if with_model else None) as reme:
        turn = TurnMemory(AsyncReMe.of(reme), "w", window=WINDOW, on_error="raise")
        agent = Agent(turn, calls, whole, exact)
        await work(agent, random.Random(23))
    run = agent.run
    return {
        "peak_share": round(max(run.shares), 3),
        "peak_share_cl100k": round(max(run.exact), 3) if run.exact else None,
        "answered": f"{run.answered} of {QUESTIONS}",
        "compactions": run.compactions,
        "most_model_calls_of_one": run.most_calls,
        "parted_pairs": run.parted,
        "lost_messages": run.lost,
        "tokens_without": sum(most_tokens(message.content) for message in agent.said),
        "milliseconds": percentiles(run.seconds),
        "holds": max(*run.shares, *run.exact) < BAR and run.answered == QUESTIONS and run.most_calls <= 1
        and not run.parted and not run.lost,
    }  # fmt: skip


async def main() -> None:
    """Measure all ways and print what they came to."""
    try:
        from llama_index.core.utils import get_tokenizer
    except ImportError:
        exact = None
    else:
        tokenizer = get_tokenizer()

        def exact(text: str) -> int:
            return len(tokenizer(text))

    results = {}
    for name, whole, with_model in (
        ("whole, by rules", True, False), ("whole, with a model", True, True),
        ("carried on, by rules", False, False), ("carried on, with a model", False, True),
    ):  # fmt: skip
        results[name] = await measure(whole, with_model, exact)
        print(f"{name}: {results[name]}")
    report(window=WINDOW, turns=TURNS, outputs=OUTPUTS, ways=results, holds=all(r["holds"] for r in results.values()))


if __name__ == "__main__":
    asyncio.run(main())
