"""How well personal memory is kept over a year: 60 facts that must be current, superseded or absent at given moments.

    python -m benchmarks.personal                                       # the offline rules
    python -m benchmarks.personal --llm http://127.0.0.1:8000/v1        # a chat model as well

The year (`personal_year.yaml`) has moves, changed jobs, retracted preferences, fiction, jokes, role play, pasted text
and what assistants say. Every conversation is summarised on its day, and the facts are looked up in the database. The
last line is a JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from pydantic import SecretStr

from reme_core.app import AsyncReMe
from reme_core.ops.personal.retrieval import TYPE_WEIGHTS
from reme_core.schema import Memory, Status
from reme_core.settings import ChatSettings, Settings, WorkerSettings
from reme_core.store.filters import Filters
from reme_core.text.timex import find_times

YEAR = Path(__file__).with_name("personal_year.yaml")


@dataclass(frozen=True)
class Check:
    """One fact that must be in one state at one moment."""

    day: date
    state: str
    fact: str
    patterns: tuple[str, ...]

    def found_in(self, memories: Sequence[Memory]) -> str:
        """The state that the memories give to the fact."""
        saying = [m for m in memories if self._says(m.content)]
        if any(m.status == Status.ACTIVE for m in saying):
            return "current"
        return "superseded" if saying else "absent"

    def _says(self, content: str) -> bool:
        wanted = [p for p in self.patterns if not p.startswith("!")]
        unwanted = [p.removeprefix("!") for p in self.patterns if p.startswith("!")]
        if any(re.search(pattern, content, re.IGNORECASE) for pattern in unwanted):
            return False
        return all(re.search(pattern, content, re.IGNORECASE) for pattern in wanted)


@dataclass(frozen=True)
class Outcome:
    """What became of a check."""

    person: str
    check: Check
    got: str

    @property
    def right(self) -> bool:
        return self.got == self.check.state

    @property
    def false_fact(self) -> bool:
        """Something counts as true that isn't: worse than something forgotten."""
        return self.got == "current" and self.check.state != "current"


def the_year() -> list[dict[str, Any]]:
    """The scripted year of every person."""
    people: list[dict[str, Any]] = yaml.safe_load(YEAR.read_text(encoding="utf-8"))
    return people


def checks_of(person: dict[str, Any]) -> list[Check]:
    """The facts to look up, in order of time."""
    return [Check(day, state, str(fact), tuple(map(str, patterns))) for day, state, fact, *patterns in person["checks"]]


def messages_of(session: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of one conversation in ReMe's wire form."""
    start = datetime(session["day"].year, session["day"].month, session["day"].day, 9, tzinfo=UTC)
    roles = {"u": "user", "a": "assistant"}
    return [
        {
            "role": roles[turn.partition(":")[0]],
            "content": turn.partition(":")[2].strip(),
            "time_created": (start + timedelta(minutes=number)).strftime("%Y-%m-%d %H:%M:%S"),
        }
        for number, turn in enumerate(session["turns"])
    ]


async def live(reme: AsyncReMe, person: dict[str, Any], workspace: str) -> list[Outcome]:
    """Let a person's year pass, and look their facts up on the days given."""
    outcomes = []
    waiting = checks_of(person)
    for session in person["sessions"]:
        outcomes += await _due(reme, person, workspace, [c for c in waiting if c.day < session["day"]])
        waiting = [c for c in waiting if c.day >= session["day"]]
        await reme.execute(
            "summary_personal_memory", workspace_id=workspace, trajectories=[{"messages": messages_of(session)}]
        )
    return outcomes + await _due(reme, person, workspace, waiting)


async def _due(reme: AsyncReMe, person: dict[str, Any], workspace: str, checks: Sequence[Check]) -> list[Outcome]:
    if not checks:
        return []
    memories = await reme.memories.list(workspace, Filters(status=None), limit=1_000)
    return [Outcome(person["person"], check, check.found_in(memories)) for check in checks]


async def recalled(reme: AsyncReMe, person: dict[str, Any], workspace: str, *, top_k: int = 10) -> dict[str, float]:
    """How high answers to the closing questions stand (mean reciprocal rank), by what recall is told beside them."""
    now = datetime(2024, 12, 20, 12, tzinfo=UTC)
    ranks = dict.fromkeys(RECALLS, 0.0)
    for query, pattern in person["questions"]:
        mentions = find_times(query, now=now)
        boost = next((m.range for m in mentions if m.range.start), None)
        for name, (weights, boosted) in RECALLS.items():
            found = await reme.recall(
                workspace, query, kind="personal", limit=top_k, type_weights=weights, boost=boost if boosted else None
            )
            right = (hit.rank for hit in found.hits if re.search(pattern, hit.content, re.IGNORECASE))
            ranks[name] += 1 / next(right, 1_000)
    return {name: total / len(person["questions"]) for name, total in ranks.items()}


RECALLS: dict[str, tuple[dict[str, float], bool]] = {
    "plain": ({}, False),
    "time": ({}, True),
    "types": (TYPE_WEIGHTS, False),
    "types and time": (TYPE_WEIGHTS, True),
}


async def measure(reme: AsyncReMe, name: str, *, show: bool) -> dict[str, Any]:
    """One year for everybody; prints a table and gives the counts."""
    begun = time.perf_counter()
    outcomes: list[Outcome] = []
    shares: list[dict[str, float]] = []
    for person in the_year():
        workspace = f"{name} {person['language']}"
        outcomes += await live(reme, person, workspace)
        await reme.execute("reflect", workspace_id=workspace)
        shares.append(await recalled(reme, person, workspace))
        if show:
            for memory in reversed(await reme.memories.list(workspace, Filters(status=None), limit=1_000)):
                print(f"  {memory.status:10} {memory.kind:11} {memory.observed_at:%Y-%m-%d}  {memory.content}")
    seconds = time.perf_counter() - begun
    print(f"\n{name}")
    for o in outcomes:
        verdict = "ok" if o.right else "FALSE" if o.false_fact else "missed"
        print(f"  {o.check.day}  {o.check.state:10}  {o.got:10}  {verdict:6}  {o.check.fact}")
    right = sum(o.right for o in outcomes)
    false = sum(o.false_fact for o in outcomes)
    print(f"  {right} of {len(outcomes)} right, {false} false facts, {seconds:.1f} s")
    means = {recall: round(sum(share[recall] for share in shares) / len(shares), 3) for recall in RECALLS}
    print("  mean reciprocal rank of answers: " + ", ".join(f"{recall} {share}" for recall, share in means.items()))
    return {
        "reciprocal_rank": means,
        "facts": len(outcomes),
        "right": right,
        "share_right": round(right / len(outcomes), 3),
        "false_facts": false,
        "seconds": round(seconds, 1),
        "wrong": [f"{o.check.day} {o.check.fact}: {o.got}" for o in outcomes if not o.right],
    }


async def main(arguments: argparse.Namespace) -> None:
    """Measure the rules, and the model where one is named."""
    runs: dict[str, dict[str, ChatSettings]] = {"rules": {}}
    if arguments.llm:
        model = ChatSettings(
            backend="openai",
            base_url=arguments.llm,
            model_name=arguments.model,
            api_key=SecretStr("none"),
            timeout_seconds=arguments.timeout,
            max_concurrency=1,
        )
        runs[arguments.model] = {"default": model}
    if arguments.only_model:
        runs.pop("rules")
    found = {}
    with tempfile.TemporaryDirectory(prefix="reme-", dir="/tmp") as folder:
        for name, llm in runs.items():
            settings = Settings(data_dir=Path(folder), llm=llm, worker=WorkerSettings(embedded=False))
            async with AsyncReMe(settings) as reme:
                found[name] = await measure(reme, name, show=arguments.show)
    print(json.dumps({"benchmark": "personal", **found}, ensure_ascii=False))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llm", help="an OpenAI-compatible endpoint, such as http://127.0.0.1:8000/v1")
    parser.add_argument("--model", default="default", help="the model's name there")
    parser.add_argument("--timeout", type=float, default=600, help="seconds to wait for one answer")
    parser.add_argument("--only-model", action="store_true", help="leave the rules out")
    parser.add_argument("--show", action="store_true", help="print every memory that was made")
    asyncio.run(main(parser.parse_args()))
