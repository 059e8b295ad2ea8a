"""Typed settings: defaults < YAML < environment (and `.env`) < `a.b=c` overrides.

The sections keep the names that ReMe 0.1 used (`llm.default.model_name`, `http.port`, …), so its command lines work.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import platformdirs
import yaml
from dotenv import dotenv_values, find_dotenv
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from reme_core.errors import ConfigurationError


class Section(BaseModel):
    """A group of settings; a key it does not know is an error, not a silent nothing."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, protected_namespaces=())


class ModelSettings(Section):
    """One model and where it is served. `backend` names the provider; without a URL and key none is contacted."""

    backend: str = ""
    model_name: str = ""
    base_url: str = ""
    api_key: SecretStr = SecretStr("")
    params: dict[str, Any] = Field(default_factory=dict)
    timeout_seconds: float = 60.0
    max_retries: int = 3
    max_concurrency: int = 16


class ChatSettings(ModelSettings):
    """A chat model: `openai` (any compatible endpoint) or `dashscope`; none set means the offline rules serve."""


class EmbeddingSettings(ModelSettings):
    """An embedding model: `openai`, `dashscope`, or `local` (offline)."""

    dimensions: int | None = None
    """Sent to the endpoint only when set: some servers refuse the field."""
    batch_size: int = 0
    """Texts a request; 0 takes the provider's own limit."""


class RerankSettings(ModelSettings):
    """A reranker: `dashscope`, `cohere` (any `/rerank` endpoint of that form), or `chat`."""


class VectorStoreSettings(Section):
    """Kept for the seeds' command lines: `local` (and `memory`) is the embedded Postgres, `postgres` the configured."""

    backend: Literal["local", "memory", "postgres", "pgvector"] = "local"
    params: dict[str, Any] = Field(default_factory=dict)

    @field_validator("backend", mode="before")
    @classmethod
    def _is_postgres(cls, value: Any) -> Any:
        if value in ("elasticsearch", "chroma", "qdrant", "local_file"):
            raise ValueError(
                f"memories live in Postgres, not in {value}: say 'local' for the embedded one,"
                " or set database_url=postgresql://… for one of your own"
            )
        return value


class HttpSettings(Section):
    """The HTTP service. It binds to loopback unless told otherwise."""

    host: str = "127.0.0.1"
    port: int = 8002
    limit_concurrency: int = 1000
    timeout_keep_alive: int = 60
    max_body_bytes: int = Field(32 * 2**20, ge=1)
    """Larger requests are refused; a long trajectory takes about a megabyte."""
    timeout_seconds: float = Field(300.0, gt=0)
    """A request that isn't answered by then is cancelled; summaries wait for chat models."""


class McpSettings(Section):
    """The MCP service."""

    transport: Literal["stdio", "sse", "http", "streamable-http"] = "stdio"
    host: str = "127.0.0.1"
    port: int = 8001


class FlowSettings(Section):
    """A flow: its expression in the `a >> (b | c)` grammar, and how it is described to callers."""

    flow_content: str
    description: str = ""
    input_schema: dict[str, Any] = Field(default_factory=dict)
    stream: bool = False


class OpSettings(Section):
    """Overrides for one op: other parameters, or another model."""

    backend: str = ""
    params: dict[str, Any] = Field(default_factory=dict)
    llm: str = ""
    embedding_model: str = ""
    language: str = ""


class RecallSettings(Section):
    """How recall weighs and searches; the defaults are measured in `benchmarks/`."""

    fusion: Literal["convex", "rrf"] = "convex"
    exact_below: int = 5_000
    """Rows of one model in one workspace below which vectors are scanned exactly, without an HNSW index."""
    log: bool = True
    """Keep a log of what was recalled (tables `retrieval`, `retrieval_hit`)."""


class WorkerSettings(Section):
    """Background work: when a conversation is summarised after the last turn, and how often a job is tried."""

    embedded: bool = True
    """Work on jobs in every process that records messages; switch it off where `reme worker` runs."""
    after_turns: int = 6
    after_seconds: float = 30.0
    concurrency: int = 4
    max_attempts: int = 8
    """How often a job that failed is tried again before it is given up."""
    stop_seconds: float = 20.0
    """How long a job may go on when its worker is asked to stop."""
    reflect_every_hours: float = 24.0
    """How often a workspace's memories are reflected upon; 0 is never. A workspace's own settings may differ."""


class EpisodeSettings(Section):
    """Cross-episode memory: which scores teach rules, and how often rules for all tasks are distilled."""

    works_from: float = 0.85
    """Score from which the successes of an episode become rules of its task."""
    avoid_below: float = 0.50
    """Score below which the mistakes of an episode become rules of its task."""
    consolidate_every: int = Field(20, ge=1)


def default_data_dir() -> Path:
    """Where the embedded Postgres and dumps live: `$REME_HOME`, or the user's data directory."""
    return Path(os.environ.get("REME_HOME") or platformdirs.user_data_dir("reme-core", appauthor=False))


class Settings(Section):
    """Everything that can be set. Build one with `Settings.load`."""

    backend: Literal["http", "mcp", "cmd"] = "cmd"
    language: Literal["auto", "en", "zh", ""] = "auto"
    """Language of prompts and rules; `auto` follows the input."""
    timezone: str = "UTC"
    database_url: SecretStr | None = None
    """Any Postgres 15–18 with pgvector ≥ 0.8. Unset: the embedded server under `data_dir`."""
    data_dir: Path = Field(default_factory=default_data_dir)
    library_dirs: list[Path] = Field(default_factory=lambda: [Path("docs/library")])
    """Folders that `load` and `dump` over HTTP and MCP may touch, besides `data_dir`."""
    pool_size: int = Field(8, ge=1)
    http: HttpSettings = Field(default_factory=HttpSettings)
    mcp: McpSettings = Field(default_factory=McpSettings)
    recall: RecallSettings = Field(default_factory=RecallSettings)
    worker: WorkerSettings = Field(default_factory=WorkerSettings)
    episodes: EpisodeSettings = Field(default_factory=EpisodeSettings)
    flow: dict[str, FlowSettings] = Field(default_factory=dict)
    op: dict[str, OpSettings] = Field(default_factory=dict)
    llm: dict[str, ChatSettings] = Field(default_factory=dict)
    embedding_model: dict[str, EmbeddingSettings] = Field(default_factory=dict)
    rerank_model: dict[str, RerankSettings] = Field(default_factory=dict)
    vector_store: dict[str, VectorStoreSettings] = Field(default_factory=dict)

    @classmethod
    def load(
        cls,
        *overrides: str,
        config: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Settings:
        """Read settings from all sources, the later winning.

        Args:
            overrides: `section.key=value` strings; leading dashes are allowed. `config=file.yaml` names a file.
            config: A YAML file, which may name another by `import_config`.
            environ: The environment to read; default is `.env` (searched upwards from here) below `os.environ`.

        Raises:
            ConfigurationError: A key is unknown (the nearest valid name is given) or a value does not fit.

        Example:
            >>> Settings.load("http.port=8010", environ={}).http.port
            8010
        """
        pairs = [_split(item) for item in overrides]
        file = next((value for key, value in pairs if key == "config"), config)
        tree = _read_yaml(Path(str(file))) if file else {}
        if environ is None:
            environ = {**{k: v or "" for k, v in dotenv_values(find_dotenv(usecwd=True)).items()}, **os.environ}
        _merge(tree, _from_environment(environ))
        for key, value in pairs:
            if key != "config":
                _merge(tree, _nest(key.split("."), value))
        try:
            return cls.model_validate(tree)
        except ValidationError as error:
            raise ConfigurationError(_explain(error, cls)) from None


def _split(item: str) -> tuple[str, Any]:
    key, equals, text = item.lstrip("-").partition("=")
    if not equals or not key:
        raise ConfigurationError(f"'{item}' is not of the form key=value; write for example http.port=8002")
    return key.strip(), _value(text)


def _value(text: str) -> Any:
    """true/false, none/null, a number, JSON, else the string itself."""
    lowered = text.strip().lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if lowered in ("none", "null"):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _nest(path: list[str], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    return value  # type: ignore[no-any-return]


def _merge(base: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = dict(value) if isinstance(value, Mapping) else value


def _read_yaml(path: Path) -> dict[str, Any]:
    if not path.suffix:
        path = path.with_suffix(".yaml")
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise ConfigurationError(f"cannot read the configuration file {path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path} is not valid YAML: {error}") from None
    if not isinstance(tree, dict):
        raise ConfigurationError(f"{path} must hold a mapping of settings, not a {type(tree).__name__}")
    parent = tree.pop("import_config", None)
    if parent is None:
        return tree
    base = _read_yaml(path.parent / str(parent))
    _merge(base, tree)
    return base


_ENVIRONMENT = {
    "DATABASE_URL": "database_url",
    "REME_DATABASE_URL": "database_url",
    "REME_LANGUAGE": "language",
    "REME_TIMEZONE": "timezone",
    "REME_DATA_DIR": "data_dir",
    "FLOW_LLM_API_KEY": "llm.default.api_key",
    "FLOW_LLM_BASE_URL": "llm.default.base_url",
    "FLOW_LLM_MODEL_NAME": "llm.default.model_name",
    "FLOW_EMBEDDING_API_KEY": "embedding_model.default.api_key",
    "FLOW_EMBEDDING_BASE_URL": "embedding_model.default.base_url",
    "FLOW_EMBEDDING_MODEL_NAME": "embedding_model.default.model_name",
    "FLOW_RERANK_API_KEY": "rerank_model.default.api_key",
    "FLOW_RERANK_BASE_URL": "rerank_model.default.base_url",
}


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, key in _ENVIRONMENT.items():
        if environ.get(name):
            _merge(tree, _nest(key.split("."), environ[name]))
    return tree


def _explain(error: ValidationError, model: type[BaseModel]) -> str:
    lines = []
    for problem in error.errors():
        path = [str(part) for part in problem["loc"]]
        line = f"{'.'.join(path)}: {problem['msg'].removeprefix('Value error, ')}"
        if problem["type"] == "extra_forbidden":
            near = difflib.get_close_matches(path[-1], _names_at(model, path[:-1]), n=1, cutoff=0.4)
            line = f"unknown setting '{'.'.join(path)}'"
            if near:
                line += f"; did you mean '{'.'.join([*path[:-1], *near])}'?"
        lines.append(line)
    return "; ".join(lines)


def _names_at(model: type[BaseModel], path: Iterable[str]) -> list[str]:
    """The setting names that are valid below `path`."""
    for part in path:
        field = model.model_fields.get(part)
        if field is None:
            continue  # the free name in `llm.<name>`; the model of its values is already at hand
        candidates = [field.annotation, *getattr(field.annotation, "__args__", ())]
        model = next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), model)
    return list(model.model_fields)
