"""Models built from settings, and, where none is set, the reason why the offline ones serve.

Remote providers are imported where they are built: an offline start needn't wait for their SDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

from reme_core.errors import ConfigurationError
from reme_core.models.base import ChatModel, Embedder, OnCall, Reranker
from reme_core.models.cache import CachedEmbedder
from reme_core.models.local import ENGINES, LocalEmbedder
from reme_core.settings import EmbeddingSettings, ModelSettings, Settings

if TYPE_CHECKING:
    from reme_core.models.endpoint import Endpoint

SectionT = TypeVar("SectionT", bound=ModelSettings)

OPENAI_BASE_URL: Final = "https://api.openai.com/v1"

_OPENAI = ("openai", "openai_compatible")
_OFFLINE = ("local", "offline", "rules")


def chat_model(settings: Settings, name: str = "default", *, on_call: OnCall | None = None) -> ChatModel | None:
    """The chat model that `llm.<name>` describes; None where the offline rules serve (`why_offline` says why).

    Raises:
        ConfigurationError: There is no such section, or it doesn't hold together.
    """
    if why_offline(settings, name):
        return None
    section = settings.llm[name]
    key = f"llm.{name}"
    from reme_core.models import dashscope, openai_chat  # noqa: PLC0415

    if _provider(section, key) == "dashscope":
        endpoint = _endpoint(section, dashscope.BASE_URL)
        return dashscope.DashScopeChat(_model(section, key), endpoint, params=section.params, on_call=on_call)
    endpoint = _endpoint(section, OPENAI_BASE_URL)
    return openai_chat.OpenAIChat(_model(section, key), endpoint, params=section.params, on_call=on_call)


def chat_models(settings: Settings, *, on_call: OnCall | None = None) -> dict[str, ChatModel]:
    """Every chat model of `llm` that can be reached, by its name there; ops may ask for one of their own.

    Raises:
        ConfigurationError: A section doesn't hold together.
    """
    models = {name: chat_model(settings, name, on_call=on_call) for name in settings.llm}
    return {name: model for name, model in models.items() if model is not None}


def why_offline(settings: Settings, name: str = "default") -> str:
    """Why `chat_model` gives none, as a sentence for the start-up banner; empty where it gives one."""
    section = _section(settings.llm, name, "llm")
    if section is None:
        return "No chat model is set: the offline rules serve. Set llm.default.model_name, .base_url and .api_key."
    if section.backend in _OFFLINE:
        return f"llm.{name}.backend={section.backend}: the offline rules serve."
    if _unreachable(section):
        named = f"llm.{name} names {section.model_name or 'no model'}, but neither a URL nor a key is set"
        return f"{named}: the offline rules serve. Set llm.{name}.base_url or FLOW_LLM_API_KEY."
    return ""


def embedder(settings: Settings, name: str = "default", *, on_call: OnCall | None = None) -> Embedder:
    """The embedder that `embedding_model.<name>` describes, its queries cached.

    Where nothing is configured, or a model is named but neither URL nor key, it is the local one.

    Raises:
        ConfigurationError: There is no such section, or it doesn't hold together.
    """
    section = _section(settings.embedding_model, name, "embedding_model")
    if section is None or section.backend in _OFFLINE or _unreachable(section):
        asked = section.model_name if section is not None else ""
        return CachedEmbedder(LocalEmbedder(asked if asked in ENGINES else None, on_call=on_call))
    return CachedEmbedder(_remote_embedder(section, f"embedding_model.{name}", on_call))


def embedder_named(settings: Settings, stored_name: str, *, on_call: OnCall | None = None) -> Embedder:
    """The embedder that made vectors stored under `stored_name`, so that they serve while a workspace moves on.

    It is a local engine, or a configured model of that name, or else that model at the endpoint of
    `embedding_model.default`: a change of model mostly keeps the endpoint.

    Raises:
        ConfigurationError: No endpoint is set where the model could be asked for.
    """
    if stored_name in ENGINES:
        return CachedEmbedder(LocalEmbedder(stored_name, on_call=on_call))
    model, _, width = stored_name.partition("@")
    dimensions = int(width) if width.isdigit() else None
    sections = {name: section for name, section in settings.embedding_model.items() if not _unreachable(section)}
    for name, section in sections.items():
        if (section.model_name, _dimensions(section)) == (model, dimensions):
            return CachedEmbedder(_remote_embedder(section, f"embedding_model.{name}", on_call))
    if (default := sections.get("default")) is None or default.backend in _OFFLINE:
        raise ConfigurationError(
            f"the stored vectors were made by {stored_name}, which is not configured: set embedding_model.<name> with "
            f"model_name={model} and its base_url and api_key, or run 'reme reembed' to move to the present model"
        )
    params = {key: value for key, value in default.params.items() if key != "dimensions"}
    moved = default.model_copy(update={"model_name": model, "dimensions": dimensions, "params": params})
    return CachedEmbedder(_remote_embedder(moved, "embedding_model.default", on_call))


def reranker(settings: Settings, name: str = "default", *, on_call: OnCall | None = None) -> Reranker | None:
    """The reranker that `rerank_model.<name>` describes; None where none is set.

    With `backend=chat`, `model_name` names the section of `llm` to use (`default` if empty).

    Raises:
        ConfigurationError: There is no such section, or it doesn't hold together.
    """
    section = _section(settings.rerank_model, name, "rerank_model")
    if section is None or (section.backend != "chat" and _unreachable(section)):
        return None
    from reme_core.models import dashscope, rerank  # noqa: PLC0415

    if section.backend == "chat":
        chat = chat_model(settings, section.model_name or "default", on_call=on_call)
        return rerank.ChatReranker(chat) if chat is not None else None
    key = f"rerank_model.{name}"
    if _is_dashscope(section):
        endpoint = _endpoint(section, dashscope.RERANK_BASE_URL)
        return dashscope.DashScopeReranker(section.model_name or dashscope.RERANK_MODEL, endpoint, on_call=on_call)
    if section.backend not in ("", "cohere", "jina"):
        raise ConfigurationError(f"{key}.backend '{section.backend}' is unknown; choose dashscope, cohere or chat")
    if not section.base_url:
        raise ConfigurationError(f"{key}.base_url must be set: the address below which /rerank lies")
    return rerank.HttpReranker(_model(section, key), _endpoint(section, ""), params=section.params, on_call=on_call)


def _section(sections: dict[str, SectionT], name: str, family: str) -> SectionT | None:
    if name in sections:
        return sections[name]
    if name == "default":
        return None
    known = ", ".join(sections) or "none"
    raise ConfigurationError(f"{family}.{name} is not configured; configured are: {known}")


def _unreachable(section: ModelSettings) -> bool:
    return not section.base_url and not section.api_key.get_secret_value()


def _is_dashscope(section: ModelSettings) -> bool:
    # The seeds reach DashScope through `openai_compatible` and its URL; its limits hold all the same.
    return section.backend == "dashscope" or "dashscope" in (urlsplit(section.base_url).hostname or "")


def _provider(section: ModelSettings, key: str) -> str:
    if section.backend not in ("", "dashscope", *_OPENAI):
        raise ConfigurationError(f"{key}.backend '{section.backend}' is unknown; choose openai, dashscope or local")
    return "dashscope" if _is_dashscope(section) else "openai"


def _model(section: ModelSettings, key: str) -> str:
    if not section.model_name:
        raise ConfigurationError(f"{key}.model_name must be set: a URL or key is, but not which model to ask for")
    return section.model_name


def _endpoint(section: ModelSettings, default_url: str) -> Endpoint:
    from reme_core.models.endpoint import Endpoint  # noqa: PLC0415

    return Endpoint(
        section.base_url or default_url,
        section.api_key,
        timeout_seconds=section.timeout_seconds,
        max_retries=section.max_retries,
        max_concurrency=section.max_concurrency,
    )


def _dimensions(section: EmbeddingSettings) -> int | None:
    # ReMe 0.1 has the width among the params.
    return section.dimensions or section.params.get("dimensions")


def _remote_embedder(section: EmbeddingSettings, key: str, on_call: OnCall | None) -> Embedder:
    from reme_core.models import dashscope, openai  # noqa: PLC0415

    at_dashscope = _provider(section, key) == "dashscope"
    provider = dashscope.DashScopeEmbedder if at_dashscope else openai.OpenAIEmbedder
    return provider(
        _model(section, key),
        _endpoint(section, dashscope.BASE_URL if at_dashscope else OPENAI_BASE_URL),
        dimensions=_dimensions(section),
        batch_size=section.batch_size,
        params={name: value for name, value in section.params.items() if name != "dimensions"},
        on_call=on_call,
    )
