"""Tool memory over HTTP, as ReMe's clients call it."""

from __future__ import annotations

from fastapi import FastAPI

from tests.server.conftest import connected


async def test_calls_go_in_and_guidance_comes_out(app: FastAPI) -> None:
    calls = [
        {
            "create_time": f"2025-01-01 10:00:0{n}",
            "tool_name": "search",
            "input": {"q": "tea"} if n else "tea",
            "output": "3 items" if n else "Error: q is required",
            "success": bool(n),
            "time_cost": 0.4,
            "token_cost": -1,
        }
        for n in range(4)
    ]
    async with connected(app) as client:
        posted = await client.post("/add_tool_call_result", json={"workspace_id": "w", "tool_call_results": calls})
        assert posted.status_code == 200, posted.text
        told = posted.json()["metadata"]
        assert told["validation_stats"]["valid_count"] == told["deduplication_stats"]["inserted_count"] == 4
        for names in ("search", ["search"]):
            made = await client.post("/summary_tool_memory", json={"workspace_id": "w", "tool_names": names})
            assert made.status_code == 200, made.text
            assert made.json()["metadata"]["memory_list"][0]["memory_type"] == "tool"
        found = await client.post("/retrieve_tool_memory", json={"workspace_id": "w", "tool_names": "search,other"})
        assert found.json()["success"] and "worked in 3 of 4" in found.json()["answer"]
        wrong = {"workspace_id": "w", "tool_call_results": [{"tool_name": "search", "tool_input": "tea"}]}
        misspelt = await client.post("/add_tool_call_result", json=wrong)
        assert misspelt.status_code == 422
        assert misspelt.json()["message"] == ("tool_call_results.0: unknown key 'tool_input'; did you mean 'input'?")
        refused = await client.post("/summary_tool_memory", json={"workspace_id": "w", "tool_names": "ghost"})
        assert refused.status_code == 422 and "no calls are kept of ghost" in refused.text


async def test_a_call_that_does_not_fit_keeps_out_no_other(app: FastAPI) -> None:
    odd = ({"token_cost": 2**40}, {"time_cost": -1}, {"score": 1e308})
    calls = [{"tool_name": "search", "output": "\0 items", **numbers} for numbers in ({}, *odd)]
    async with connected(app) as client:
        posted = await client.post("/add_tool_call_result", json={"workspace_id": "w", "tool_call_results": calls})
    assert posted.status_code == 200, posted.text
    told = posted.json()["metadata"]
    assert [one["error"].split(":")[0] for one in told["validation_stats"]["invalid"]] == [
        next(iter(numbers)) for numbers in odd
    ]
    assert told["memory_list"][0]["tool_call_results"][0]["output"] == "\ufffd items"
