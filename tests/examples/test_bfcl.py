"""The experiment on BFCL: the real tasks, services and checker; only the model is scripted.

Skipped where bfcl-eval is not installed; examples/bfcl/run.py says how it is.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from openai import AsyncOpenAI

from reme_core.engine import Engine
from reme_core.settings import ChatSettings, Settings
from tests.flows.attempts import valid
from tests.loopback import Loopback, tool_call
from tests.scripts import load_script

pytest.importorskip("bfcl_eval", reason="bfcl-eval is not installed")


@pytest.fixture
def example() -> ModuleType:
    return load_script("examples/bfcl/run.py")


class Pupil:
    """A model that knows the right calls, and makes them if a note of memory is in its prompt."""

    def __init__(self, example: ModuleType) -> None:
        tasks = example.lines(example.DATA / "BFCL_v4_multi_turn_base.json")
        truth = example.lines(example.DATA / "possible_answer/BFCL_v4_multi_turn_base.json")
        self.right = {
            turn[0]["content"]: calls
            for task, known in zip(tasks, truth, strict=True)
            for turn, calls in zip(task["question"], known["ground_truth"], strict=True)
            if turn
        }

    def __call__(self, body: dict[str, Any]) -> Any:
        messages = body["messages"]
        if "verdicts" in json.dumps(body.get("response_format")):
            return valid(body)
        if "tools" not in body:
            return {"lessons": [{"when_to_use": messages[-1]["content"][:200], "experience": "Look.", "confidence": 1}]}
        last = max(n for n, message in enumerate(messages) if message["role"] == "user")
        if "memory_note" not in messages[0]["content"] or last < len(messages) - 1:
            return "Done."
        names = {t["function"]["name"]: list(t["function"]["parameters"]["properties"]) for t in body["tools"]}
        return {"content": "", "tool_calls": [self.call(c, names) for c in self.right[messages[last]["content"]]]}

    @staticmethod
    def call(code: str, names: dict[str, list[str]]) -> Any:
        told = ast.parse(code, mode="eval").body
        assert isinstance(told, ast.Call) and isinstance(told.func, ast.Name)
        given = {k.arg: ast.literal_eval(k.value) for k in told.keywords}
        given |= dict(zip(names[told.func.id], map(ast.literal_eval, told.args), strict=False))
        return tool_call(told.func.id, call_id=code[:30], **given)


async def test_both_arms_are_checked_and_a_stopped_run_goes_on(
    example: ModuleType, settings: Settings, tmp_path: Path, loopback: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    loopback.chat(Pupil(example))
    small = ["--practice", "1", "--tests", "2", "--runs", "1", "--folder", str(tmp_path)]
    given = example.options(["--base-url", loopback.url, "--model", "pupil", *small])
    settings.llm["default"] = ChatSettings(model_name="pupil", base_url=loopback.url)
    async with Engine(settings) as reme, AsyncOpenAI(base_url=loopback.url, api_key="none") as model:

        async def run() -> list[str]:
            experiment = example.Experiment(given, reme, model)
            await experiment.run()
            assert example.results(experiment, given.runs)
            return (tmp_path / "attempts.jsonl").read_text().splitlines()

        attempts = await run()
        (tmp_path / "attempts.jsonl").write_text("".join(f"{line}\n" for line in attempts[:-1]))
        loopback.requests.clear()
        assert len(await run()) == len(attempts) == 1 + 1 + 2 * 2
    tried = {(one["arm"], one["task"]) for one in map(json.loads, attempts)}
    assert len(tried) == len(attempts)
    table = capsys.readouterr().out.splitlines()[-4:]
    assert table[1].split()[-1] == "0.306"
    assert table[2].split("memory off")[1].split()[0] == "0.000"
    assert table[3].split("memory on")[1].split()[0] == "1.000"


def test_a_folder_holds_one_experiment(example: ModuleType, tmp_path: Path) -> None:
    given = example.options(["--base-url", "http://localhost", "--model", "m", "--folder", str(tmp_path)])
    example.check_folder(given)
    example.check_folder(given)
    given.seed = 1
    with pytest.raises(SystemExit, match="another experiment"):
        example.check_folder(given)


def test_only_functions_of_the_task_are_executed_and_only_with_literals(example: ModuleType) -> None:
    assert example.as_code("cd", '{"folder": "a\'); exit(("}', ["cd"]) == """cd(folder="a'); exit((")"""
    for name, arguments in (("__import__('os').system", "{}"), ("cd", '{"a=exit()": 1}'), ("cd", "[1]"), ("cd", "{")):
        with pytest.raises(ValueError):
            example.as_code(name, arguments, ["cd"])


def test_pass_at_k_is_the_share_of_groups_with_a_success(example: ModuleType) -> None:
    assert [example.pass_at([0, 1, 0, 0], k) for k in (1, 2, 4)] == [0.25, 0.5, 1.0]
