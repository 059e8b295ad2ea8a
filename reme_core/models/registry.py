"""Models built from settings, or the offline ones if none is set, with the reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from reme_core.errors import ConfigurationError
from reme_core.models.base import ChatModel, Embedder, OnCall, Reranker
from reme_core.models.cache import CachedEmbedder
from reme_core.models.local import LocalEmbedder
from reme_core.settings import LOCAL_EMBEDDERS, EmbeddingSettings, ModelSettings, Settings

if TYPE_CHECKING:
    from reme_core.models.endpoint import Endpoint

SectionT = TypeVar("SectionT", bound=ModelSettings)

_OFFLINE = ("local", "offline", "rules")


def chat_model(settings: Settings, name: str = "default", *, on_call: OnCall | None = None) -> ChatModel | None:
    """The chat model of the settings `llm.<name>`; None if the offline rules are used (`offline_reason` says why).

    Raises:
        ConfigurationError: There is no such section, or it contradicts itself.
    """
    if offline_reason(settings, name):
        return None
    section, key = settings.llm[name], f"llm.{name}"
    # Imported here, so that a start without a model does not wait for the `openai` SDK.
    from reme_core.models import dashscope, openai_chat  # noqa: PLC0415

    provider = dashscope.DashScopeChat if _is_at_dashscope(section, key) else openai_chat.OpenAIChat
    endpoint = _endpoint(section, provider.base_url)
    return provider(_model(section, key), endpoint, params=section.params, on_call=on_call)


def chat_models(settings: Settings, *, on_call: OnCall | None = None) -> dict[str, ChatModel]:
    """The configured chat models of the settings `llm`, by their names there; an op may choose one of them.

    Raises:
        ConfigurationError: A section contradicts itself.
    """
    models = {name: chat_model(settings, name, on_call=on_call) for name in settings.llm}
    return {name: model for name, model in models.items() if model is not None}


def offline_reason(settings: Settings, name: str = "default") -> str:
    """Why `chat_model` gives None, as a sentence for the start-up banner; empty if it gives a model."""
    section = _section(settings.llm, name, "llm")
    if section is None:
        return "No chat model is set: the offline rules serve. Set llm.default.model_name, .base_url and .api_key."
    if section.backend in _OFFLINE:
        return f"llm.{name}.backend={section.backend}: the offline rules serve."
    if _has_no_endpoint(section):
        cause = f"llm.{name} names {section.model_name or 'no model'}, but neither a URL nor a key is set"
        return f"{cause}: the offline rules serve. Set llm.{name}.base_url or OPENAI_API_KEY."
    return ""


def unused_models(settings: Settings) -> list[str]:
    """A sentence for each model that is named, but left out since it has neither a URL nor a key."""
    families: dict[str, Mapping[str, ModelSettings]] = {"llm": settings.llm, "rerank_model": settings.rerank_model}
    return [
        f"{family}.{name} names {section.model_name}, which is not used: neither a URL nor a key is set. "
        f"Set {family}.{name}.base_url or .api_key{'' if family == 'rerank_model' else ', or OPENAI_API_KEY'}."
        for family, sections in families.items()
        for name, section in sections.items()
        if is_out_of_reach(section)
    ]


def is_out_of_reach(section: ModelSettings) -> bool:
    """Whether a section names a model that is not on this machine, and has neither a URL nor a key."""
    elsewhere = section.model_name not in ("", *LOCAL_EMBEDDERS) and section.backend not in (*_OFFLINE, "chat")
    return elsewhere and _has_no_endpoint(section)


def embedder(settings: Settings, name: str = "default", *, on_call: OnCall | None = None) -> Embedder:
    """The embedder of the settings `embedding_model.<name>`, with a cache for queries.

    It is the local one if nothing is configured.

    Raises:
        ConfigurationError: There is no such section, it contradicts itself, or it names a model without a URL or key.
    """
    section, key = _section(settings.embedding_model, name, "embedding_model"), f"embedding_model.{name}"
    if section is None or section.backend in _OFFLINE or _has_no_endpoint(section):
        # The local one in its place would bind each new workspace to vectors that the named one cannot search.
        if section and is_out_of_reach(section):
            raise ConfigurationError(
                f"{key} names {section.model_name}, but neither a URL nor a key is set; set {key}.base_url or"
                f" .api_key, or OPENAI_API_KEY, or {key}.backend=local for the model that works offline"
            )
        engine = section.model_name if section is not None else ""
        return CachedEmbedder(LocalEmbedder(engine if engine in LOCAL_EMBEDDERS else None, on_call=on_call))
    return CachedEmbedder(_remote_embedder(section, key, on_call))


def embedder_by_name(settings: Settings, stored_name: str, *, on_call: OnCall | None = None) -> Embedder:
    """The embedder that made the vectors stored under a name, to search them until they are replaced.

    It is a local engine, or a configured model of this name, or else the model of this name at the endpoint of
    `embedding_model.default`.

    Raises:
        ConfigurationError: No endpoint is set that could serve the model.
    """
    if stored_name in LOCAL_EMBEDDERS:
        return CachedEmbedder(LocalEmbedder(stored_name, on_call=on_call))
    # Names of models may have an @, too: @cf/baai/bge-m3, textembedding-gecko@003.
    found = re.fullmatch(r"(.+)@([1-9]\d*)", stored_name)
    model, dimensions = (found[1], int(found[2])) if found else (stored_name, None)
    sections = {name: section for name, section in settings.embedding_model.items() if not _has_no_endpoint(section)}
    for name, section in sections.items():
        width = _dimensions(section)
        if (f"{section.model_name}@{width}" if width else section.model_name) == stored_name:
            return CachedEmbedder(_remote_embedder(section, f"embedding_model.{name}", on_call))
    # Users who change the model mostly keep the endpoint, so it probably still serves the old model.
    if (default := sections.get("default")) is None or default.backend in _OFFLINE:
        raise ConfigurationError(
            f"the stored vectors were made by {stored_name}, which is not configured: set embedding_model.<name> with "
            f"model_name={model} and its base_url and api_key, or run 'reme reembed' to move to the present model"
        )
    params = {key: value for key, value in default.params.items() if key != "dimensions"}
    section = default.model_copy(update={"model_name": model, "dimensions": dimensions, "params": params})
    return CachedEmbedder(_remote_embedder(section, "embedding_model.default", on_call))


def reranker(settings: Settings, name: str = "default", *, on_call: OnCall | None = None) -> Reranker | None:
    """The reranker of the settings `rerank_model.<name>`; None if none is set.

    With `backend=chat`, `model_name` is the section of `llm` to use (`default` if empty).

    Raises:
        ConfigurationError: There is no such section, or it contradicts itself.
    """
    section, key = _section(settings.rerank_model, name, "rerank_model"), f"rerank_model.{name}"
    if section is None or (section.backend != "chat" and _has_no_endpoint(section)):
        return None
    from reme_core.models import dashscope, rerank  # noqa: PLC0415 - as in `chat_model`

    if section.backend == "chat":
        chat = chat_model(settings, section.model_name or "default", on_call=on_call)
        return rerank.ChatReranker(chat) if chat is not None else None
    if _is_dashscope(section):
        endpoint = _endpoint(section, dashscope.DashScopeReranker.base_url)
        model = section.model_name or "gte-rerank"
        return dashscope.DashScopeReranker(model, endpoint, params=section.params, on_call=on_call)
    if section.backend not in ("", "cohere", "jina"):
        raise ConfigurationError(f"{key}.backend '{section.backend}' is unknown; choose dashscope, cohere or chat")
    if not section.base_url:
        raise ConfigurationError(f"{key}.base_url must be set: the address below which /rerank lies")
    return rerank.HttpReranker(_model(section, key), _endpoint(section, ""), params=section.params, on_call=on_call)


def _section(sections: Mapping[str, SectionT], name: str, family: str) -> SectionT | None:
    if name in sections or name == "default":
        return sections.get(name)
    known = ", ".join(sections) or "none"
    raise ConfigurationError(f"{family}.{name} is not configured; configured are: {known}")


def _has_no_endpoint(section: ModelSettings) -> bool:
    return not section.base_url and not section.api_key.get_secret_value()


def _is_dashscope(section: ModelSettings) -> bool:
    # ReMe 0.1 configures DashScope as `openai_compatible` with its URL. DashScope's limits apply to that as well.
    host = section.base_url.partition("://")[2].partition("/")[0]  # not parsed: it may be no address; see `Endpoint`
    return section.backend == "dashscope" or "dashscope" in host.lower()


def _is_at_dashscope(section: ModelSettings, key: str) -> bool:
    if section.backend not in ("", "dashscope", "openai", "openai_compatible"):
        raise ConfigurationError(f"{key}.backend '{section.backend}' is unknown; choose openai, dashscope or local")
    return _is_dashscope(section)


def _model(section: ModelSettings, key: str) -> str:
    if not section.model_name:
        raise ConfigurationError(f"{key}.model_name must be set: a URL or key is, but not which model to ask for")
    return section.model_name


def _endpoint(section: ModelSettings, default_url: str) -> Endpoint:
    from reme_core.models.endpoint import Endpoint  # noqa: PLC0415 - as in `chat_model`

    return Endpoint(
        section.base_url or default_url,
        section.api_key,
        timeout_seconds=section.timeout_seconds,
        max_retries=section.max_retries,
        max_concurrency=section.max_concurrency,
    )


def _dimensions(section: EmbeddingSettings) -> int | None:
    # In ReMe 0.1 the width is one of the params.
    return section.dimensions or section.params.get("dimensions")


def _remote_embedder(section: EmbeddingSettings, key: str, on_call: OnCall | None) -> Embedder:
    from reme_core.models import dashscope, openai  # noqa: PLC0415 - as in `chat_model`

    provider = dashscope.DashScopeEmbedder if _is_at_dashscope(section, key) else openai.OpenAIEmbedder
    return provider(
        _model(section, key),
        _endpoint(section, provider.base_url),
        dimensions=_dimensions(section),
        batch_size=section.batch_size,
        params={name: value for name, value in section.params.items() if name != "dimensions"},
        on_call=on_call,
    )
