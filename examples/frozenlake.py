"""An agent that learns from its own falls: FrozenLake 4×4, with memory across episodes and without.

    pip install "reme-core[examples]"
    python examples/frozenlake.py --agent rules
    python examples/frozenlake.py --agent llm --base-url http://localhost:11434/v1 --model qwen3:8b --maps 10

The agent never sees the map. It knows the size of the lake, where it stands, and what it stepped on in this episode;
with memory it also has the note that `reme.episodes.context` wrote from earlier episodes on the same lake, and reads
nothing else. Every lake is tried some times for practice; the last try is the test. Both arms play with the same seeds.

    python examples/frozenlake.py --protocol transfer --seeds 3

asks the other question, as ReMe 0.1's experiment did: does practice on 50 lakes help on 100 others? Successes teach the
task memory, which is asked with the text of the map. A chat model sees the map as well. The agent of rules does not:
without memory it goes where it has not been, with memory it goes the first way that its note says has worked somewhere.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import random
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

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

OFF, ON = "memory off", "memory on"
EARLIER = {"ReMe 0.1's README: qwen3-8b, 100 lakes": ["0.66", "0.72"]}  # github.com/modelscope/ReMe

Cell = tuple[int, int]


@dataclass
class Trip:
    """What the agent saw in one episode: the cells it stood on, and the moves it made."""

    lake: str
    rows: list[str]  # the map, which only MapAgent looks at
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


class FollowingAgent(RuleAgent):
    """Goes the first way that the note says has worked, on whatever lake; then where it has not been."""

    async def move(self, note: str, trip: Trip, chance: random.Random) -> str:
        worked = re.search(r"The tools that worked, in this order: ([^.…]+)", note)
        runs = re.findall(r"(\w+)\(\)(?: ×(\d+))?", worked[1]) if worked else []
        path = [name for name, times in runs for _ in range(int(times or 1))]
        if trip.moves == path[: len(trip.moves)] and len(trip.moves) < len(path):
            return path[len(trip.moves)]
        return await super().move("", trip, chance)


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
            f"{self.sees(trip)} A step on a hole ends the walk. Find the goal."
        )
        walked = ", ".join(f"row {row} column {column}" for row, column in trip.cells)
        user = (
            f'You stood on: {walked}. You are on the last of these. Which way now? Answer with JSON: {{"move": "down"}}'
        )
        messages = [{"role": "system", "content": f"{note}\n\n{system}".strip()}, {"role": "user", "content": user}]
        return (await self._chat.complete_as(messages, Move, purpose="frozenlake")).move

    def sees(self, trip: Trip) -> str:
        """What it is told of the lake."""
        return "Some cells are holes and one is the goal; you see neither."


class MapAgent(ModelAgent):
    """It is shown the map, too."""

    def sees(self, trip: Trip) -> str:
        lines = "\n".join(trip.rows)
        return f"This is the map (S start, F frozen, H hole, G goal):\n{lines}\n"


async def play(agent: Agent, seed: int, attempt: int, note: str) -> Episode:
    """One episode on the lake of that seed, told as the agent lived it."""
    trip = Trip(f"lake {seed}", generate_random_map(size=SIZE, p=0.8, seed=seed))
    score, fell = await walk(agent, trip, note, f"{seed}/{attempt}")
    return told(attempt, trip, score, fell=fell)


async def walk(agent: Agent, trip: Trip, note: str, seed: str) -> tuple[float, bool]:
    """Let the agent walk to an end: the score, and whether it fell into a hole."""
    env = gym.make("FrozenLake-v1", desc=trip.rows, is_slippery=False, max_episode_steps=MAX_STEPS)
    env.reset(seed=0)
    chance = random.Random(seed)
    score, ended, cut = 0.0, False, False
    while not (ended or cut):
        name = await agent.move(note, trip, chance)
        state, reward, ended, cut, _ = env.step(list(MOVES).index(name))
        trip.moves.append(name)
        trip.cells.append(divmod(int(state), SIZE))
        score = float(reward)
    env.close()
    return score, ended and not score


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


def lakes(seed: int, number: int) -> list[list[str]]:
    """Lakes of which no two are the same."""
    found: dict[str, list[str]] = {}
    for one in itertools.count(10_000 * seed):
        rows = generate_random_map(size=SIZE, p=0.8, seed=one)
        found.setdefault("".join(rows), rows)
        if len(found) == number:
            return list(found.values())
    raise AssertionError


def trajectory(trip: Trip, score: float) -> dict[str, Any]:
    """An attempt as task memory learns from it: the map, and every move with where it led."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": question(trip)}]
    for number, (name, (row, column)) in enumerate(zip(trip.moves, trip.cells[1:], strict=True)):
        call = {"id": f"move-{number}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        seen = {"H": "a hole", "G": "the goal"}.get(trip.rows[row][column], "ice")
        result = f"Row {row}, column {column}: {seen}."
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return {"task_id": trip.lake, "messages": messages, "score": score}


def question(trip: Trip) -> str:
    """The task as memory is asked about it, and as it is told of it."""
    return f"Walk over the frozen lake {' '.join(trip.rows)}"


async def transfer(reme: Engine, agent: Agent, given: argparse.Namespace, seed: int) -> dict[str, list[float]]:
    """Practise on some lakes, then walk over others with and without what was learned: the scores of both."""
    workspace, all_lakes = f"transfer-{seed}", lakes(seed, given.practice_maps + given.maps)
    trips = [(f"{seed}/{number}", rows) for number, rows in enumerate(all_lakes)]
    for name, rows in trips[: given.practice_maps]:
        attempts = []
        for run in range(given.runs):
            trip = Trip(f"lake {name}", rows)
            score, _ = await walk(agent, trip, "", f"{name}/{run}")
            attempts += [trajectory(trip, score)] if score else []
        if attempts:  # successes teach, as in ReMe 0.1's experiment
            await reme.execute("summary_task_memory", workspace_id=workspace, trajectories=attempts)
    scores: dict[str, list[float]] = {OFF: [], ON: []}
    for name, rows in trips[given.practice_maps :]:
        trip = Trip(f"lake {name}", rows)
        told = await reme.execute("retrieve_task_memory", workspace_id=workspace, query=question(trip), top_k=5)
        for arm, note in ((OFF, ""), (ON, str(told.answer))):
            score, _ = await walk(agent, Trip(trip.lake, rows), note, f"{name}/test")
            scores[arm].append(score)
    return scores


def show(title: str, rates: Mapping[str, Sequence[str]]) -> None:
    """Print a table: a line each source, a column each arm."""
    print(f"{title:<42}{'memory off':>22}{'memory on':>22}")
    for source, cells in rates.items():
        print(f"{source:<42}" + "".join(f"{cell:>22}" for cell in cells))


async def again(reme: Engine, agent: Agent, given: argparse.Namespace) -> dict[str, list[float]]:
    """Try the same lakes again and again, in both arms: the scores of the last try. The curves are drawn."""
    curves = {}
    for name, memory in ((OFF, False), (ON, True)):
        workspace = name.replace(" ", "-")
        await arm(reme, agent, workspace, given.maps, given.practice + 1, memory=memory)
        curves[name] = await scores(reme, workspace, given.practice + 1)
    for path in draw(curves, given.output):
        print(f"saved {path}")
    return {name: rounds[-1] for name, rounds in curves.items()}


async def elsewhere(reme: Engine, agent: Agent, given: argparse.Namespace) -> dict[str, list[float]]:
    """The protocol `transfer` with each of the seeds: the scores of all their tests."""
    tested: dict[str, list[float]] = {OFF: [], ON: []}
    for seed in range(given.seeds):
        found = await transfer(reme, agent, given, seed)
        show(f"seed {seed}", {"lakes solved": [f"{sum(each):.0f} of {len(each)}" for each in found.values()]})
        for name, each in found.items():
            tested[name] += each
    return tested


async def main(given: argparse.Namespace) -> bool:
    """Play both arms; whether the one with memory is better beyond both intervals."""
    transfers = given.protocol == "transfer"
    with tempfile.TemporaryDirectory(prefix="lake-") as folder:
        model = ChatSettings(model_name=given.model, base_url=given.base_url, api_key=SecretStr(given.api_key))
        llm = {"default": model} if given.agent == "llm" else {}
        async with Engine(Settings(data_dir=Path(folder), llm=llm)) as reme:
            agent: Agent = FollowingAgent() if transfers else RuleAgent()
            if reme.chat is not None:
                agent = (MapAgent if transfers else ModelAgent)(reme.chat)
            tested = await (elsewhere if transfers else again)(reme, agent, given)
    bounds = {name: interval(int(sum(each)), len(each)) for name, each in tested.items()}
    rates = [
        f"{sum(each) / len(each):.2f} ({low:.2f} to {high:.2f})"
        for each, (low, high) in zip(tested.values(), bounds.values(), strict=True)
    ]
    who = given.model if given.agent == "llm" else "rules"
    here = {f"here, {who}, {len(tested[ON])} lakes": rates}
    show("lakes solved (95 % interval)", (EARLIER if transfers else {}) | here)
    return bounds[ON][0] > bounds[OFF][1]


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--protocol", choices=("again", "transfer"), default="again", help="same lakes, or others")
    parser.add_argument("--agent", choices=("rules", "llm"), default="rules")
    parser.add_argument("--maps", type=int, default=100, help="how many seeded lakes to be tested on")
    parser.add_argument("--practice", type=int, default=10, help="episodes on each lake before the one that counts")
    parser.add_argument("--practice-maps", type=int, default=50, help="transfer: how many other lakes to practise on")
    parser.add_argument("--runs", type=int, default=4, help="transfer: attempts at each of these")
    parser.add_argument("--seeds", type=int, default=3, help="transfer: how often, each time with other lakes")
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
