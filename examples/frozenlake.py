"""An agent that learns from its own falls: FrozenLake 4×4, with memory across episodes and without.

    pip install "reme-core[examples]"
    python examples/frozenlake.py --agent rules
    python examples/frozenlake.py --agent llm --base-url http://localhost:11434/v1 --model qwen3:8b --maps 10

The agent never sees the map. It knows the size of the lake, where it stands, and what it stepped on in this episode;
with memory it also has the note that `reme.episodes.context` wrote from earlier episodes on the same lake, and reads
nothing else. Every lake is tried some times for practice; the last try is the test. Both arms play with the same seeds.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import gymnasium as gym
import matplotlib
import matplotlib.pyplot as plt
from gymnasium.envs.toy_text.frozen_lake import generate_random_map
from pydantic import BaseModel, SecretStr

from reme_core import Settings
from reme_core.engine import Engine
from reme_core.episodes.rules import Episode, MistakeCard
from reme_core.models import ChatModel
from reme_core.settings import ChatSettings

SIZE, MAX_STEPS = 4, 50
MOVES = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}  # in the order of the game's actions
ALL_RULES = 2 * SIZE * SIZE  # a lake teaches at most one rule a cell, and the paths that worked

Cell = tuple[int, int]


@dataclass
class Trip:
    """What the agent saw in one episode: the cells it stood on, and the moves it made."""

    lake: str
    cells: list[Cell] = field(default_factory=lambda: [(0, 0)])
    moves: list[str] = field(default_factory=list)


class Agent(Protocol):
    async def move(self, note: str, trip: Trip, chance: random.Random) -> str: ...


class RuleAgent:
    """Repeats a path that worked; else goes where it has not been, round the holes that it has been told of."""

    async def move(self, note: str, trip: Trip, chance: random.Random) -> str:
        worked = re.search(r"\[WORKS\] the path ([a-z, ]+) reaches the goal", note)
        if worked:
            path = worked[1].split(", ")
            if trip.moves == path[: len(trip.moves)] and len(trip.moves) < len(path):
                return path[len(trip.moves)]
        rules = re.findall(r"\[AVOID\] row (\d), column (\d):", note)
        cards = re.findall(rf"On {trip.lake} go round row (\d), column (\d)\.", note)
        holes = {(int(row), int(column)) for row, column in rules + cards}
        row, column = trip.cells[-1]
        ways = {name: (row + down, column + right) for name, (down, right) in MOVES.items()}
        inside = {n: c for n, c in ways.items() if 0 <= c[0] < SIZE and 0 <= c[1] < SIZE and c not in holes}
        names = list(inside) or list(ways)
        least = min(trip.cells.count(ways[name]) for name in names)
        return chance.choice([name for name in names if trip.cells.count(ways[name]) == least])


class Move(BaseModel):
    """A model's answer."""

    move: Literal["left", "down", "right", "up"]


class ModelAgent:
    """Asks a chat model for every move; it is told what the rule agent is told."""

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat

    async def move(self, note: str, trip: Trip, chance: random.Random) -> str:
        system = (
            f"You walk on a frozen lake of {SIZE} by {SIZE} cells, rows and columns counted from 0 at the top left. "
            "Some cells are holes and one is the goal; you see neither. A step on a hole ends the walk. Find the goal."
        )
        walked = ", ".join(f"row {row} column {column}" for row, column in trip.cells)
        user = (
            f'You stood on: {walked}. You are on the last of these. Which way now? Answer with JSON: {{"move": "down"}}'
        )
        messages = [{"role": "system", "content": f"{note}\n\n{system}".strip()}, {"role": "user", "content": user}]
        return (await self._chat.complete_as(messages, Move, purpose="frozenlake")).move


async def play(agent: Agent, seed: int, attempt: int, note: str) -> Episode:
    """One episode on the lake of that seed, told as the agent lived it."""
    lake = generate_random_map(size=SIZE, p=0.8, seed=seed)
    env = gym.make("FrozenLake-v1", desc=lake, is_slippery=False, max_episode_steps=MAX_STEPS)
    env.reset(seed=seed)
    chance = random.Random(f"{seed}/{attempt}")
    trip, score, ended, cut = Trip(f"lake {seed}"), 0.0, False, False
    while not (ended or cut):
        name = await agent.move(note, trip, chance)
        state, reward, ended, cut, _ = env.step(list(MOVES).index(name))
        trip.moves.append(name)
        trip.cells.append(divmod(int(state), SIZE))
        score = float(reward)
    env.close()
    return told(attempt, trip, score, fell=ended and not score)


def told(attempt: int, trip: Trip, score: float, *, fell: bool) -> Episode:
    """The episode as memory takes it in."""
    task, (row, column) = trip.lake, trip.cells[-1]
    hole = f"row {row}, column {column}: there is a hole"
    card = MistakeCard(
        mistake_type="fell_into_hole",
        bad_decision=f"{trip.moves[-1]} from row {trip.cells[-2][0]}, column {trip.cells[-2][1]}",
        correct_decision=f"go round row {row}, column {column}",
        evidence=f"{task}, attempt {attempt}",
        lesson=f"On {task} go round row {row}, column {column}.",
    )
    end = "reached the goal" if score else "fell into a hole" if fell else "ran out of steps"
    return Episode(
        episode_id=f"{task}/{attempt}",
        task_id=task,
        score=score,
        steps=len(trip.moves),
        summary=f"Went {', '.join(trip.moves)} and {end}.",
        successes=[f"the path {', '.join(trip.moves)} reaches the goal"] if score else [],
        mistakes=[hole] if fell else [],
        mistake_cards=[card] if fell else [],
    )


async def arm(reme: Engine, agent: Agent, workspace: str, maps: int, attempts: int, *, memory: bool) -> None:
    """Try all lakes again and again; each round is recorded as one batch."""
    for attempt in range(attempts):

        async def one(seed: int, attempt: int = attempt) -> Episode:
            note = await reme.episodes.context(workspace, f"lake {seed}", max_rules=ALL_RULES) if memory else ""
            return await play(agent, seed, attempt, note)

        await reme.episodes.record_many(workspace, await asyncio.gather(*(one(seed) for seed in range(maps))))


def interval(passed: int, tried: int) -> tuple[float, float]:
    """Wilson's 95 % confidence interval of a rate (E. B. Wilson, 1927)."""
    z, rate = 1.959964, passed / tried
    middle = (rate + z * z / (2 * tried)) / (1 + z * z / tried)
    half = z * math.sqrt(rate * (1 - rate) / tried + z * z / (4 * tried * tried)) / (1 + z * z / tried)
    return middle - half, middle + half


async def scores(reme: Engine, workspace: str, attempts: int) -> list[list[float]]:
    """The scores of all lakes, by attempt, as the view `learning_curve` has them."""
    points = await reme.episodes.curve(workspace)
    return [[point.score for point in points if point.attempt == attempt + 1] for attempt in range(attempts)]


def draw(curves: Mapping[str, Sequence[Sequence[float]]], folder: Path) -> list[Path]:
    """Save the share of solved lakes by attempt, with the 95 % interval, as PNG and SVG."""
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "frozenlake"
    figure, axes = plt.subplots(figsize=(6.4, 4))
    for name, rounds in curves.items():
        attempts = range(1, len(rounds) + 1)
        bounds = [interval(int(sum(each)), len(each)) for each in rounds]
        axes.plot(attempts, [sum(each) / len(each) for each in rounds], marker="o", markersize=3, label=name)
        lowest, highest = zip(*bounds, strict=True)
        axes.fill_between(attempts, lowest, highest, alpha=0.15)
    axes.set(xlabel="attempt at the same lake", ylabel="share of lakes solved", ylim=(0, 1.02), title="FrozenLake 4×4")
    axes.legend(loc="center right")
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    saved = [folder / f"frozenlake.{ending}" for ending in ("png", "svg")]
    for path in saved:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
    return saved


async def main(options: argparse.Namespace) -> bool:
    """Play both arms; whether the one with memory is better beyond both intervals."""
    attempts = options.practice + 1
    with tempfile.TemporaryDirectory(prefix="lake-") as folder:
        model = ChatSettings(model_name=options.model, base_url=options.base_url, api_key=SecretStr(options.api_key))
        llm = {"default": model} if options.agent == "llm" else {}
        async with Engine(Settings(data_dir=Path(folder), llm=llm)) as reme:
            agent: Agent = ModelAgent(reme.chat) if reme.chat is not None else RuleAgent()
            curves = {}
            for name, memory in (("memory off", False), ("memory on", True)):
                workspace = name.replace(" ", "-")
                await arm(reme, agent, workspace, options.maps, attempts, memory=memory)
                curves[name] = await scores(reme, workspace, attempts)
    bounds = {}
    for name, rounds in curves.items():
        passed, tried = int(sum(rounds[-1])), len(rounds[-1])
        bounds[name] = interval(passed, tried)
        low, high = bounds[name]
        print(
            f"{name:<10}  {passed}/{tried} lakes solved: {passed / tried:.2f}  (95 % interval {low:.2f} to {high:.2f})"
        )
    for path in draw(curves, options.output):
        print(f"saved {path}")
    return bounds["memory on"][0] > bounds["memory off"][1]


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--agent", choices=("rules", "llm"), default="rules")
    parser.add_argument("--maps", type=int, default=100, help="how many seeded lakes")
    parser.add_argument("--practice", type=int, default=10, help="episodes on each lake before the one that counts")
    parser.add_argument("--base-url", default="", help="of any OpenAI-compatible endpoint, for --agent llm")
    parser.add_argument("--model", default="", help="the model there")
    parser.add_argument("--api-key", default="none")
    parser.add_argument("--output", type=Path, default=Path("outputs"), help="where the learning curve is saved")
    given = parser.parse_args(arguments)
    if given.agent == "llm" and not (given.base_url and given.model):
        parser.error("--agent llm needs --base-url and --model")
    return given


if __name__ == "__main__":
    better = asyncio.run(main(options()))
    print("Memory helps." if better else "The intervals overlap: no difference is shown.")
