"""All settings with their types and defaults, and how they are read.

A YAML file overrides defaults, the environment (and `.env`) overrides the file, and `section.key=value` overrides all.
Sections have the names of ReMe 0.1 (`llm.default.model_name`, `http.port`, …), so its command lines work.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator

from reme_core.errors import ConfigurationError
from reme_core.given import zone_of
from reme_core.settings.reme01 import merge, nest, rename_settings
from reme_core.settings.sections import (
    LOCAL_EMBEDDERS,
    ChatSettings,
    EmbeddingSettings,
    EpisodeSettings,
    FlowSettings,
    Folder,
    HttpSettings,
    LimitSettings,
    LogSettings,
    McpSettings,
    ModelSettings,
    Names,
    OpSettings,
    RecallSettings,
    RerankSettings,
    RetentionSettings,
    Section,
    VectorShares,
    VectorStoreSettings,
    WorkerSettings,
    WorkingSettings,
    default_data_dir,
    hide_secrets,
)
from reme_core.settings.sources import Environment, explain, parse_assignment, read_dotenv, read_yaml

__all__ = [
    "LOCAL_EMBEDDERS",
    "ChatSettings",
    "EmbeddingSettings",
    "EpisodeSettings",
    "FlowSettings",
    "LimitSettings",
    "LogSettings",
    "McpSettings",
    "ModelSettings",
    "Names",
    "OpSettings",
    "RecallSettings",
    "RerankSettings",
    "Settings",
    "VectorShares",
    "WorkerSettings",
    "WorkingSettings",
    "hide_secrets",
]


class Settings(Section):
    """Everything that can be set. `Settings(…)` holds what it is given; `Settings.load` reads all sources."""

    backend: Literal["http", "mcp", "cmd"] = "cmd"
    """Which service a command line of ReMe 0.1 starts."""
    language: Literal["auto", "en", "zh", ""] = "auto"
    """The language of prompts and rules; `auto` is the language of the input."""
    timezone: str = "UTC"
    """IANA name of the time zone in which days begin, for "today" and "yesterday" in what people say and ask."""
    database_url: SecretStr | None = None
    """A Postgres 15–18 with pgvector 0.8 or newer; default is the embedded server in `data_dir`."""
    pooler_url: SecretStr | None = None
    """The same database behind a pooler that lends its connections for a transaction (PgBouncer with
    `pool_mode = transaction`); migrations and the building of indexes still go to `database_url`."""
    data_dir: Folder = Field(default_factory=default_data_dir)
    """The folder of the embedded Postgres and of the spool: `$REME_HOME`, or the user's own data directory."""
    library_dirs: list[Folder] = Field(default_factory=lambda: [Path("docs/library")])
    """Folders that `load` and `dump` may use over HTTP and MCP, besides `data_dir`."""
    redact: Names = Field(default_factory=list)
    """Kinds of secrets that are replaced by a mark before anything is stored: `all`, a group (`keys`, `money`,
    `identity`, `contact`, `devices`), or single kinds; docs/security.md lists them."""
    allow_default_workspace: bool = True
    """Whether an adapter that is given no workspace uses `default`, which all share; otherwise that is an error."""
    pool_size: int = Field(default=8, ge=1)
    """Connections of one process at the most. One workspace gets half of them for its reads and a quarter for its
    writes, so that others are served while its locks are held."""
    limits: LimitSettings = Field(default_factory=LimitSettings)
    log: LogSettings = Field(default_factory=LogSettings)
    http: HttpSettings = Field(default_factory=HttpSettings)
    mcp: McpSettings = Field(default_factory=McpSettings)
    recall: RecallSettings = Field(default_factory=RecallSettings)
    worker: WorkerSettings = Field(default_factory=WorkerSettings)
    retention: RetentionSettings = Field(default_factory=RetentionSettings)
    episodes: EpisodeSettings = Field(default_factory=EpisodeSettings)
    working: WorkingSettings = Field(default_factory=WorkingSettings)
    prices: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """What a million tokens cost, sent and received, by model (`{"gpt-4.1-mini": [0.4, 1.6]}`); the inspector
    calculates costs with them."""
    ops: Names = Field(default_factory=list)
    """Modules, or files (`my_ops.py`), with your own ops; they are imported when flows are built."""
    flow: dict[str, FlowSettings] = Field(default_factory=dict)
    op: dict[str, OpSettings] = Field(default_factory=dict)
    llm: dict[str, ChatSettings] = Field(default_factory=dict)
    embedding_model: dict[str, EmbeddingSettings] = Field(default_factory=dict)
    rerank_model: dict[str, RerankSettings] = Field(default_factory=dict)
    vector_store: dict[str, VectorStoreSettings] = Field(default_factory=dict)

    if not TYPE_CHECKING:  # type checkers know the fields themselves

        def __init__(self, /, **values: Any) -> None:
            """Hold these values.

            Raises:
                ConfigurationError: A setting is unknown, or its value does not fit. Pydantic's own error would show
                    what was given, passwords too.
            """
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise ConfigurationError(explain(error, type(self))) from None

        # As in `Given`: pydantic does not call it for what it reads itself.
        __init__.__pydantic_base_init__ = True

    @field_validator("timezone")
    @classmethod
    def _require_known_zone(cls, name: str) -> str:
        zone_of(name)
        return name

    @model_validator(mode="after")
    def _require_database_url(self) -> Self:
        if self.pooler_url is not None and self.database_url is None:
            raise ValueError("pooler_url needs database_url as well: set it to the same database, without the pooler")
        return self

    @classmethod
    def load(
        cls, *overrides: str, config: str | Path | None = None, environ: Mapping[str, str] | None = None
    ) -> Settings:
        """Read settings from all sources.

        Args:
            overrides: `section.key=value`, with or without leading dashes. `config=file.yaml`, or ExperienceMaker's
                `config_path=file.yaml`, names a YAML file.
            config: A YAML file. With `import_config` it names another one, which it overrides.
            environ: The environment, with settings as `REME_SECTION__KEY`. Default is `os.environ`, and below it the
                `.env` of this folder or of the nearest one above that has one.

        Raises:
            ConfigurationError: A setting is unknown (the nearest name is given), or its value does not fit.

        Example:
            >>> Settings.load("http.port=8010", environ={"REME_HTTP__HOST": "0.0.0.0"}).http.port
            8010
        """
        pairs = [parse_assignment(item) for item in overrides]
        file = next((value for key, value in pairs if key in ("config", "config_path")), config)
        named: dict[str, Any] = {}
        for key, value in pairs:
            if key not in ("config", "config_path"):
                merge(named, nest(key.split("."), value))
        return cls._read_sources(named, file, environ)

    @classmethod
    def _read_sources(
        cls, overrides: Mapping[str, Any], config: str | Path | None = None, environ: Mapping[str, str] | None = None
    ) -> Settings:
        # Each source wins over those before it, by whatever names: the file, the environment, the overrides.
        if environ is None:
            # The real environment wins over `.env`, so that a value can be set for one run.
            environ = {**read_dotenv(), **os.environ}
        tree = read_yaml(Path(str(config))) if config else {}
        if environ.get("REME_HOME"):
            tree.setdefault("data_dir", environ["REME_HOME"])
        for source in (Environment(cls, environ)(), overrides):
            merge(tree, rename_settings(source))
        settings = cls.of(tree)
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
            raise ConfigurationError(explain(error, cls)) from None

    @classmethod
    def with_overrides(cls, settings: Settings | None, overrides: Mapping[str, Any]) -> Settings:
        """The settings given, else those of the environment, with single ones set otherwise.

        A section may be given as a mapping, which changes only what it names, or as an object, which replaces it.

        Raises:
            ConfigurationError: A setting is unknown (the nearest name is given), or its value does not fit.
        """
        if settings is None:
            return cls._read_sources(overrides)
        if not isinstance(settings, cls):
            # Its value is not shown: it may be the URL of a database, with a password.
            raise ConfigurationError(
                f"settings are a Settings object, not a {type(settings).__name__}; name a database by database_url=…"
            )
        tree = settings.model_dump()
        merge(tree, overrides)
        changed = cls.of(tree)
        return settings.model_copy(update={name: getattr(changed, name) for name in overrides})

    def _take_endpoints(self, environ: Mapping[str, str]) -> None:
        """Give models without URL and key those of the variables of ReMe 0.1, or of the official OpenAI client."""
        for family, sections in (("LLM", self.llm), ("EMBEDDING", self.embedding_model)):
            is_flow = environ.get(f"FLOW_{family}_BASE_URL") or environ.get(f"FLOW_{family}_API_KEY")
            prefix = f"FLOW_{family}" if is_flow else "OPENAI"
            models = cast("dict[str, ModelSettings]", sections)
            for name, section in models.items():
                is_openai = section.backend in ("", "openai", "openai_compatible") and section.model_name
                is_given = section.base_url or section.api_key.get_secret_value()
                # A local model never gets an endpoint, or texts would leave the machine.
                if is_openai and not is_given and section.model_name not in LOCAL_EMBEDDERS:
                    key = SecretStr(environ.get(f"{prefix}_API_KEY") or "")
                    endpoint = {"base_url": environ.get(f"{prefix}_BASE_URL") or "", "api_key": key}
                    # A copy, since a caller may have given the object.
                    models[name] = section.model_copy(update=endpoint)
