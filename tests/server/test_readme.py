"""The start commands and requests of ReMe 0.1's own README, against a real process: with no key, and with a model.

The requests lie in `readme/`, letter for letter; only the port is changed, since another service may have 8002.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.loopback import Loopback
from tests.server.conftest import Process, by_schema

HERE = Path(__file__).parent / "readme"
START = [
    "llm.default.model_name=qwen3-30b-a3b-thinking-2507",
    "embedding_model.default.model_name=text-embedding-v4",
    "vector_store.default.backend=local",
]
LIBRARY = [
    {
        "workspace_id": "made_elsewhere",
        "memory_id": f"m{number}",
        "memory_type": "task",
        "when_to_use": situation,
        "content": advice,
        "score": 0.8,
        "time_created": "2025-07-25 10:00:00",
        "time_modified": "2025-07-25 10:00:00",
        "author": "qwen3-8b",
        "metadata": {"tags": ["api"]},
    }
    for number, (situation, advice) in enumerate(
        [("更新用户资料之前", "先导航到设置，再打开用户资料。"), ("When an API needs a login", "Log in first.")]
    )
]


def snippet(name: str, process: Process) -> str:
    return (HERE / name).read_text(encoding="utf-8").replace("http://localhost:8002", process.url)


@pytest.fixture(params=["no key", "a model"])
def process(
    request: pytest.FixtureRequest, start: Callable[..., Process], free_port: int, tmp_path: Path, loopback: Loopback
) -> Process:
    """`reme backend=http …`, as the README starts it, in a folder that has a library."""
    environ = {}
    if request.param == "a model":
        loopback.width = 1024
        loopback.chat(by_schema)
        environ = {
            "FLOW_LLM_API_KEY": "sk-xxxx",
            "FLOW_LLM_BASE_URL": loopback.url,
            "FLOW_EMBEDDING_API_KEY": "sk-xxxx",
            "FLOW_EMBEDDING_BASE_URL": loopback.url,
            "FLOW_USE_FRAMEWORK": "true",
        }
    folder = tmp_path / "docs" / "library"
    folder.mkdir(parents=True)
    lines = [json.dumps(memory, ensure_ascii=False) for memory in LIBRARY]
    (folder / "appworld.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in environ.items()), encoding="utf-8")
    started = start("backend=http", f"http.port={free_port}", *START)
    started.wait_until_healthy()
    if request.param == "no key":
        assert "offline rules serve" in started.said
    else:
        assert "qwen3-30b-a3b-thinking-2507" in started.said
        assert "sk-xxxx" not in started.said
    return started


@pytest.mark.timeout(240)
def test_the_readme_runs_unchanged(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[dict[str, Any]] = []

    def remembered(*args: Any, **kwargs: Any) -> requests.Response:
        response = send(*args, **kwargs)
        assert response.status_code == 200, response.text
        answers.append(response.json())
        return response

    send = requests.post
    monkeypatch.setattr(requests, "post", remembered)
    exec(compile(snippet("post.py.txt", process), "post.py", "exec"), {})
    made, found, heard, known, loaded, adopted = answers
    assert {tuple(answer) for answer in answers} == {("answer", "messages", "success", "metadata")}
    assert all(answer["success"] for answer in answers)
    # The README's attempt is a request without anything that was done: a model makes something of it, rules do not.
    learned = "offline rules serve" not in process.said
    assert bool(made["metadata"]["memory_list"]) is bool(found["metadata"]["memory_list"]) is learned
    assert bool(found["answer"]) is learned
    assert heard["metadata"]["memory_list"]
    assert "咖啡" in known["answer"]
    assert loaded["metadata"]["action_result"] == {"size": len(LIBRARY)}
    assert adopted["metadata"]["memory_list"][0]["memory_id"] == "m0"

    curled = subprocess.run(
        ["bash", "-e"], input=snippet("curl.sh.txt", process), capture_output=True, text=True, check=True, timeout=120
    )
    told = _documents(curled.stdout)
    assert [answer["success"] for answer in told] == [True] * 4
    assert "咖啡" in told[3]["answer"]

    # On the same service: to start one for each language takes longer than all its requests.
    if shutil.which("node") is None:
        pytest.skip("there is no node here")
    fetched = subprocess.run(
        ["node", "-"],
        input=snippet("fetch.js.txt", process),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert fetched.stdout.count("success: true") == 4, fetched.stdout


def _documents(text: str) -> list[dict[str, Any]]:
    """JSON documents that stand one behind the other."""
    found, place = [], 0
    while place < len(text.rstrip()):
        document, place = json.JSONDecoder().raw_decode(text, place)
        found.append(document)
        place += len(text[place:]) - len(text[place:].lstrip())
    return found
