"""What is asked of the conversations of sets, and what is found; `benchmarks/fit_relevance.py` fits to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from rich.console import Console
from rich.progress import track

from benchmarks.common import fresh_reme
from benchmarks.remembered import remember_vectors
from benchmarks.retrieval import load, quoted
from benchmarks.sets import Asked, Conversation, read
from benchmarks.variants import SIZES, begun_just_now, facts_as_memories, further_questions
from reme_core.engine import Engine
from reme_core.settings import WorkerSettings
from reme_core.store.filters import Filters
from reme_core.store.relevance import Found, Question, query_signs

DATA = Path(__file__).parent / "data"
DEPTH = 10
FOREIGN = 40
"""Questions of another conversation that are asked of each."""
DRAWN, DRAWN_OF_FEW = 400, 20
"""Queries about nothing that are drawn for a conversation, and for one of the workspaces made of it."""
SHORT_DRAWN, SHORT_DRAWN_OF_FEW = 250, 10
"""The same of short replies, and as many of those that are only measured."""
SHORT = ("short", "short test")
"""The labels of short replies."""
FURTHER, BEGUN = 40, 12
"""Questions and workspaces that are made of a conversation."""


@dataclass
class Sample:
    """A query that was asked of a conversation, and what was found."""

    set: str
    workspace: str
    label: str
    """`real`, `foreign`, or about nothing: `fit`, `dev` (of nothing.json) and `own` (of the conversation's file), which
    are fitted on, `short`, which the fit of short queries has besides, `test` and `short test`."""
    question: Question
    found: Found
    right: list[bool]
    evidence: int
    signs: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        self.signs = query_signs(self.question.text, self.found)

    @property
    def recall(self) -> float:
        """The share of the evidence among the first ten."""
        return sum(self.right[:10]) / max(self.evidence, 1)


def nothing() -> Iterator[tuple[str, str]]:
    """Queries about nothing, each with its label."""
    for raw in json.loads((DATA / "nothing.json").read_text(encoding="utf-8")):
        yield raw["split"], raw["text"]
    for name in ("nothing_en.txt", "nothing_zh.txt"):
        for line in (DATA / name).read_text(encoding="utf-8").splitlines():
            yield "fit", line
    for path in sorted((DATA / "short").glob("*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield "short test" if path.stem == "test" else "short", line


def short_replies(label: str, language: str) -> list[str]:
    """The short replies of a label; those to fit on are in the language of a conversation, where there are some in it.

    If these were asked of every conversation, a fit would know them by their language.
    """
    path = DATA / "short" / "languages" / f"{language}.txt"
    if label == "short" and path.is_file():
        return path.read_text(encoding="utf-8").splitlines()
    return [text for own, text in nothing() if own == label]


async def samples_of(
    reme: Engine, conversation: Conversation, others: Sequence[Conversation], draw: Random
) -> list[Sample]:
    """Everything that is asked of one loaded conversation."""
    foreign = [asked for other in others for asked in other.questions][:FOREIGN]
    asked = [("real", question) for question in conversation.questions]
    asked += [(label, Asked(text, "", frozenset())) for label, text in _drawn(conversation, draw)]
    asked += [("own", Asked(text, "", frozenset())) for text in conversation.nothing]
    asked += [("foreign", Asked(question.text, "", frozenset())) for question in foreign]
    filters = Filters.of(kind="conversation" if conversation.messages else None)
    samples = []
    for label, one in asked:
        [question] = await reme.recall_steps.questions(conversation.workspace, one.text, [(filters, DEPTH)])
        found = await reme.recall_steps.find(question)
        right = [match.memory["memory_id"] in one.evidence for match in found.matches]
        # Their texts are not needed any more, and would fill the memory of a small machine.
        bare = [match._replace(memory={"kind": match.memory["kind"]}) for match in found.matches]
        found = replace(found, matches=bare)
        samples.append(
            Sample(conversation.set, conversation.workspace, label, question, found, right, len(one.evidence))
        )
    return samples


def _drawn(conversation: Conversation, draw: Random) -> list[tuple[str, str]]:
    """The queries about nothing that a conversation is asked."""
    few, own_draw = len(conversation.docs) <= max(SIZES), Random(conversation.workspace)
    long = [(label, text) for label, text in nothing() if label not in SHORT]
    always = [] if few else [(label, text) for label, text in long if label != "fit"]
    others = long if few else [(label, text) for label, text in long if label == "fit"]
    found = always + draw.sample(others, min(len(others), DRAWN_OF_FEW if few else DRAWN))
    for label in SHORT:
        short = own_draw.sample(short_replies(label, conversation.language), SHORT_DRAWN_OF_FEW if few else SHORT_DRAWN)
        found += [(label, text) for text in short]
    return found


async def of_variants(reme: Engine, conversation: Conversation, draw: Random) -> list[Sample]:
    """Everything that is asked in other words, and of the workspaces made of a loaded conversation with messages."""
    further = further_questions(conversation, FURTHER, draw)
    in_words = replace(conversation, set=f"{conversation.set}, words", questions=further)
    samples = await samples_of(reme, in_words, [], draw)
    asked = [*conversation.questions, *further]
    for begun in begun_just_now(replace(conversation, questions=asked), BEGUN, draw):
        await load(reme, begun)
        samples += await samples_of(reme, begun, [], draw)
    return samples


async def gather(paths: Sequence[Path], most: int | None) -> list[Sample]:
    """What is found in all conversations of the files."""
    sets: dict[str, list[Conversation]] = {}
    for path in paths:
        for conversation in read(path):
            sets.setdefault(conversation.set, []).append(conversation)
            if conversation.set == "people":
                sets.setdefault("people, facts", []).extend(facts_as_memories(path))
    samples, draw = [], Random(0)
    async with fresh_reme(worker=WorkerSettings(embedded=False)) as reme:
        remember_vectors(reme)
        for name, conversations in sets.items():
            chosen = sorted(conversations, key=lambda conversation: len(conversation.docs))[:most]
            for conversation in track(chosen, name, console=Console(stderr=True)):
                others = [other for other in chosen if other.workspace != conversation.workspace]
                await load(reme, conversation)
                samples += await samples_of(reme, conversation, others, draw)
                if name == "people" or conversation.nothing:
                    own = replace(await quoted(reme, conversation), set=f"{name}, quotes")
                    samples += await samples_of(reme, own, others, draw) if own.docs else []
                if conversation.messages and not conversation.nothing:
                    samples += await of_variants(reme, conversation, draw)
    return [sample for sample in samples if sample.found.matches and sample.question.vector is not None]
