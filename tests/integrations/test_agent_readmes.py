"""What the READMEs of the AutoGen and AgentScope adapters show works: their pieces of Python, one after the other."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from reme_core.testing import ScriptedModel
from tests.integrations.agentscope_driver import FakeModel
from tests.integrations.autogen_driver import FakeClient

FOLDER = Path(__file__).parents[2] / "integrations"


async def run_blocks(name: str, given: dict[str, Any], model: ScriptedModel) -> None:
    text = (FOLDER / name / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 5
    for block in blocks:
        code = compile(block, f"{name}/README.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if "def clock(" in block:
            model.call("clock", city="Lisbon")
        work = eval(code, given)
        if inspect.iscoroutine(work):
            await work


@pytest.mark.parametrize("name", ["autogen", "agentscope"])
async def test_a_readme_runs_from_top_to_bottom(
    name: str, database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    model = ScriptedModel()
    await run_blocks(name, {"model_client": FakeClient(model), "model": FakeModel(model)}, model)
    shown = ["\n".join(message.text for message in prompt) for prompt in model.prompts]
    asked = next(text for text in shown if "Where does my dog live?" in text)
    assert "My dog Rex lives in Lisbon with my mother." in asked
    of_bob = [text for text in shown if "What do you know about Rex?" in text][-1]
    assert "Lisbon" not in of_bob
    printed = ["clock 1 1.0 []", *(["Answer in metric units."] if name == "autogen" else [])]
    assert capsys.readouterr().out.splitlines() == printed
