"""The door for adapters keeps a turn's conversation within its window, and gives the agent tools to read the rest."""

from __future__ import annotations

import logging

import pytest
from pydantic import SecretStr

from reme_core import AsyncReMe
from reme_core.errors import InputError, ReMeError
from reme_core.settings import Settings
from reme_core.testing import Gate
from reme_core.turn import OWN_TOOLS, ToolFailure, TurnMemory, WindowTools, fit_window, tool_schema
from reme_core.types import Message

LOG = "\n".join(f"step {number} gave {number * 37}" for number in range(3_000))
SAID = [Message(content="Run it."), Message(role="tool", tool_call_id="c", content=LOG)]


async def test_without_a_window_everything_is_shown_and_there_are_no_tools(reme: AsyncReMe) -> None:
    turn = TurnMemory(reme, "alice")
    assert await fit_window(turn, SAID, "s") is None
    assert WindowTools(turn, lambda: "s").all() == []
    with pytest.raises(InputError, match="window is a whole number, 1 or more; not 0"):
        TurnMemory(reme, "alice", window=0)


async def test_the_tools_find_and_read_what_left_the_window_of_their_conversation(reme: AsyncReMe) -> None:
    turn = TurnMemory(reme, "alice", window=16_000)
    fitted = await fit_window(turn, SAID, "s")
    assert fitted is not None and len(fitted.messages[1].content) < 3_000
    grep, read = WindowTools(turn, lambda: "s").all()
    found = await grep("step 2345 gave")
    assert "step 2345 gave 86765" in found and found.startswith("<memory_note>")
    handle, offset = fitted.offloaded[0], LOG.index("step 2345")
    assert f"{handle} @{offset} (tool)" in found
    told = await read(f'"{handle}"', offset)
    assert "step 2345 gave 86765" in told and f'it goes on with read_working_memory("{handle}", ' in told
    assert len(told) < 8_000
    many = await grep("step")
    assert "There may be more" in many and len(many) < 8_000
    assert "Nothing that left the window matches" in await WindowTools(turn, lambda: "t").grep_working_memory(
        "step 2345"
    )
    elsewhere = TurnMemory(reme, "bob", window=16_000)
    assert "step 2345" in await WindowTools(turn, lambda: "t").read_working_memory(handle, offset)
    assert isinstance(await WindowTools(elsewhere, lambda: "s").read_working_memory(handle), ToolFailure)
    assert {tool_schema(tool).name for tool in (grep, read)} <= OWN_TOOLS
    assert "handle" in tool_schema(read).parameters["required"]


async def test_a_model_is_told_what_it_did_wrong(reme: AsyncReMe) -> None:
    turn = TurnMemory(reme, "alice", window=16_000)
    await fit_window(turn, SAID, "s")
    grep, read = WindowTools(turn, lambda: "s").all()
    for told in (await grep("("), await read("beef"), await grep("x", "beef")):
        assert isinstance(told, ToolFailure) and told.startswith("That did not work:")


async def test_where_memory_is_away_everything_is_shown_and_that_is_told(
    settings: Settings, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    through = settings.model_copy(update={"database_url": SecretStr(gate.url)})
    through.working.patience = 0.5
    async with AsyncReMe(through) as reme:
        turn = TurnMemory(reme, "alice", window=16_000, patience=1.0)
        gate.close()
        with caplog.at_level(logging.WARNING):
            assert await fit_window(turn, SAID, "s") is None
        assert "a conversation is shown in full" in caplog.text and turn.counts.failures == 1
        with pytest.raises(ReMeError):
            await fit_window(TurnMemory(reme, "alice", window=16_000, on_error="raise", patience=1.0), SAID, "s")
        gate.open()
        turn.patience = 20.0  # the pool takes its time to notice
        assert await fit_window(turn, SAID, "s") is not None


async def test_the_models_own_tokenizer_counts(reme: AsyncReMe) -> None:
    turn = TurnMemory(reme, "alice", window=16_000)
    fitted = await fit_window(turn, SAID, "s", count_tokens=lambda text: 1)
    assert fitted is not None and fitted.messages == SAID
