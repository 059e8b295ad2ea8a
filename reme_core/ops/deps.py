"""What ops stand on: the store, the models and the settings, opened once and shared by every flow."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from reme_core.errors import ConfigurationError
from reme_core.schema import now
from reme_core.settings import OpSettings, Settings

if TYPE_CHECKING:
    from reme_core.models.base import ChatModel, Embedder, Reranker
    from reme_core.store import Store


@dataclasses.dataclass(frozen=True)
class Deps:
    """The surroundings of an op. Nothing in it belongs to one request, and ops close none of it."""

    store: Store
    embedder: Embedder
    settings: Settings = dataclasses.field(default_factory=Settings)
    chats: Mapping[str, ChatModel] = dataclasses.field(default_factory=dict)
    """Chat models by their name in the settings; `default` serves where an op names none."""
    chat: ChatModel | None = None
    """The chat model of the op at hand; without one the rules serve."""
    reranker: Reranker | None = None
    language: str = "auto"
    """`en`, `zh`, or `auto`: the language of the input."""
    now: Callable[[], datetime] = now

    def for_op(self, override: OpSettings) -> Deps:
        """The same surroundings as the settings of one op want them: its own model, its own language.

        Raises:
            ConfigurationError: It names a chat model that is not there.
        """
        changes: dict[str, object] = {}
        if override.llm:
            if override.llm not in self.chats:
                raise ConfigurationError(
                    f"the chat model '{override.llm}' is not set; add llm.{override.llm}.model_name=..."
                )
            changes["chat"] = self.chats[override.llm]
        if override.language:
            changes["language"] = override.language
        return dataclasses.replace(self, **changes) if changes else self  # type: ignore[arg-type]
