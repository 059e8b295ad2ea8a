"""What adapters use to put memory into an agent framework.

`TurnMemory` recalls before a turn and records after it. An adapter translates the framework's messages into
`reme_core.types`, and shows the model the note; the other names here help with that.
"""

from reme_core.connection import callers_portal
from reme_core.models.agent_chat import AgentChat
from reme_core.models.base import Completion
from reme_core.postgres.database import check_workspace
from reme_core.postgres.errors import without_password
from reme_core.prompts.fence import NOTE_METADATA, as_text
from reme_core.prompts.note import Note
from reme_core.text.chat_format import MessageLike
from reme_core.text.ids import ConversationIds, id_without, stable_id, with_recorded_ids
from reme_core.text.plain import decode_json, encode_json, json_object, plain_json
from reme_core.turn.accounts import Counts, Usage
from reme_core.turn.asker import ASKER, Asker, asking_agent
from reme_core.turn.connections import Client, Closing, ReMeLike, TurnConnection, also_redact
from reme_core.turn.heard import calls_of_api, heard_call, heard_message, text_of_value
from reme_core.turn.memory import TurnMemory
from reme_core.turn.memory_tools import TOOLS_HINT, MemoryTool, MemoryTools, ToolFailure, arguments_model, tool_schema
from reme_core.turn.options import (
    OnError,
    Position,
    SpoolPlace,
    TurnOptions,
    Write,
    check_count,
    check_count_tokens,
    check_flag,
    check_model,
    check_session,
    name_workspace,
    refuse_unknown,
)
from reme_core.turn.plain_loop import Turn
from reme_core.turn.tool_calls import OWN_TOOLS, ToolCallSink, ToolRun, calls_in, observe_call, tool_call_result
from reme_core.turn.window import SESSION, WindowTools, fit_messages, fit_window
from reme_core.working.api import Fitted
from reme_core.working.window import CountTokens

__all__ = [
    "ASKER",
    "NOTE_METADATA",
    "OWN_TOOLS",
    "SESSION",
    "TOOLS_HINT",
    "AgentChat",
    "Asker",
    "Client",
    "Closing",
    "Completion",
    "ConversationIds",
    "CountTokens",
    "Counts",
    "Fitted",
    "MemoryTool",
    "MemoryTools",
    "MessageLike",
    "Note",
    "OnError",
    "Position",
    "ReMeLike",
    "SpoolPlace",
    "ToolCallSink",
    "ToolFailure",
    "ToolRun",
    "Turn",
    "TurnConnection",
    "TurnMemory",
    "TurnOptions",
    "Usage",
    "WindowTools",
    "Write",
    "also_redact",
    "arguments_model",
    "as_text",
    "asking_agent",
    "callers_portal",
    "calls_in",
    "calls_of_api",
    "check_count",
    "check_count_tokens",
    "check_flag",
    "check_model",
    "check_session",
    "check_workspace",
    "decode_json",
    "encode_json",
    "fit_messages",
    "fit_window",
    "heard_call",
    "heard_message",
    "id_without",
    "json_object",
    "name_workspace",
    "observe_call",
    "plain_json",
    "refuse_unknown",
    "stable_id",
    "text_of_value",
    "tool_call_result",
    "tool_schema",
    "with_recorded_ids",
    "without_password",
]
