"""The ops of working memory for the HTTP and MCP services; their fields have the names of ReMe 0.2."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from reme_core.errors import InputError
from reme_core.flows.deps import Deps
from reme_core.flows.registry import op
from reme_core.flows.state import State
from reme_core.working.answers import MOST_FOUND, MOST_READ, grep_answer, read_answer
from reme_core.working.api import Mode, Working
from reme_core.working.window import WindowUse, check_context

_CHARACTERS: Final = 4  # in a token: ReMe 0.2 gives the size of a preview in characters


class WindowState(State):
    """A conversation, and the limits of the model's window."""

    chat_id: str = ""
    max_total_tokens: int = Field(20_000, ge=1)
    max_tool_message_tokens: int = Field(2_000, ge=1)
    working_summary_mode: Mode = "auto"
    compact_ratio_threshold: float = Field(0.75, gt=0, lt=1)
    keep_recent_count: int = Field(1, ge=0)
    preview_char_length: int | None = Field(None, ge=0)


class ReadingState(State):
    """A search in artifacts, or a piece of one to read."""

    chat_id: str = ""
    handle: str = ""
    file_path: str = ""
    """The handle, as ReMe 0.2 calls it."""
    pattern: str = ""
    offset: int = Field(0, ge=0)
    limit: int = Field(MOST_FOUND, ge=1, le=MOST_FOUND)


_LIMITS: Final = (
    "chat_id", "max_total_tokens", "max_tool_message_tokens", "working_summary_mode", "compact_ratio_threshold",
    "keep_recent_count", "preview_char_length",
)  # fmt: skip


@op(reads={"messages"}, uses=_LIMITS, writes={"transcript"}, aliases=("message_offload", "context_offload"))
async def fit_working_memory(state: WindowState, deps: Deps) -> None:
    """Fit a conversation into a window: excerpts replace long outputs of tools, and a summary replaces old turns."""
    settings = deps.settings.working.model_copy(
        update={"offload_from": state.max_tool_message_tokens, "compact_from": state.compact_ratio_threshold}
    )
    if state.preview_char_length is not None:
        # A preview of ReMe 0.2 has the beginning only.
        settings.head_tokens, settings.tail_tokens = -(-state.preview_char_length // _CHARACTERS), 0
    fitted = await _working_memory(deps).fit(
        state.workspace_id, state.messages, window=state.max_total_tokens, session_id=state.chat_id,
        mode=state.working_summary_mode, keep_recent=state.keep_recent_count, settings=settings,
    )  # fmt: skip
    state.transcript = fitted.messages
    state.report |= _use_report(fitted.use) | {
        "tokens_before": fitted.before.tokens,
        "offloaded": fitted.offloaded,
        "compacted": fitted.compacted,
        "summary_by": fitted.made,
    }


@op(
    reads={"messages"},
    uses={"max_total_tokens"},
    writes={"answer"},
    aliases=("context_check", "context_checker"),
    only_reads=True,
)
async def check_window(state: WindowState, deps: Deps) -> None:
    """Say how full a window is, by an estimate that errs on the safe side."""
    use = check_context(state.messages, state.max_total_tokens)
    state.report |= _use_report(use)
    state.answer = f"{use.tokens} of {use.window} tokens ({use.share:.0%})"


@op(
    reads={"pattern"},
    uses={"chat_id", "handle", "file_path", "limit"},
    writes={"answer"},
    aliases=("grep",),
    only_reads=True,
)
async def grep_artifacts(state: ReadingState, deps: Deps) -> None:
    """Find lines in the artifacts of a conversation, or in one artifact."""
    found = await _working_memory(deps).grep(
        state.workspace_id, state.pattern, session_id=state.chat_id, handle=state.handle or state.file_path,
        limit=state.limit,
    )  # fmt: skip
    state.answer = grep_answer(found, state.limit)
    state.report["matches"] = [{"handle": one.artifact_id, "offset": one.offset, "line": one.line} for one in found]


@op(uses={"handle", "file_path", "offset"}, writes={"answer"}, aliases=("read_file",), only_reads=True)
async def read_artifact(state: ReadingState, deps: Deps) -> None:
    """Read a piece of an artifact, as long as an answer may be.

    Raises:
        InputError: No handle is given.
    """
    handle = state.handle or state.file_path
    if not handle:
        raise InputError("handle: names no artifact; it stands where the text was")
    piece = await _working_memory(deps).read(state.workspace_id, handle, offset=state.offset, size=MOST_READ)
    state.answer = read_answer(piece)
    state.report |= {"text": piece.text, "offset": piece.offset, "length": piece.length}


def _working_memory(deps: Deps) -> Working:
    return Working(deps.database, deps.settings, deps.chat, deps.start_worker)


def _use_report(use: WindowUse) -> dict[str, object]:
    return {"tokens": use.tokens, "tool_tokens": use.tool_tokens, "share": round(use.share, 3)}
