"""Calling functions over several turns, with what practice taught and without: ReMe 0.1's experiment on BFCL.

    pip install reme-core mpmath
    pip install --no-deps bfcl-eval==2026.3.23     # alone: what it asks for beside is for its own models
    python examples/bfcl/run.py --base-url http://localhost:11434/v1 --model qwen3:8b
    python examples/bfcl/run.py --base-url http://localhost:11434/v1 --model qwen3:8b --practice 1 --tests 2 --runs 1

The last line is a dry run. The package has the 200 tasks of `multi_turn_base`, the simulated services and the checker.
A seed divides the tasks: on some the model practises, which teaches the task memory; on the others it is tested, with
what memory finds about the first request and without. Each attempt is written to `--folder` when it ends, so that a
run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import bfcl_eval
import numpy as np
from bfcl_eval.constants.executable_backend_config import MULTI_TURN_FUNC_DOC_FILE_MAPPING
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call
from openai import AsyncOpenAI, BadRequestError
from pydantic import SecretStr

from reme_core import Settings
from reme_core.engine import Engine
from reme_core.errors import ModelAnswerError
from reme_core.settings import ChatSettings

CATEGORY = "multi_turn_base"
DATA = Path(bfcl_eval.__file__).parent / "data"
STEPS = 20  # calls of the model in a turn, as the leaderboard allows
OFF, ON = "memory off", "memory on"
EARLIER = {OFF: (0.2472, 0.2733, 0.2922), ON: (0.3061, 0.3500, 0.3888)}  # github.com/modelscope/ReMe, its README
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}
_SYSTEM = "You help with the tools that you are given. Call those that a request needs, then answer in a sentence."

Json = dict[str, Any]


def lines(path: Path) -> list[Json]:
    """The JSON values of a file, one a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def tools_of(task: Json) -> list[Json]:
    """The functions that a task allows, as an endpoint takes them."""
    found = []
    for name in task["involved_classes"]:
        for doc in lines(DATA / "multi_turn_func_doc" / MULTI_TURN_FUNC_DOC_FILE_MAPPING[name]):
            if doc["name"] not in task.get("excluded_function", []):
                doc.pop("response", None)
                found.append({"type": "function", "function": doc | {"parameters": schema(doc["parameters"])}})
    return found


def schema(form: Any) -> Any:
    """A form of the package as JSON Schema, which has other names for types."""
    if isinstance(form, list):
        return [schema(part) for part in form]
    if not isinstance(form, dict):
        return form
    named = {key: schema(part) for key, part in form.items()}
    return named | {"type": _TYPES.get(named["type"], named["type"])} if isinstance(named.get("type"), str) else named


def as_code(name: str, arguments: str, allowed: Sequence[str]) -> str:
    """A call as the package executes it, which is by `eval`: nothing but an allowed name and literals may be in it.

    Raises:
        ValueError: Something else is.
    """
    given = json.loads(arguments or "{}")
    if name not in allowed:
        raise ValueError(f"there is no function {name!r}")
    if not isinstance(given, dict) or not all(key.isidentifier() for key in given):
        raise ValueError("arguments have to be a JSON object of named values")
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})"


class Attempts:
    """What was done so far, in the order in which it ended; each is a line of a file."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._path = path
        self.done = {(one["arm"], one["task"], one["run"]): one for one in lines(path)}

    def add(self, one: Json) -> None:
        """Keep another."""
        self.done[one["arm"], one["task"], one["run"]] = one
        with self._path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(one, ensure_ascii=False) + "\n")


class Experiment:
    """The tasks, the model, and what was done."""

    def __init__(self, given: argparse.Namespace, reme: Engine, model: AsyncOpenAI) -> None:
        self._given, self._reme, self._model = given, reme, model
        answers = lines(DATA / "possible_answer" / f"BFCL_v4_{CATEGORY}.json")
        self._truth = {answer["id"]: answer["ground_truth"] for answer in answers}
        tasks = lines(DATA / f"BFCL_v4_{CATEGORY}.json")
        random.Random(given.seed).shuffle(tasks)
        self.practice = tasks[: given.practice]
        self.tests = tasks[given.practice : given.practice + given.tests]
        self.attempts = Attempts(given.folder / "attempts.jsonl")
        self._free = asyncio.Semaphore(given.parallel)

    async def run(self) -> None:
        """Practise, learn, and be tested in both arms."""
        runs = range(self._given.runs)
        await self._all([self._attempt("practice", task, run) for task in self.practice for run in runs])
        for task in self.practice:
            await self._learn(task)
        await self._all([self._attempt(arm, task, run) for task in self.tests for run in runs for arm in (OFF, ON)])

    async def _all(self, work: Sequence[Coroutine[Any, Any, None]]) -> None:
        async with asyncio.TaskGroup() as group:
            for each in work:
                group.create_task(each)

    async def _learn(self, task: Json) -> None:
        """Teach memory what the best and the worst attempt at a task have to teach."""
        if ("learned", task["id"], 0) in self.attempts.done:
            return
        tried = [self.attempts.done["practice", task["id"], run] for run in range(self._given.runs)]
        tried.sort(key=lambda one: one["score"])
        pair = tried if len(tried) == 1 else [tried[0], tried[-1]]
        trajectories = [{"task_id": task["id"], "messages": one["messages"], "score": one["score"]} for one in pair]
        said = {"arm": "learned", "task": task["id"], "run": 0}
        try:
            learned = await self._reme.execute("summary_task_memory", workspace_id="bfcl", trajectories=trajectories)
        except ModelAnswerError as error:  # a small model may not manage; what it cannot learn, it has to do without
            self.attempts.add(said | {"lessons": 0, "why": str(error)})
            print(f"nothing learned of {task['id']}: {error}")
        else:
            self.attempts.add(said | {"lessons": len(learned.metadata["memory_list"])})

    async def _attempt(self, arm: str, task: Json, run: int) -> None:
        """One attempt at a task, and whether the checker accepts it."""
        if (arm, task["id"], run) not in self.attempts.done:
            async with self._free:
                await self._try(arm, task, run, await self._note(task) if arm == ON else "")

    async def _note(self, task: Json) -> str:
        """What memory has to say about the first request of a task."""
        query = task["question"][0][0]["content"]
        return str((await self._reme.execute("retrieve_task_memory", workspace_id="bfcl", query=query, top_k=5)).answer)

    async def _try(self, arm: str, task: Json, run: int, note: str) -> None:
        name = f"{arm}_{run}".replace(" ", "_")  # under which the package keeps the services of this attempt
        messages: list[Json] = [{"role": "system", "content": f"{_SYSTEM}\n\n{note}".strip()}]
        error, turns = "", []
        try:
            for turn in task["question"]:
                messages += turn
                turns.append(await self._turn(task, messages, name))
        except BadRequestError as refused:  # a conversation that the model's window does not hold, for instance
            error = str(refused)
        turns += [[] for _ in task["question"][len(turns) :]]
        verdict = multi_turn_checker(turns, self._truth[task["id"]], task, CATEGORY, name)
        self.attempts.add(
            {
                "arm": arm, "task": task["id"], "run": run, "score": float(verdict["valid"] and not error),
                "why": error or verdict.get("error_type", ""), "messages": messages[1:],
            }
        )  # fmt: skip
        print(f"{arm}: {task['id']}, run {run}: {'passed' if verdict['valid'] and not error else 'failed'}", flush=True)

    async def _turn(self, task: Json, messages: list[Json], name: str) -> list[list[str]]:
        """Let the model call functions until it answers; the calls, by step."""
        steps, tools = [], tools_of(task)
        allowed = [tool["function"]["name"] for tool in tools]
        for _ in range(STEPS):
            answer = await self._model.chat.completions.create(
                model=self._given.model, messages=messages, tools=tools, temperature=self._given.temperature
            )  # type: ignore[call-overload]  # the messages are plain JSON
            said = answer.choices[0].message
            messages.append(said.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True))
            if not said.tool_calls:
                break
            step = []
            for call in said.tool_calls:
                try:
                    code = as_code(call.function.name, call.function.arguments, allowed)
                except ValueError as problem:
                    result = f"Error: {problem}"
                else:
                    step.append(code)
                    [result], _ = execute_multi_turn_func_call(
                        [code], task["initial_config"], task["involved_classes"], name, task["id"]
                    )
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
            steps.append(step)
        return steps


def pass_at(scores: Sequence[float], k: int) -> float:
    """The share of groups of k attempts, in their order, whose best is 1."""
    groups = [scores[first : first + k] for first in range(0, len(scores) - k + 1, k)]
    return sum(max(group) >= 1 for group in groups) / len(groups)


def results(experiment: Experiment, runs: int) -> bool:
    """Print pass@k of both arms beside what ReMe 0.1 reports; whether pass@1 is better beyond the intervals."""
    ks = [k for k in (1, 2, 4) if k <= runs]
    print(f"\n{'':<44}" + "".join(f"{f'pass@{k}':>25}" for k in ks))
    for arm, rates in EARLIER.items():
        print(f"{f'ReMe 0.1, qwen3-8b, {arm}':<44}" + "".join(f"{rate:>25.3f}" for rate in rates[: len(ks)]))
    firsts = []
    for arm in (OFF, ON):
        done = experiment.attempts.done
        tried = [[done[arm, task["id"], run]["score"] for run in range(runs)] for task in experiment.tests]
        rates = np.array([[pass_at(scores, k) for k in ks] for scores in tried])
        draws = np.random.default_rng(0).integers(0, len(rates), (2_000, len(rates)))
        low, high = np.percentile(rates[draws].mean(axis=1), [2.5, 97.5], axis=0)
        cells = zip(rates.mean(axis=0), low, high, strict=True)
        print(f"{f'here, {arm}':<44}" + "".join(f"{f'{rate:.3f} ({a:.3f} to {b:.3f})':>25}" for rate, a, b in cells))
        firsts.append((low[0], high[0]))
    return bool(firsts[1][0] > firsts[0][1])


def check_folder(given: argparse.Namespace) -> None:
    """Note what is run in a folder; refuse to mix it with something else.

    Raises:
        SystemExit: Another experiment is in the folder.
    """
    what = {name: getattr(given, name) for name in ("model", "practice", "tests", "runs", "temperature", "seed")}
    given.folder.mkdir(parents=True, exist_ok=True)
    noted = given.folder / "options.json"
    if noted.exists() and json.loads(noted.read_text()) != what:
        raise SystemExit(f"{given.folder} holds another experiment ({noted.read_text()}); name another --folder")
    noted.write_text(json.dumps(what))


async def main(given: argparse.Namespace) -> bool:
    """Run what is left of the experiment, and print what came out."""
    check_folder(given)
    llm = {"default": ChatSettings(model_name=given.model, base_url=given.base_url, api_key=SecretStr(given.api_key))}
    settings = Settings(data_dir=given.folder / "memory", llm=llm)
    async with AsyncOpenAI(base_url=given.base_url, api_key=given.api_key) as model, Engine(settings) as reme:
        experiment = Experiment(given, reme, model)
        await experiment.run()
        return results(experiment, given.runs)


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base-url", required=True, help="of any OpenAI-compatible endpoint with tool calls")
    parser.add_argument("--model", required=True, help="the model there, which also makes the memories")
    parser.add_argument("--api-key", default="none")
    parser.add_argument("--practice", type=int, default=50, help="tasks to practise on")
    parser.add_argument("--tests", type=int, default=150, help="other tasks, to be tested on")
    parser.add_argument("--runs", type=int, default=4, help="attempts at each task")
    parser.add_argument("--temperature", type=float, default=0.9, help="as ReMe 0.1's experiment had it")
    parser.add_argument("--seed", type=int, default=0, help="divides the tasks")
    parser.add_argument("--parallel", type=int, default=4, help="attempts at once")
    parser.add_argument("--folder", type=Path, default=Path("outputs/bfcl"), help="attempts and memory; one a setting")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    better = asyncio.run(main(options()))
    print("Memory helps." if better else "The intervals overlap: no difference is shown.")
