"""Attempts at tasks, as clients post them, and a chat model that answers each op in its own form."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]


def user(content: str, **more: Any) -> Json:
    return {"role": "user", "content": content, **more}


def says(content: str, **more: Any) -> Json:
    return {"role": "assistant", "content": content, **more}


def calls(tool: str, result: str, **arguments: Any) -> list[Json]:
    """A tool call in OpenAI's form, and its result."""
    function = {"name": tool, "arguments": json.dumps(arguments, ensure_ascii=False)}
    name = f"call-{tool}-{zlib.crc32(result.encode())}"
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": name, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": name, "content": result},
    ]


def attempt(*messages: Json | list[Json], score: float | None = 1.0, task_id: str = "", **metadata: Any) -> Json:
    flat = [m for group in messages for m in (group if isinstance(group, list) else [group])]
    scored = {} if score is None else {"score": score}
    return {"task_id": task_id, "messages": flat, "metadata": metadata, **scored}


ASKED = "Book the cheapest flight from Berlin to Oslo tomorrow."
BOOKED = attempt(
    {"role": "system", "content": "You are a travel agent of ACME. Never be rude."},
    user(ASKED),
    calls("search_flights", '{"error": "date must be YYYY-MM-DD"}', origin="BER", date="tomorrow"),
    calls("search_flights", '[{"id": "F2", "price": 70}]', origin="BER", date="2025-03-02"),
    calls("book_flight", '{"status": "ok"}', flight_id="F2", card_token="sk-very-secret"),
    says("Flight F2 is booked for 70 euros."),
    score=1.0,
    task_id="flight",
)
NOT_BOOKED = attempt(
    user(ASKED),
    calls("search_flights", '{"error": "date must be YYYY-MM-DD"}', origin="BER", date="tomorrow"),
    says("There are no flights."),
    score=0.0,
    task_id="flight",
)
CANCELLED = attempt(
    user("帮我取消昨天下的那个订单", time_created="2023-05-01 10:00:00"),
    calls("cancel_order", "错误：订单号无效", order="昨天"),
    calls("list_orders", '[{"id": "A17"}]', days=2),
    calls("cancel_order", '{"success": true}', order="A17"),
    says("订单 A17 已取消。", time_created="2023-05-01 10:00:07"),
    score=1.0,
    task_id="订单",
)


def lesson(when_to_use: str, experience: str, **more: Any) -> Json:
    return {"when_to_use": when_to_use, "experience": experience, "tags": ["t"], "confidence": 0.9, **more}


_OPS = {
    "success_extraction": ("You study work of AI agents that succeeded", "你研究智能体成功完成的工作"),
    "failure_extraction": ("You study work of AI agents that failed", "你研究智能体失败的工作"),
    "comparison_soft": ("Two attempts at the same task", "同一任务的两次尝试"),
    "comparison_hard": ("Two similar stretches of work", "两个相似的片段"),
    "validation": ("Lessons drawn from finished work", "从完成的工作中得出的经验"),
    "segmentation": ("Divide it where one sub-task", "请在一个子任务结束"),
    "simple_summary": ("what an AI agent's finished work teaches", "你记下智能体完成的工作给人的启示"),
    "simple_comparative": ("attempts at the same task, each with its score", "次尝试，各附得分"),
    "build_query": ("Write one query", "请写一条"),
    "rewrite": ("You brief an agent", "你在智能体开始工作之前"),
    "rerank": ("Order the numbered documents", "Order the numbered documents"),
    "react": ("search_memory", "search_memory"),
}


def op_of(body: Json) -> str:
    """Which op asks, told by its prompt."""
    text = "\n".join(str(message.get("content")) for message in body["messages"])
    return next(name for name, marks in _OPS.items() if any(mark in text for mark in marks))


def valid(body: Json) -> Json:
    """A verdict that lets every lesson of the request pass."""
    numbers = re.findall(r"^\[(\d+)\] when:", body["messages"][-1]["content"], re.MULTILINE)
    return {"verdicts": [{"number": int(n), "is_valid": True, "score": 0.8, "reason": "fine"} for n in numbers]}


def answering(**by_op: Any) -> Callable[[Json], Any]:
    """A script for the loopback server: each op by name, its answer or a function of the request's body."""
    script: dict[str, Any] = {"validation": valid, **by_op}

    def answer(body: Json) -> Any:
        reply = script.get(op_of(body), {"lessons": []})
        return reply(body) if callable(reply) else reply

    return answer
