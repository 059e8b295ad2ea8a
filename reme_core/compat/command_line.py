"""The command line of ReMe 0.1: `reme backend=http http.port=8002 llm.default.model_name=… language=zh`.

Every argument is `section.key=value` (leading dashes allowed) and overrides the file of `config=file.yaml`. The present
commands are `reme serve` and `reme mcp`.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from reme_core.errors import ConfigurationError, ReMeError
from reme_core.models.registry import is_out_of_reach
from reme_core.settings import Settings

log = logging.getLogger(__name__)

_MAY_NAME_SERVICE = re.compile(r"-*(backend|config|config_path)=")


def settings_of(arguments: Sequence[str]) -> Settings:
    """The settings of a command line of ReMe 0.1.

    Raises:
        ConfigurationError: A key is unknown (the nearest valid name is given), or a value is invalid.
    """
    given = [argument for argument in arguments if not _is_default_config(argument)]
    settings = embed_offline(Settings.load("mcp.tools=all", *given))  # ReMe 0.1 served all flows as tools
    if settings.backend == "cmd" and not any(_MAY_NAME_SERVICE.match(argument) for argument in given):
        settings.backend = "http"  # as in ReMe's own configuration
    return settings


def embed_offline(settings: Settings) -> Settings:
    """The same settings, with the local embedder in place of models that have neither a URL nor a key.

    Command lines of ReMe 0.1 always name an embedder, so without a key they would not start.
    """
    for name, section in settings.embedding_model.items():
        if is_out_of_reach(section):
            log.warning(
                "embedding_model.%s names %s, which is not used: neither a URL nor a key is set, so the model that "
                "works offline embeds, and new workspaces are bound to it",
                name, section.model_name,
            )  # fmt: skip
            settings.embedding_model[name] = section.model_copy(update={"backend": "local"})
    return settings


def main(arguments: Sequence[str]) -> None:
    """Run the service of a command line until it is stopped.

    Ends the program with code 2 for invalid settings, 1 for other errors, 130 for Ctrl-C.
    """
    try:
        _serve(settings_of(arguments))
    except KeyboardInterrupt:
        sys.exit(130)
    except ReMeError as error:
        print(f"reme: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, ConfigurationError) else 1)


def _serve(settings: Settings) -> None:
    if settings.backend == "cmd":
        raise ConfigurationError(
            "backend: no service is named; say backend=http or backend=mcp (`reme --help` lists single commands)"
        )
    from reme_core.server.run import run_until_stopped, serve_http, serve_mcp  # noqa: PLC0415 - not before

    run_until_stopped(serve_http if settings.backend == "http" else serve_mcp, settings)


def _is_default_config(argument: str) -> bool:
    # `config=default` was ReMe's own configuration; without a file of that name our defaults take its place.
    return argument.lstrip("-") in ("config=default", "config=default.yaml") and not Path("default.yaml").exists()
