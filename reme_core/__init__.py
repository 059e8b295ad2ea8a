"""Long-term memory for AI agents on your own Postgres.

The names below are the public face; each is imported when it is first used, so that `import reme_core` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from reme_core._version import __version__

if TYPE_CHECKING:
    from reme_core.client import AsyncReMe
    from reme_core.episodes.rules import Episode, MistakeCard
    from reme_core.errors import ReMeError
    from reme_core.settings import Settings
    from reme_core.store.items import Item, Items, ItemWrite, NamespacePattern
    from reme_core.store.tool_calls import ToolCallResult
    from reme_core.sync import ReMe
    from reme_core.turn.plain_loop import Turn
    from reme_core.types import Hit, Kind, Memory, Message, Recollection, Status, TimeRange, Trajectory
    from reme_core.working.window import check_context

_NAMES = {
    "reme_core.client": ("AsyncReMe",),
    "reme_core.episodes.rules": ("Episode", "MistakeCard"),
    "reme_core.errors": ("ReMeError",),
    "reme_core.settings": ("Settings",),
    "reme_core.store.items": ("Item", "ItemWrite", "Items", "NamespacePattern"),
    "reme_core.store.tool_calls": ("ToolCallResult",),
    "reme_core.sync": ("ReMe",),
    "reme_core.turn.plain_loop": ("Turn",),
    "reme_core.types": ("Hit", "Kind", "Memory", "Message", "Recollection", "Status", "TimeRange", "Trajectory"),
    "reme_core.working.window": ("check_context",),
}

__all__ = [
    "AsyncReMe",
    "Episode",
    "Hit",
    "Item",
    "ItemWrite",
    "Items",
    "Kind",
    "Memory",
    "Message",
    "MistakeCard",
    "NamespacePattern",
    "ReMe",
    "ReMeError",
    "Recollection",
    "Settings",
    "Status",
    "TimeRange",
    "ToolCallResult",
    "Trajectory",
    "Turn",
    "__version__",
    "check_context",
]


def __getattr__(name: str) -> Any:
    home = next((module for module, names in _NAMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'reme_core' has no attribute '{name}'")
    # Kept, so that the next use of the name does not come here.
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
