"""The flows of working memory: a conversation comes in, what fits comes out, and the rest is found and read."""

from __future__ import annotations

from typing import Any

import pytest

from reme_core.engine import Engine
from reme_core.errors import InputError
from reme_core.settings import Settings
from tests.loopback import Loopback

LOG = "\n".join(f"step {number} gave {number * 37}" for number in range(3_000))
CALL = {"id": "c", "type": "function", "function": {"name": "read_log", "arguments": '{"job": 1}'}}
SAID: list[dict[str, Any]] = [
    {"role": "system", "content": "You read logs."},
    {"role": "user", "content": "Read the log of job 1, please."},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": LOG},
    {"role": "user", "content": "And?"},
]


@pytest.mark.parametrize("flow", ["summary_working_memory", "summary_working_memory_for_as"])
async def test_an_output_is_offloaded_found_and_read(reme: Engine, flow: str) -> None:
    fitted = await reme.execute(flow, workspace_id="w", messages=SAID, chat_id="s", store_dir="unused")
    [handle] = fitted.metadata["offloaded"]
    assert [message["role"] for message in fitted.messages] == [message["role"] for message in SAID]
    assert handle in fitted.messages[3]["content"] and len(fitted.messages[3]["content"]) < 2_000
    assert fitted.metadata["tokens"] < 700 < 10_000 < fitted.metadata["tokens_before"]
    found = await reme.execute("grep_working_memory", workspace_id="w", chat_id="s", pattern="step 2345 ")
    [match] = found.metadata["matches"]
    assert match["line"] == "step 2345 gave 86765" and "86765" in found.answer
    read = await reme.execute("read_working_memory", workspace_id="w", handle=handle, offset=match["offset"])
    assert read.metadata["text"].startswith("step 2345 gave 86765") and read.metadata["length"] == len(LOG)
    same = await reme.execute("read_working_memory", workspace_id="w", file_path=handle)  # as ReMe 0.2 named it
    assert "step 0 gave 0" in same.answer
    with pytest.raises(InputError, match="handle"):
        await reme.execute("read_working_memory", workspace_id="w")


async def test_what_a_flow_has_stored_is_left_to_a_worker_to_expire(reme: Engine, settings: Settings) -> None:
    async with Engine(settings, worker={"embedded": True}) as working:
        await working.execute("summary_working_memory", workspace_id="w", messages=SAID)
        assert not working.background.task.done()


async def test_a_preview_is_as_long_as_is_asked(reme: Engine) -> None:
    fitted = await reme.execute("summary_working_memory", messages=SAID, preview_char_length=0)
    assert "step 0 " not in fitted.messages[3]["content"] and "step 2999 " not in fitted.messages[3]["content"]


async def test_old_turns_are_summarised_by_one_call(reme_with_chat: Engine, loopback: Loopback) -> None:
    loopback.chat({"tasks": [0], "story": "A log was read."})
    fitted = await reme_with_chat.execute(
        "summary_working_memory", messages=[*SAID, {"role": "assistant", "content": "It went well."}, SAID[-1]],
        chat_id="s", working_summary_mode="compress", keep_recent_count=1,
    )  # fmt: skip
    assert [message["role"] for message in fitted.messages] == ["system", "user", "user"]
    summary = fitted.messages[1]["content"]
    assert "- Read the log of job 1, please." in summary and "What happened: A log was read." in summary
    assert fitted.metadata["summary_by"] == "loop-chat" and len(loopback.bodies("/chat/completions")) == 1


async def test_how_full_a_window_is(reme: Engine) -> None:
    told = await reme.execute("check_context", messages=SAID, max_total_tokens=100_000)
    assert told.answer.startswith(f"{told.metadata['tokens']} of 100000 tokens (2")
    assert 0.1 < told.metadata["share"] < 0.5 and told.metadata["tool_tokens"] > 10_000
