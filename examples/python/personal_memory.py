"""Personal memory over HTTP: remember what people say about themselves. Start `reme serve` first."""

import os

import httpx

SERVICE = os.environ.get("REME_URL", "http://127.0.0.1:8002")

CONVERSATION = [
    {"role": "user", "content": "我喜欢早上喝咖啡工作", "time_created": "2025-09-01 08:30:00"},
    {"role": "assistant", "content": "了解，您习惯早上用咖啡提神来开始工作"},
    {"role": "user", "content": "I moved to Lisbon last month.", "time_created": "2025-09-01 08:31:00"},
]


def main() -> None:
    """Remember a conversation, and ask about it in two languages."""
    with httpx.Client(base_url=SERVICE, timeout=120) as client:

        def post(flow: str, **body: object) -> dict:
            response = client.post(f"/{flow}", json={"workspace_id": "ming", **body})
            response.raise_for_status()
            return response.json()

        heard = post("summary_personal_memory", trajectories=[{"messages": CONVERSATION}])
        for memory in heard["metadata"]["memory_list"]:
            print("remembered:", memory["content"])

        for question in ("用户的工作习惯是什么？", "Where does the user live?"):
            print(post("retrieve_personal_memory", query=question, top_k=3)["answer"])


if __name__ == "__main__":
    main()
