"""Libraries over HTTP: they go out and come in again, and no path leads out of the configured folders."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from reme_core.engine import Engine
from reme_core.errors import InputError
from reme_core.server.http import create_app
from reme_core.server.service import library_folder
from reme_core.settings import FlowSettings, Settings
from reme_core.types import Kind, Memory
from tests.server.conftest import connected

Client = httpx.AsyncClient
Json = dict[str, Any]


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory's own library, which the README loads from."""
    folder = tmp_path / "work" / "docs" / "library"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    yield folder


async def acted(client: Client, action: str, workspace: str = "w", **more: Any) -> httpx.Response:
    return await client.post("/vector_store", json={"workspace_id": workspace, "action": action, **more})


def result(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()["metadata"]["action_result"]


async def test_a_dump_on_the_local_store_holds_everything_and_loads_again(
    client: Client, reme: Engine, library: Path
) -> None:
    situations = [f"Step {number}" for number in range(3)]
    await reme.memories.add("w", [Memory(kind=Kind.TASK, when_to_use=s, content=f"Do {s}.") for s in situations])
    assert result(await acted(client, "dump", path="./docs/library/")) == {"size": 3}
    lines = [json.loads(line) for line in (library / "w.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sorted(line["when_to_use"] for line in lines) == situations
    (library / "w.jsonl").rename(library / "other.jsonl")
    for _ in range(2):
        assert result(await acted(client, "load", "other", path="docs/library")) == {"size": 3}
    listed = result(await acted(client, "list", "other"))
    assert sorted(memory["when_to_use"] for memory in listed) == situations
    assert {memory["workspace_id"] for memory in listed} == {"other"}, "a library takes the name it is loaded under"


async def test_extra_info_of_experience_maker_comes_back_where_it_was(client: Client, library: Path) -> None:
    told = {"author": "a", "created_time": "2024-01-02 03:04:05", "extra_info": {"k": "v"}}
    row = {"experience_id": "e1", "experience_type": "text", "when_to_use": "w", "content": "c", "metadata": told}
    (library / "w.jsonl").write_text(json.dumps(row))
    result(await acted(client, "load", path="docs/library"))
    found = (await client.post("/retriever", json={"workspace_id": "w", "query": "w"})).json()["experience_list"]
    assert found[0]["metadata"] == told | {"modified_time": "2024-01-02 03:04:05"}


@pytest.mark.parametrize(
    "path", ["/etc", "..", ".", "docs/library/../..", "./docs/library/../../..", "docs/library/outside", "a\\b", "\0"]
)
@pytest.mark.parametrize("action", ["load", "dump"])
async def test_no_path_leads_out_of_the_configured_folders(
    settings: Settings, library: Path, tmp_path: Path, path: str, action: str
) -> None:
    settings.http.host = "0.0.0.0"
    (library / "outside").symlink_to(tmp_path)
    (tmp_path / "w.jsonl").write_text('{"content": "private"}\n', encoding="utf-8")
    async with Engine(settings) as reme, connected(create_app(reme)) as client:
        await reme.memories.add("w", "Mine.")
        response = await acted(client, action, path=path)
        assert [memory.content for memory in await reme.memories.list("w")] == ["Mine."]
    assert response.status_code == 422, response.text
    assert response.json()["message"].startswith("path: ") and "`library_dirs` sets" in response.json()["message"]
    assert (tmp_path / "w.jsonl").read_text(encoding="utf-8") == '{"content": "private"}\n'


async def test_a_local_service_without_keys_uses_all_below_its_working_directory(client: Client, reme: Engine) -> None:
    await reme.memories.add("w", "Mine.")
    assert result(await acted(client, "dump", path="./")) == {"size": 1}
    assert result(await acted(client, "load", path="./")) == {"size": 1}
    for path in ("..", "/etc"):
        refused = await acted(client, "dump", path=path)
        assert refused.status_code == 422 and "`library_dirs` sets more folders" in refused.json()["message"]
    with pytest.raises(InputError, match="`library_dirs` sets more folders"):
        library_folder("./", "w", reme.settings, is_local=False)


async def test_only_the_address_of_the_service_that_is_asked_counts(settings: Settings) -> None:
    settings.mcp.host = "0.0.0.0"  # as ReMe 0.1's own default.yaml has it, whichever service is started
    async with Engine(settings) as reme, connected(create_app(reme)) as client:
        await reme.memories.add("w", "Mine.")
        assert result(await acted(client, "dump", path="./")) == {"size": 1}


async def test_in_a_server_of_ones_own_the_address_counts_to_which_a_request_came(
    client: Client, reme: Engine, library: Path
) -> None:
    await reme.memories.add("w", "Mine.")
    assert result(await acted(client, "dump", path="./")) == {"size": 1}
    client.base_url = httpx.URL("http://192.0.2.7")  # `http.host` is 127.0.0.1 all the same
    refused = await acted(client, "dump", path="./")
    assert refused.status_code == 422 and "`library_dirs` sets more folders" in refused.json()["message"]


async def test_a_flow_that_does_not_declare_its_path_is_confined_as_well(settings: Settings, tmp_path: Path) -> None:
    declared = {"action": {"type": "string", "required": True}}  # as ReMe 0.1's own default.yaml has it
    settings.flow["vector_store"] = FlowSettings(flow_content="vector_store_action_op", input_schema=declared)
    async with Engine(settings) as reme, connected(create_app(reme)) as client:
        await reme.memories.add("w", "Mine.")
        refused = await acted(client, "dump", path=str(tmp_path))
    assert refused.status_code == 422 and "`library_dirs` sets more folders" in refused.json()["message"]
    assert not (tmp_path / "w.jsonl").exists()


@pytest.mark.parametrize("workspace", ["../w", "/etc/x", "..\\w", "sub/w"])
async def test_the_name_of_a_workspace_is_no_path(client: Client, library: Path, workspace: str) -> None:
    (library.parent / "w.jsonl").write_text('{"content": "private"}\n', encoding="utf-8")
    response = await acted(client, "load", workspace, path="docs/library")
    assert response.status_code == 422 and "No such file" in response.json()["message"], response.text


async def test_a_library_has_the_name_that_the_core_gives_it(client: Client, reme: Engine, library: Path) -> None:
    await reme.memories.add("team/alice", "Mine.")
    assert result(await acted(client, "dump", "team/alice", path="docs/library")) == {"size": 1}
    assert [file.name for file in library.iterdir()] == ["team%2Falice.jsonl"]
    assert result(await acted(client, "load", "team/alice", path="docs/library")) == {"size": 1}


@pytest.mark.parametrize(("workspace", "name"), [("w", "w"), ("a:b", "a%3Ab")])
async def test_a_link_in_the_library_does_not_lead_out_of_it(
    client: Client, library: Path, tmp_path: Path, workspace: str, name: str
) -> None:
    (tmp_path / "private.jsonl").write_text('{"content": "private"}\n', encoding="utf-8")
    (library / f"{name}.jsonl").symlink_to(tmp_path / "private.jsonl")
    for action in ("load", "dump"):
        response = await acted(client, action, workspace, path="docs/library")
        assert response.status_code == 422, response.text
    assert (tmp_path / "private.jsonl").read_text(encoding="utf-8") == '{"content": "private"}\n'


async def test_a_bad_line_is_named_and_nothing_is_loaded(client: Client, library: Path) -> None:
    (library / "w.jsonl").write_text('{"content": "Good."}\n{"content": \n', encoding="utf-8")
    response = await acted(client, "load", path="docs/library")
    assert (response.status_code, response.json()["code"]) == (422, "invalid_library")
    assert "2" in response.json()["message"]
    assert result(await acted(client, "list")) == []


async def test_a_library_that_is_not_there_is_not_found(client: Client) -> None:
    response = await acted(client, "load", "nothing", path="docs/library")
    assert response.status_code in (404, 422), response.text
    assert "nothing.jsonl" in response.json()["message"]
