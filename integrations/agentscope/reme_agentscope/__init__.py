"""ReMe core as the long-term memory of AgentScope agents, old and new.

For AgentScope 2 there is `ReMeMiddleware`, for AgentScope 1 `ReMeLongTermMemory`. Only the class for the installed
version can be imported; for the other one, the error names the right class.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentscope.message import Msg

    from reme_agentscope.long_term_memory import ReMeLongTermMemory as ReMeLongTermMemory
    from reme_agentscope.middleware import ReMeMiddleware as ReMeMiddleware
    from reme_core.types import Message

_HOMES = {"ReMeMiddleware": ("middleware", 2), "ReMeLongTermMemory": ("long_term_memory", 1)}
_MAJOR = int(version("agentscope").partition(".")[0])

# `import *` takes all of these, and the class for the other version cannot be imported.
__all__ = [name for name, (_, major) in _HOMES.items() if major == _MAJOR]


def read_message(msg: Msg) -> list[Message]:
    """A single message of the installed AgentScope as `Message`s."""
    module = "convert" if _MAJOR >= 2 else "long_term_memory"
    messages: list[Message] = import_module(f"reme_agentscope.{module}").from_msg(msg)
    return messages


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'reme_agentscope' has no attribute '{name}'")
    module, major = _HOMES[name]
    if major != _MAJOR:
        other = next(other for other in _HOMES if other != name)
        raise ImportError(f"{name} is for AgentScope {major}, and {version('agentscope')} is installed; use {other}")
    return getattr(import_module(f"reme_agentscope.{module}"), name)
