"""The wire format of ReMe 0.1, byte for byte where its clients look."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import Any

import httpx
import pytest

from reme_core import Settings
from reme_core.engine import Engine
from reme_core.server.http import create_app
from reme_core.settings import FlowSettings
from tests.flows.attempts import BOOKED, NOT_BOOKED, attempt, says, user
from tests.server.conftest import connected

Json = dict[str, Any]
Client = httpx.AsyncClient

BASE_MEMORY = [
    "workspace_id", "memory_id", "memory_type", "when_to_use", "content", "score", "time_created", "time_modified",
    "author", "metadata",
]  # fmt: skip


async def posted(client: Client, flow: str, **body: Any) -> Json:
    response = await client.post(f"/{flow}", json=body)
    assert response.status_code == 200, response.text
    return dict(response.json())


async def test_health_answers_as_reme_did(client: Client) -> None:
    response = await client.get("/health")
    assert response.content == b'{"status":"healthy"}'


async def test_every_flow_is_an_endpoint(client: Client, reme: Engine) -> None:
    listed = [flow["name"] for flow in (await client.get("/list")).json()]
    assert listed == reme.flows.catalog.names()
    document = (await client.get("/openapi.json")).json()
    assert {f"/{name}" for name in listed} <= set(document["paths"])


@pytest.mark.parametrize("name", ["model_config", "model_dump", "json", "_hidden"])
async def test_a_flow_may_take_a_field_of_any_name(settings: Settings, name: str) -> None:
    schema = {
        "content": {"type": "string"},
        name: {"type": "integer", "description": "A number of ours.", "required": True},
    }
    settings.flow["mine"] = FlowSettings(flow_content="add_told", input_schema=schema)
    async with Engine(settings) as reme, connected(create_app(reme)) as client:
        assert (await client.post("/mine", json={"content": "It rains.", name: 1})).status_code == 200
        refused = await client.post("/mine", json={"content": "It rains.", name: "one"})
        assert (refused.status_code, refused.json()["message"].partition(":")[0]) == (422, name)
        document = (await client.get("/openapi.json")).json()
    assert document["components"]["schemas"]["MineRequest"]["properties"][name]["description"] == "A number of ours."


async def test_a_response_has_four_fields_in_order_and_memories_have_ten(client: Client) -> None:
    made = await client.post("/summary_task_memory", json={"workspace_id": "w", "trajectories": [BOOKED, NOT_BOOKED]})
    assert made.content.startswith(b'{"answer":"[{')
    body = made.json()
    assert list(body) == ["answer", "messages", "success", "metadata"]
    assert (body["messages"], body["success"]) == ([], True)
    memories = body["metadata"]["memory_list"]
    assert memories
    assert json.loads(body["answer"]) == memories
    assert body["metadata"]["update_result"]["inserted_count"] == len(memories)
    assert body["metadata"]["update_result"]["deleted_count"] == 0
    found = await posted(client, "retrieve_task_memory", workspace_id="w", query="book a flight", top_k=1)
    (memory,) = found["metadata"]["memory_list"]
    assert list(memory)[: len(BASE_MEMORY)] == BASE_MEMORY
    assert (memory["workspace_id"], memory["memory_type"]) == ("w", "task")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", memory["time_created"])
    assert memory["content"] in found["answer"]


async def test_nothing_remembered_is_an_empty_answer_and_no_error(client: Client) -> None:
    found = await posted(client, "retrieve_task_memory", query="anything")
    assert (found["answer"], found["metadata"]["memory_list"]) == ("", [])


async def test_extra_keys_and_null_are_taken_as_clients_send_them(client: Client) -> None:
    message = user("帮我制定项目计划", name=None, unknown=1, reasoning_content=None, tool_calls=None, metadata=None)
    attempts = [{"messages": [message, says("好的")], "score": score, "whatever": [1]} for score in (None, 1)]
    body = {"trajectories": attempts, "more": {"a": None}}
    await posted(client, "summary_task_memory", **body, workspace_id="", metadata={"x": 1})
    assert "default" in (await client.get("/v1/workspaces")).json()["workspaces"]


@pytest.mark.parametrize(
    ("flow", "fields"),
    [
        ("retrieve_task_memory", ("messages", "metadata", "workspace_id", "top_k", "config")),
        ("retriever", ("messages", "metadata", "workspace_id", "top_k", "config")),
        ("summary_personal_memory", ("query", "messages", "metadata", "workspace_id", "user_name", "user_id")),
        ("list_memory", ("limit", "include_expired", "user_name", "query")),
    ],
)
async def test_null_is_the_same_as_left_out(client: Client, flow: str, fields: tuple[str, ...]) -> None:
    messages = [{"role": None, "content": "I live in Porto."}]
    body = {"query": "x", "trajectories": [{"messages": messages}, {"messages": None}]}
    for name in fields:
        await posted(client, flow, **body | {name: None})


async def test_tool_calls_are_read_flat_nested_and_with_objects(client: Client) -> None:
    arguments = {"city": "Oslo"}
    forms: list[Json] = [
        {"index": 0, "id": "c", "type": "function", "name": "weather", "arguments": json.dumps(arguments)},
        {"id": "c", "type": "function", "function": {"name": "weather", "arguments": json.dumps(arguments)}},
        {"id": "c", "function": {"name": "weather", "arguments": arguments}},
    ]
    for number, form in enumerate(forms):
        steps = [
            user("Weather in Oslo?"),
            {"role": "assistant", "content": None, "tool_calls": [form]},
            {"role": "tool", "tool_call_id": "c", "content": '{"degrees": 3}'},
            says("Three degrees."),
        ]
        made = await posted(
            client, "summary_task_memory", workspace_id=f"w{number}", trajectories=[attempt(steps, score=1.0)]
        )
        assert any("weather" in memory["content"] for memory in made["metadata"]["memory_list"]), form


async def test_what_postgres_cannot_store_does_not_lose_a_trajectory(client: Client, reme: Engine) -> None:
    steps = [user("Read the file a.bin \0"), says("It holds \0\0, \ud800 and text. 😀")]
    content = json.dumps({"workspace_id": "w", "trajectories": [attempt(steps, score=1.0)]})
    headers = {"Content-Type": "application/json"}
    response = await client.post("/summary_task_memory", content=content, headers=headers)
    assert response.status_code == 200, response.text
    assert "a.bin \ufffd" in (await reme.memories.list("w"))[0].when_to_use


async def test_one_use_without_success_is_recorded_and_unhelpful_memories_are_deleted(client: Client) -> None:
    await posted(client, "summary_task_memory", workspace_id="w", trajectories=[BOOKED])
    found = await posted(client, "retrieve_task_memory_simple", workspace_id="w", query="book a flight", top_k=1)
    (memory,) = found["metadata"]["memory_list"]
    told = await posted(client, "record_task_memory", workspace_id="w", memory_dicts=[memory], update_utility=False)
    assert told["metadata"]["memory_list"][0]["metadata"]["freq"] == 1
    found = await posted(client, "retrieve_task_memory_simple", workspace_id="w", query="book a flight", top_k=1)
    retrieval = found["metadata"]["retrieval_id"]
    told = await posted(client, "record_task_memory", workspace_id="w", retrieval_id=retrieval, update_utility=False)
    assert told["metadata"]["memory_list"][0]["metadata"]["freq"] == 2
    gone = await posted(client, "delete_task_memory", workspace_id="w", freq_threshold=1, utility_threshold=0.5)
    assert gone["metadata"]["update_result"]["deleted_count"] == 1


async def test_a_message_whose_time_is_unset_in_its_program_can_be_found(client: Client) -> None:
    said = says("The ferry to Korsør leaves at nine.", time_created="0001-01-01 00:00:00")
    await client.post("/v1/workspaces/w/records", json={"messages": [said]})
    found = await posted(client, "retrieve_personal_memory", workspace_id="w", query="When does the ferry leave?")
    (message,) = found["metadata"]["memory_list"]
    assert message["content"] == said["content"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", message["time_created"])


async def test_experience_maker_gets_its_own_words(client: Client) -> None:
    made = await posted(client, "summarizer", workspace_id="w", traj_list=[BOOKED])
    found = await posted(client, "retriever", workspace_id="w", query="book a flight")
    assert made["experience_list"]
    assert found["experience_merged"]
    (experience,) = found["experience_list"]
    assert list(experience) == [
        "workspace_id", "experience_id", "experience_type", "when_to_use", "content", "score", "metadata",
    ]  # fmt: skip
    assert list(experience["metadata"]) == ["author", "created_time", "modified_time", "extra_info"]
    assert made["metadata"]["update_result"]["inserted_count"] == len(made["experience_list"])
    used = await posted(
        client, "record_task_memory", workspace_id="w", memory_dicts=[], update_utility=True, metadata=found["metadata"]
    )
    assert [memory["memory_id"] for memory in used["metadata"]["memory_list"]] == [experience["experience_id"]]


async def test_experience_maker_learns_attempts_under_the_name_that_they_have_today(client: Client) -> None:
    made = await posted(client, "summarizer", workspace_id="w", trajectories=[BOOKED])
    assert made["experience_list"]


async def test_an_answer_streams_when_the_caller_asks_for_events(client: Client) -> None:
    headers = {"Accept": "text/event-stream"}
    response = await client.post("/retrieve_task_memory", json={"query": "x"}, headers=headers)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.text.startswith("event: response")
    refused = await client.post("/react", json={"query": "x"}, headers=headers)
    assert '"code":"configuration"' in refused.text.partition("event: error")[2]


@pytest.mark.parametrize("text", ["2023-05-08 12:00:00", "2023-05-08T12:00:00Z", "2023-05-08T12:00:00+02:00"])
async def test_times_are_read_in_every_usual_form(client: Client, reme: Engine, text: str) -> None:
    said = user("I moved to Berlin with my sister Ada yesterday.", time_created=text)
    await posted(client, "summary_personal_memory", workspace_id="w", trajectories=[{"messages": [said]}])
    [memory] = await reme.memories.list("w")
    assert memory.observed_at and memory.observed_at.date() == date(2023, 5, 8)


async def test_a_request_of_experience_maker_overrides_settings_for_itself(client: Client) -> None:
    await posted(client, "summarizer", workspace_id="w", traj_list=[BOOKED])
    asked = {"workspace_id": "w", "query": "book a flight", "top_k": 5}
    config = {"op.rerank_experience_op.params.top_k": 1}
    assert len((await posted(client, "retriever", **asked, config=config))["experience_list"]) == 1
    assert len((await posted(client, "retriever", **asked, config={}))["experience_list"]) > 1
    never = {"op": {"experience_validation_op": {"params": {"validation_threshold": 2}}}}
    refused = await posted(client, "summarizer", workspace_id="v", traj_list=[BOOKED], config=never)
    assert refused["experience_list"] == []


@pytest.mark.parametrize("endpoint", ["retriever", "summarizer", "agent", "vector_store", "retrieve_task_memory"])
async def test_a_request_cannot_override_where_models_are_and_is_told_the_key(client: Client, endpoint: str) -> None:
    body = {"query": "x", "action": "list", "config": {"llm.default.base_url": "http://evil.example"}}
    response = await client.post(f"/{endpoint}", json=body)
    assert response.status_code == 422
    assert response.json()["message"].startswith("config.llm.default.base_url: a request cannot set this")
