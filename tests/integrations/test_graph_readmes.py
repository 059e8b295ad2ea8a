"""What the READMEs of the LangChain and LlamaIndex adapters show works: each piece of Python."""

from __future__ import annotations

import ast
import gc
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from llama_index.core.agent.workflow import FunctionAgent

from reme_core.testing import ScriptedModel
from tests.integrations.langchain_driver import ScriptedChat
from tests.integrations.llamaindex_driver import ScriptedLLM

pytestmark = [
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning"),  # of LlamaIndex's workflows
]
FOLDER = Path(__file__).parents[2] / "integrations"
BLOCKS = [
    pytest.param(name, block, id=f"{name}-{number}")
    for name in ("langchain", "llamaindex")
    for number, block in enumerate(
        re.findall(r"```python\n(.*?)```", (FOLDER / name / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    )
]


@pytest.mark.parametrize(("name", "block"), BLOCKS)
async def test_each_piece_of_python_runs(
    name: str, block: str, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ScriptedModel()
    given: dict[str, Any] = {"DATABASE_URL": database_url, "__name__": "readme"}
    if name == "langchain":
        given |= {"create_agent": create_agent, "model": ScriptedChat(model)}
    else:
        llm = ScriptedLLM(model)
        given |= {"llm": llm, "agent": FunctionAgent(llm=llm)}
    code = compile(block, f"{name}/README.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if "def clock(" in block:
        model.call("clock", city="Lisbon")
    work = eval(code, given)
    if inspect.iscoroutine(work):
        await work
    assert ("def clock(" in block) == ("clock 1 1.0 []" in capsys.readouterr().out)
    for made in [*given.values(), *given.get("memories", [])]:
        if not isinstance(made, type) and hasattr(made, "aclose") and type(made).__name__.startswith("ReMe"):
            await made.aclose()
    agent = given.get("agent")
    if name == "langchain" and agent is not None and "context_schema" not in block:
        state = await agent.ainvoke({"messages": [{"role": "user", "content": "Hello!"}]})
        assert state["messages"][-1].content == "ok"
        for made in given.values():
            if type(made).__name__.startswith("ReMe"):
                await made.aclose()
    assert model.prompts or "retriever" in block or "from_dict" in block
    gc.collect()  # what was left open complains in here
