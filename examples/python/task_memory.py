"""Task memory over HTTP: learn from attempts, and get guidance for the next one. Start `reme serve` first."""

import os

import httpx

SERVICE = os.environ.get("REME_URL", "http://127.0.0.1:8002")

ATTEMPTS = [
    {
        "task_id": "flight",
        "score": 1.0,
        "messages": [
            {"role": "user", "content": "Book the cheapest flight from Berlin to Oslo tomorrow."},
            {"role": "assistant", "tool_calls": [{"id": "1", "name": "search", "arguments": '{"date": "tomorrow"}'}]},
            {"role": "tool", "tool_call_id": "1", "content": '{"error": "date must be YYYY-MM-DD"}'},
            {"role": "assistant", "tool_calls": [{"id": "2", "name": "search", "arguments": '{"date": "2025-03-02"}'}]},
            {"role": "tool", "tool_call_id": "2", "content": '[{"id": "F2", "price": 70}]'},
            {"role": "assistant", "content": "Flight F2 costs 70 euros."},
        ],
    }
]


def main() -> None:
    """Learn, ask, and tell how it went."""
    with httpx.Client(base_url=SERVICE, timeout=120) as client:

        def post(flow: str, **body: object) -> dict:
            response = client.post(f"/{flow}", json={"workspace_id": "travel_agent", **body})
            response.raise_for_status()
            return response.json()

        learned = post("summary_task_memory", trajectories=ATTEMPTS)
        for memory in learned["metadata"]["memory_list"]:
            print("learned:", memory["when_to_use"], "->", memory["content"])

        found = post("retrieve_task_memory", query="Find a flight to Rome next week", top_k=2)
        print(found["answer"])

        # Later, when it is known whether the agent succeeded: this is what `delete_task_memory` judges by.
        post("record_task_memory", memory_dicts=found["metadata"]["memory_list"], update_utility=True)


if __name__ == "__main__":
    main()
