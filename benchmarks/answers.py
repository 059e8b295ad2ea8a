"""Does an agent answer better with memory? Questions put to a chat model, with what each way shows it.

    python -m benchmarks.answers FILE… --llm URL [--model NAME] [--judge URL] [--questions N] [--tokens N] [--out FILE]

Files are conversations of `benchmarks/sets.py` whose questions have an answer (LoCoMo's do). Each question is asked
with the note that a turn gives, with as many messages by plain cosine of the same embedding model, with the whole
conversation (its end, where it is longer than `--context`), and with nothing. Answers are graded by exact match and by
the F1 of their tokens, as SQuAD does (Rajpurkar et al., 2016; Chinese by characters), and, with a judge, as right or
wrong by a model, the protocol that Mem0 publishes for LoCoMo (Chhikara et al., 2025, appendix A): generous about form,
strict about the thing itself.

Each answer is kept in `--out` as soon as it is there, so that a run which was stopped goes on; nothing is asked any
more once `--tokens` are spent. Intervals are 95 % by bootstrap over questions, of those that every way has answered.
The picture stands beside `--out`, where Matplotlib is installed. The last line is a JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from openai import AsyncOpenAI
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.common import fresh_reme, interval, report
from benchmarks.remembered import remember_vectors
from benchmarks.retrieval import PlainSearch, load
from benchmarks.sets import Asked, Conversation, read
from reme_core import AsyncReMe
from reme_core.engine import Engine
from reme_core.settings import WorkerSettings
from reme_core.turn import TurnMemory
from reme_core.types import Message

WAYS = ("note", "cosine", "whole conversation", "nothing")
TASK = """Answer the question in as few words as you can, with words of the conversation; a date as the day itself.

{shown}

Question: {question}
Short answer:"""
VERDICT = """Is the answer right? Be generous: it is right if it names the same thing as the expected answer, at any
length and in any words; a time is right if it means the same day or span. Reply with the one word RIGHT or WRONG.

Question: {question}
Expected answer: {expected}
Answer: {answer}"""
CHARACTERS_PER_TOKEN = 4
"""Of English, by which a whole conversation is cut to the context; a rough measure that errs on the safe side."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered one question, one way; a line of the file of answers."""

    workspace: str
    question: str
    category: str
    expected: str
    way: str
    model: str
    text: str
    exact: float
    f1: float
    judged: float | None
    tokens: int
    seconds: float

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What was asked, how and of whom."""
        return self.workspace, self.question, self.way, self.model


def words(text: str) -> list[str]:
    """Words without case, articles and punctuation; Chinese by characters."""
    plain = "".join(
        " " if unicodedata.category(c)[0] in "PS" else c for c in unicodedata.normalize("NFKC", text).casefold()
    )
    return [w for w in re.findall(r"[\u3040-\u9fff]|[^\s\u3040-\u9fff]+", plain) if w not in ("a", "an", "the")]


def grade(answer: str, expected: str) -> tuple[float, float]:
    """Exact match, and the F1 of tokens."""
    said, wanted = words(answer), words(expected)
    shared = sum((Counter(said) & Counter(wanted)).values())
    return float(said == wanted), 2 * shared / (len(said) + len(wanted)) if shared else 0.0


@dataclass
class Model:
    """A chat model behind an OpenAI-compatible endpoint, and what it was asked for."""

    url: str
    name: str
    calls: int = 0
    tokens: int = 0
    client: AsyncOpenAI = field(init=False)

    def __post_init__(self) -> None:
        self.client = AsyncOpenAI(base_url=self.url, api_key=os.environ.get("OPENAI_API_KEY") or "none", timeout=600)

    async def reply(self, prompt: str, most: int) -> tuple[str, int]:
        """The answer to a prompt, and the tokens of both."""
        done = await self.client.chat.completions.create(
            model=self.name, messages=[{"role": "user", "content": prompt}], temperature=0, max_tokens=most
        )
        used = done.usage.total_tokens if done.usage else (len(prompt) + most) // CHARACTERS_PER_TOKEN
        self.calls += 1
        self.tokens += used
        return (done.choices[0].message.content or "").strip(), used

    async def aclose(self) -> None:
        """Close the connections to it."""
        await self.client.close()


def lines(messages: Sequence[Message]) -> str:
    """Messages as a transcript."""
    return "\n".join(f"{m.sent_at:%Y-%m-%d} {m.author or m.role}: {m.content}" for m in messages)


class Ways:
    """What each way shows the model for a question of one conversation."""

    def __init__(self, reme: Engine, conversation: Conversation, top_k: int, context: int) -> None:
        self._messages = {message.message_id: message for message in conversation.messages}
        self._turn = TurnMemory(
            client=AsyncReMe.of(reme), workspace_id=conversation.workspace, top_k=top_k, on_error="raise"
        )
        self._plain = PlainSearch(conversation.docs, reme._workspace_models.default)
        self._most = 2 * top_k
        self._whole = lines(conversation.messages)[-context * CHARACTERS_PER_TOKEN :]

    async def show(self, way: str, question: str) -> str:
        """The words that stand before the question."""
        if way == "note":
            return (await self._turn.begin(question)).text
        if way == "cosine":
            found = (await self._plain.answers(question))["cosine"][: self._most]
            return lines([self._messages[name] for name in found])
        return self._whole if way == "whole conversation" else ""

    async def aclose(self) -> None:
        """Close the turn's memory."""
        await self._turn.aclose()


@dataclass
class Examination:
    """Puts the questions, and keeps the answers in a file."""

    llm: Model
    judge: Model | None
    out: Path
    most_tokens: int
    answers: dict[tuple[str, str, str, str], Answer] = field(default_factory=dict)

    def read(self) -> None:
        """Take up what an earlier run has answered."""
        if self.out.exists():
            for line in self.out.read_text(encoding="utf-8").splitlines():
                answer = Answer(**json.loads(line))
                self.answers[answer.key] = answer

    @property
    def is_spent(self) -> bool:
        """Whether no more tokens may be used; those of earlier runs count."""
        judged = self.judge.tokens if self.judge else 0
        return sum(answer.tokens for answer in self.answers.values()) + judged >= self.most_tokens

    async def ask(self, conversation: Conversation, asked: Asked, ways: Ways) -> None:
        """Put one question in all ways that are not answered yet."""
        for way in WAYS:
            key = (conversation.workspace, asked.text, way, self.llm.name)
            if key in self.answers or self.is_spent:
                continue
            begun = time.perf_counter()
            shown = await ways.show(way, asked.text)
            text, tokens = await self.llm.reply(TASK.format(shown=shown, question=asked.text), most=60)
            seconds = time.perf_counter() - begun
            exact, f1 = grade(text, asked.answer)
            judged = await self._judge(asked, text) if self.judge else None
            answer = Answer(
                conversation.workspace, asked.text, asked.category, asked.answer, way, self.llm.name,
                text, exact, f1, judged, tokens, seconds,
            )  # fmt: skip
            self.answers[key] = answer
            with self.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(answer), ensure_ascii=False) + "\n")

    async def _judge(self, asked: Asked, text: str) -> float | None:
        assert self.judge
        prompt = VERDICT.format(question=asked.text, expected=asked.answer, answer=text)
        said, _ = await self.judge.reply(prompt, most=8)
        verdict = re.search(r"right|wrong", said.casefold())
        return float(verdict[0] == "right") if verdict else None

    def complete(self) -> dict[str, list[Answer]]:
        """By way, the answers to the questions that every way has answered."""
        by_question: dict[tuple[str, str], dict[str, Answer]] = {}
        for answer in self.answers.values():
            if answer.model == self.llm.name:
                by_question.setdefault((answer.workspace, answer.question), {})[answer.way] = answer
        whole = [found for found in by_question.values() if len(found) == len(WAYS)]
        return {way: [found[way] for found in whole] for way in WAYS}


def figures(answers: Sequence[Answer]) -> dict[str, list[float]]:
    """Of each measure its mean and the ends of its interval."""
    measures = {"exact": [a.exact for a in answers], "F1": [a.f1 for a in answers]}
    judged = [a.judged for a in answers if a.judged is not None]
    if judged:
        measures["judged right"] = judged
    measures |= {"tokens": [float(a.tokens) for a in answers], "seconds": [a.seconds for a in answers]}
    found = {}
    for name, values in measures.items():
        column = np.array(values)[:, None]
        low, high = interval(column, np.ones(len(values)))
        found[name] = [round(float(number), 3) for number in (column.mean(), low[0], high[0])]
    return found


def show_table(results: dict[str, dict[str, list[float]]], count: int) -> None:
    """Print the figures, a row each way."""
    table = Table("with", *next(iter(results.values())), title=f"{count} questions")
    for way, measured in results.items():
        table.add_row(way, *(f"{mean:.3g}  {low:.3g}–{high:.3g}" for mean, low, high in measured.values()))
    Console().print(table)


def draw(results: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Draw a bar each way, with its interval."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no picture: it is drawn by Matplotlib, which is not installed (pip install 'reme-core[examples]')")
        return
    shown = [name for name in ("F1", "judged right") if all(name in measured for measured in results.values())]
    figure = Figure(figsize=(4 * len(shown), 3), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        means, lows, highs = np.array([measured[name] for measured in results.values()]).T
        axes.barh(list(results), means, xerr=(means - lows, highs - means), color="tab:blue", ecolor="grey")
        axes.invert_yaxis()
        axes.set_title(name)
    figure.savefig(path)
    print(f"drawn in {path}")


async def main(arguments: argparse.Namespace) -> None:
    """Put the questions, and say how each way did."""
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    judge = Model(arguments.judge, arguments.judge_model or arguments.model) if arguments.judge else None
    examination = Examination(Model(arguments.llm, arguments.model), judge, arguments.out, arguments.tokens)
    examination.read()
    everything = [one for path in arguments.files for one in read(path)]
    pairs = [(one, asked) for one in everything for asked in one.questions if asked.answer]
    if not pairs:
        raise SystemExit("no question of these files has an answer")
    # The same questions in each run, spread over conversations and categories.
    chosen = [pairs[place] for place in np.random.default_rng(0).permutation(len(pairs))[: arguments.questions]]
    async with fresh_reme(worker=WorkerSettings(embedded=False)) as reme:
        remember_vectors(reme)
        for conversation in everything:
            own = [asked for one, asked in chosen if one is conversation]
            if not own or examination.is_spent:
                continue
            await load(reme, conversation)
            await reme.summarise(conversation.workspace)
            ways = Ways(reme, conversation, arguments.top_k, arguments.context)
            for asked in track(own, conversation.workspace, console=Console(stderr=True)):
                await examination.ask(conversation, asked, ways)
            await ways.aclose()
    await examination.llm.aclose()
    if judge:
        await judge.aclose()
    answers = examination.complete()
    count = len(answers["note"])
    if not count:
        raise SystemExit("no question was answered in every way: --tokens were spent before")
    results = {way: figures(found) for way, found in answers.items()}
    show_table(results, count)
    draw(results, arguments.out.with_suffix(".svg"))
    unfinished = len(chosen) - count
    calls = examination.llm.calls + (judge.calls if judge else 0)
    report(benchmark="answers", model=arguments.model, questions=count, unfinished=unfinished, calls=calls, **results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument(
        "--llm", required=True, metavar="URL", help="an OpenAI-compatible endpoint; its key is OPENAI_API_KEY"
    )
    parser.add_argument("--model", default="default", help="the model's name there")
    parser.add_argument("--judge", metavar="URL", help="an endpoint whose model says what is right")
    parser.add_argument("--judge-model", default="", help="its model; else --model")
    parser.add_argument("--questions", type=int, default=100, help="of all, the same ones each time")
    parser.add_argument("--tokens", type=int, default=1_000_000, help="to spend at most")
    parser.add_argument("--top-k", type=int, default=5, help="memories, and as many messages, in a note")
    parser.add_argument("--context", type=int, default=6_000, help="tokens of the whole conversation that are shown")
    parser.add_argument("--out", type=Path, default=Path("outputs/answers.jsonl"), help="where answers are kept")
    asyncio.run(main(parser.parse_args()))
