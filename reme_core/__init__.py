"""Long-term memory for AI agents on your own Postgres.

The names below are the public face; each is imported when it is first used, so that `import reme_core` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from reme_core._version import __version__

if TYPE_CHECKING:
    from reme_core.app import AsyncReMe
    from reme_core.errors import ReMeError
    from reme_core.experience import Episode, MistakeCard
    from reme_core.schema import Hit, Kind, Memory, Message, Recollection, Status, TimeRange, Trajectory
    from reme_core.settings import Settings
    from reme_core.sync import ReMe
    from reme_core.tool_call import ToolCallResult

_HOMES = {
    "AsyncReMe": "reme_core.app",
    "Episode": "reme_core.experience",
    "Hit": "reme_core.schema",
    "Kind": "reme_core.schema",
    "Memory": "reme_core.schema",
    "Message": "reme_core.schema",
    "MistakeCard": "reme_core.experience",
    "ReMe": "reme_core.sync",
    "ReMeError": "reme_core.errors",
    "Recollection": "reme_core.schema",
    "Settings": "reme_core.settings",
    "Status": "reme_core.schema",
    "TimeRange": "reme_core.schema",
    "ToolCallResult": "reme_core.tool_call",
    "Trajectory": "reme_core.schema",
}

__all__ = [
    "AsyncReMe",
    "Episode",
    "Hit",
    "Kind",
    "Memory",
    "Message",
    "MistakeCard",
    "ReMe",
    "ReMeError",
    "Recollection",
    "Settings",
    "Status",
    "TimeRange",
    "ToolCallResult",
    "Trajectory",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'reme_core' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
