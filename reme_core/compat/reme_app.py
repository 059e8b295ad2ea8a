"""`ReMeApp`: ReMe 0.1 inside a Python program, as agent frameworks call it.

```python
from reme_core.compat.reme_app import ReMeApp

async with ReMeApp("vector_store.default.backend=local") as app:
    result = await app.async_execute(name="retrieve_task_memory", workspace_id="shop", query="Refund an order")
    print(result["answer"])
```

After `reme_core.compat.install()`, `from reme_ai import ReMeApp` imports it too.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Self, TypeVar

from pydantic import SecretStr

from reme_core.compat.command_line import embed_offline
from reme_core.engine import Engine
from reme_core.errors import ReMeError
from reme_core.settings import ChatSettings, EmbeddingSettings, ModelSettings, Settings

log = logging.getLogger(__name__)

Model = TypeVar("Model", bound=ModelSettings)


class ReMeApp:
    """Flows of ReMe 0.1, in process.

    Args:
        args: Settings as on the command line, `llm.default.model_name=…`.
        llm_api_key: The key of `llm.default`.
        llm_api_base: Its base URL.
        embedding_api_key: The key of `embedding_model.default`.
        embedding_api_base: Its base URL.
        config_path: A YAML file with settings.
        kwargs: Other arguments of ReMe 0.1 (`parser` …); they are ignored with a warning in the log.

    Raises:
        ConfigurationError: A setting is unknown (the nearest valid name is given), or a value is invalid.
    """

    def __init__(
        self,
        *args: str,
        llm_api_key: str | None = None,
        llm_api_base: str | None = None,
        embedding_api_key: str | None = None,
        embedding_api_base: str | None = None,
        config_path: str | None = None,
        **kwargs: Any,
    ) -> None:
        if kwargs:
            log.warning("ReMeApp has no use for %s; give settings as 'section.key=value'", ", ".join(sorted(kwargs)))
        settings = Settings.load(*args, config=config_path)
        chat = settings.llm.get("default") or ChatSettings()
        embedding = settings.embedding_model.get("default") or EmbeddingSettings()
        if llm_api_key or llm_api_base:
            settings.llm["default"] = _with_endpoint(chat, llm_api_base, llm_api_key)
        if embedding_api_key or embedding_api_base:
            settings.embedding_model["default"] = _with_endpoint(embedding, embedding_api_base, embedding_api_key)
        self.settings = embed_offline(settings)
        self._reme: Engine | None = None
        self._opening = asyncio.Lock()  # else an engine would be opened that nobody closes

    async def __aenter__(self) -> Self:
        return await self.async_start()

    async def __aexit__(self, *exception: object) -> None:
        await self.async_stop()

    async def async_start(self) -> Self:
        """Open the database and the models; does nothing if they are open."""
        async with self._opening:
            if self._reme is None:
                self._reme = await Engine(self.settings).open()
        return self

    async def async_stop(self) -> None:
        """Close the database and the models."""
        async with self._opening:
            reme, self._reme = self._reme, None  # first, so that a second call does nothing
        if reme is not None:
            await reme.aclose()

    async def async_execute(self, name: str, **kwargs: Any) -> dict[str, Any]:
        """Run a flow.

        Args:
            name: Its name, such as `summary_personal_memory`.
            kwargs: Its inputs: `workspace_id`, `query`, `trajectories` … None counts as not given.

        Returns:
            `{"answer": str, "messages": list, "success": True, "metadata": dict}`.

        Raises:
            ReMeError: The app is not open, there is no such flow, or it failed.
        """
        if self._reme is None:
            raise ReMeError("this ReMeApp is not open: use `async with ReMeApp(…) as app`")
        request = {key: value for key, value in kwargs.items() if value is not None}
        return (await self._reme.execute(name, **request)).model_dump(mode="json")


def _with_endpoint(section: Model, base_url: str | None, api_key: str | None) -> Model:
    # What is not given stays as the settings have it.
    changes: dict[str, Any] = {"base_url": base_url or section.base_url}
    return section.model_copy(update=changes | ({"api_key": SecretStr(api_key)} if api_key else {}))
