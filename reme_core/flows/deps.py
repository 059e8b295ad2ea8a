"""What ops work with: the store, the models and the settings, opened once and shared by every flow."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import datetime

from reme_core.errors import ConfigurationError
from reme_core.models import ChatModel, Reranker
from reme_core.postgres.database import Database
from reme_core.settings import OpSettings, Settings
from reme_core.store.index.embedders import WorkspaceModels
from reme_core.store.logs import LogWriter
from reme_core.store.memories import Memories
from reme_core.store.recall import Recall
from reme_core.store.workspaces import Workspaces
from reme_core.types import now


@dataclasses.dataclass(frozen=True)
class Deps:
    """What an op works with. All requests share it, and ops close none of it.

    Attributes:
        workspace_models: Which embedder serves a workspace.
        log_writer: The log of recalls and model calls.
        chats: Chat models by their name in the settings.
        chat: The chat model of the op at hand; None if rules do its work.
        language: `en`, `zh`, or `auto`, the language of the input.
        flow: The name of the flow at hand, for the logs.
        tell: Is called with each piece of the answer, if the caller wants it streamed.
        start_worker: Is called when something was stored that a worker has to delete one day.
    """

    database: Database
    memories: Memories
    workspaces: Workspaces
    recall: Recall
    workspace_models: WorkspaceModels
    log_writer: LogWriter
    settings: Settings
    chats: Mapping[str, ChatModel] = dataclasses.field(default_factory=dict)
    chat: ChatModel | None = None
    reranker: Reranker | None = None
    language: str = "auto"
    flow: str = ""
    now: Callable[[], datetime] = now
    tell: Callable[[str], None] | None = None
    start_worker: Callable[[], None] = lambda: None

    def for_op(self, override: OpSettings) -> Deps:
        """The same with the chat model and the language that the settings of one op name.

        Raises:
            ConfigurationError: It names a chat model that is not there, since it has no endpoint or is offline. Without
                the default one, rules do the work of an op that names it, as of one that names none.
        """
        name = "" if override.llm == "default" else override.llm
        if name and name not in self.chats:
            needed = f"llm.{name}.model_name, and its base_url or api_key"
            raise ConfigurationError(f"the chat model '{name}' cannot be asked; set {needed}")
        chat = self.chats[name] if name else self.chat
        return dataclasses.replace(self, chat=chat, language=override.language or self.language)
