"""The sources of settings, which are `section.key=value`, the environment and YAML files; and errors about them."""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import yaml
from dotenv import dotenv_values, find_dotenv
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource

from reme_core.errors import ConfigurationError
from reme_core.settings.reme01 import merge, nest, rename_settings

log = logging.getLogger(__name__)

# Other names of environment variables, most of them ReMe 0.1's.
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

# Variables that begin with REME_ and are no settings, in lower case.
_NO_SETTINGS = re.compile(
    r"(home|"  # `Settings.load` reads it, for `data_dir`
    r"workspace|"  # commands read it, for --workspace
    r"url|"  # the examples read it, to find the service
    r"reference|(test|bench)_\w+|"  # tests and benchmarks
    # Kubernetes gives them to each pod, for a service whose name is `reme` or begins so.
    r"(\w+_)?(service_host|service_port(_\w+)?|port_\d+_\w+))=.*|(\w+_)?port=\w+://.*",
    re.DOTALL,
)
# A number that JSON writes otherwise, and ReMe 0.1 read.
_NUMBER = re.compile(r"[+-]?(\d+\.\d*|\.\d+)(e[+-]?\d+)?")
# What is no setting, and what to write instead: the nearest name would say something else.
_DATABASE = "name a database by database_url=…"
_MODEL = 'name a chat model by llm={"default": {"model_name": …, "api_key": …, "base_url": …}}'
_EMBEDDER = 'name an embedding model by embedding_model={"default": {"model_name": …}}'
_WHOSE = "each call names whose memory it is, as in reme.recall(workspace, query, user_id=…)"
_INSTEAD = {
    **dict.fromkeys(("url", "uri", "dsn", "database", "db_url", "connection_string"), _DATABASE),
    **dict.fromkeys(("chat", "chat_model", "model", "model_name", "api_key", "base_url"), _MODEL),
    **dict.fromkeys(("embedder", "embedding", "embeddings"), _EMBEDDER),
    **dict.fromkeys(("workspace", "workspace_id", "user_id", "agent_id", "run_id", "session_id"), _WHOSE),
}
# How alike two names are: as REME_LANGAUGE and REME_LANGUAGE, or as REME_LANG and REME_LANGUAGE.
_IS_MEANT, _MAY_BE_MEANT = 0.82, 0.6


class Environment(EnvSettingsSource):
    """Reads settings from environment variables, lists and mappings as JSON."""

    def __init__(self, settings: type[BaseModel], environ: Mapping[str, str]) -> None:
        # The base class asks only for fields. `Settings` is no `BaseSettings`, which would always read the environment.
        super().__init__(cast("type[BaseSettings]", settings), env_prefix="REME_", env_nested_delimiter="__")
        # An empty variable counts as not set, and the name of our own wins over an old one.
        filled = {name: value for name, value in environ.items() if value}
        renamed = {new: filled[old] for old, new in _OLD_NAMES.items() if old in filled}
        self.env_vars = {name.lower(): value for name, value in {**renamed, **filled}.items()}

    def __call__(self) -> dict[str, Any]:
        """What is set, also for sections that do not exist: these are errors, as in every other source.

        Raises:
            ConfigurationError: A variable has nearly the name of a setting.
        """
        found = super().__call__()
        for variable, value in self.env_vars.items():
            name = variable.removeprefix("reme_")
            section, *path = name.split("__")
            if name != variable and section not in self.settings_cls.model_fields:
                if path:
                    merge(found, nest([section, *path], value))
                elif not _NO_SETTINGS.fullmatch(f"{name}={value}"):
                    self._report_unknown(name)
        return found

    def _report_unknown(self, name: str) -> None:
        """Refuse a name that is near to that of a setting; warn of any other, which another program may read."""
        known = [*_names_below(self.settings_cls), "home", "workspace"]
        near = difflib.get_close_matches(name, known, n=1, cutoff=_MAY_BE_MEANT)
        advice = f"; did you mean REME_{near[0].upper()}?" if near else ""
        if near and difflib.SequenceMatcher(None, name, near[0]).ratio() >= _IS_MEANT:
            raise ConfigurationError(f"unknown setting REME_{name.upper()}{advice}")
        log.warning("REME_%s is no setting and has no effect%s", name.upper(), advice)

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        """Decode a list or a mapping; any other text stays as it is."""
        # Before 2.13, pydantic-settings calls this also for an API key, which may consist of digits.
        decoded = _parse_value(value)
        return decoded if isinstance(decoded, list | dict) else value


def parse_assignment(item: str) -> tuple[str, Any]:
    """The name and the value of `section.key=value`, with or without leading dashes.

    Raises:
        ConfigurationError: It is not of that form.
    """
    key, equals, text = item.lstrip("-").partition("=") if isinstance(item, str) else ("", "", "")
    if not equals or not key:
        raise ConfigurationError(f"'{item}' is not of the form key=value; write for example http.port=8002")
    value = _parse_value(text)
    # A key of digits is no number.
    is_key = key.strip().endswith("api_key") and not isinstance(value, str)
    return key.strip(), text if is_key else value


def _parse_value(text: str) -> Any:
    """Read `true`, `false`, `none`, `null`, a number (also `.5`) or other JSON; any other text stays as it is."""
    lowered = text.strip().lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if lowered in ("none", "null"):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # the latter where it is nested a thousand deep
        return float(text) if _NUMBER.fullmatch(lowered) else text


def read_yaml(path: Path, importing: Sequence[Path] = ()) -> dict[str, Any]:
    """The settings of a YAML file, over those of the files that its `import_config` names, where the last one wins.

    Args:
        path: The file.
        importing: The files that import it.

    Raises:
        ConfigurationError: It cannot be read, holds no settings, or imports itself.
    """
    path = _with_suffix(path)
    try:
        real = path.resolve()
    except ValueError:  # NUL, or half of a surrogate pair
        raise ConfigurationError(f"no file can have the name {str(path)!r}") from None
    if real in importing:
        raise ConfigurationError(f"{importing[-1]} imports {path}, which imports it: remove one import_config")
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise ConfigurationError(f"cannot read the configuration file {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not UTF-8: {error}") from None
    except (yaml.YAMLError, RecursionError) as error:  # the latter where it is nested a thousand deep
        raise ConfigurationError(f"{path} is not valid YAML: {error}") from None
    if not isinstance(tree, dict):
        raise ConfigurationError(f"{path} must hold a mapping of settings, not a {type(tree).__name__}")
    imported = tree.pop("import_config", None) or []
    names = imported if isinstance(imported, list) else str(imported).split(",")
    base: dict[str, Any] = {}
    for name in filter(None, (str(name).strip() for name in names)):
        # Beside the file, or else, as in ReMe 0.1, in the folder where the program was started.
        places = [_with_suffix(folder / name) for folder in (path.parent, Path())]
        found = next((place for place in places if place.exists()), None)
        if found or places[0].name != "default.yaml":  # ReMe's own configuration, in whose place our defaults are
            merge(base, read_yaml(found or places[0], [*importing, real]))
    merge(base, rename_settings(tree))
    return base


def _with_suffix(path: Path) -> Path:
    # ReMe 0.1 wrote `config=default` for the file default.yaml.
    return path if path.suffix or not path.name else path.with_suffix(".yaml")


def read_dotenv() -> dict[str, str]:
    """The variables of the `.env` of this folder, or of the nearest one above that has one.

    Raises:
        ConfigurationError: It cannot be read, or is not a text.
    """
    path = find_dotenv(usecwd=True)
    try:
        return {name: value or "" for name, value in dotenv_values(path).items()}
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not UTF-8: {error}") from None


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """What is wrong with each setting, named by its path; for an unknown setting also the nearest name."""
    lines = []
    for problem in error.errors():
        path = [str(part) for part in problem["loc"]]
        where = ".".join(path)
        line = (f"{where}: " if where else "") + problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            known = _names_at(model, path[:-1])
            near = difflib.get_close_matches(path[-1], known, n=1, cutoff=0.4)
            line = f"unknown setting '{where}'"
            if where in _INSTEAD:
                line += f"; {_INSTEAD[where]}"
            elif near:
                line += f"; did you mean '{'.'.join([*path[:-1], *near])}'?"
            else:
                line += f"; there are {', '.join(known)}"
        elif problem["type"] == "dict_type" and where in ("llm", "embedding_model", "rerank_model"):
            line += f", such as {where}={{'default': {{'model_name': …}}}}"
        lines.append(line)
    return "; ".join(lines)


def _names_at(model: type[BaseModel], path: Iterable[str]) -> list[str]:
    """The names of the settings below `path`."""
    for part in path:
        field = model.model_fields.get(part)
        if field is None:
            continue  # in `llm.<name>` the name is free, and `model` is already that of its settings
        model = _section_in(field) or model
    return list(model.model_fields)


def _names_below(model: type[BaseModel]) -> Iterator[str]:
    """The names of all settings as variables have them; where a name is free, `default` stands for it."""
    for name, field in model.model_fields.items():
        section = _section_in(field)
        if section is None:
            yield name
        else:
            above = name if section is field.annotation else f"{name}__default"
            yield from (f"{above}__{below}" for below in _names_below(section))


def _section_in(field: FieldInfo) -> type[BaseModel] | None:
    """The section that a setting is, or that it has one of for each name; None if it is a plain value."""
    candidates = [field.annotation, *getattr(field.annotation, "__args__", ())]
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None)
