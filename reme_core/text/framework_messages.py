"""Messages of agent frameworks as ours: each is read by the adapter of its framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from reme_core.errors import require_extra

# Named here and imported only for a message of theirs: the core stands on no framework.
_ADAPTERS: Final = {
    "langchain_core": ("langchain", "reme_langchain.convert"),
    "autogen_core": ("autogen", "reme_autogen.convert"),
    "autogen_agentchat": ("autogen", "reme_autogen.convert"),
    "llama_index": ("llamaindex", "reme_llamaindex.convert"),
    "agentscope": ("agentscope", "reme_agentscope"),
}
"""By the package of a message: the extra, and the module whose `read_message` gives what was said in it."""


def from_frameworks(given: Any) -> Any:
    """One message or several, as they were given, but with those of agent frameworks as ours.

    Raises:
        ConfigurationError: The framework is there, but not all that its adapter needs.
    """
    messages = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    readers = [_reader(type(message)) for message in messages]
    if not any(readers):
        return given
    return [
        part
        for message, reader in zip(messages, readers, strict=True)
        for part in (reader(message) if reader else [message])
    ]


def _reader(kind: type[Any]) -> Callable[[Any], list[Any]] | None:
    for base in kind.__mro__:
        extra, module = _ADAPTERS.get(base.__module__.partition(".")[0], ("", ""))
        if module:
            with require_extra(extra):
                reader: Callable[[Any], list[Any]] = import_module(module).read_message
                return reader
    return None
