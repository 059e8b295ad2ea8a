"""The command line of ReMe 0.1: `reme backend=http http.port=8002 llm.default.model_name=… language=zh`.

Every argument is `section.key=value` (leading dashes allowed); `config=file.yaml` reads a file below them. The modern
spelling is `reme serve` and `reme mcp`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from reme_core.errors import ConfigurationError, ReMeError
from reme_core.settings import Settings


def settings_of(arguments: Sequence[str]) -> Settings:
    """The settings that a command line of ReMe 0.1 asks for.

    `config=default` named ReMe's own configuration; where there is no such file, our defaults are meant.

    Raises:
        ConfigurationError: A key is unknown (the nearest valid name is given), or a value does not fit.
    """
    given = [argument for argument in arguments if not _names_the_default(argument)]
    return Settings.load(*given)


def main(arguments: Sequence[str]) -> None:
    """Run the service that a command line asks for, until it is stopped; a mistake ends the program with code 2."""
    try:
        serve(settings_of(arguments))
    except KeyboardInterrupt:
        sys.exit(130)
    except ReMeError as error:
        print(f"reme: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, ConfigurationError) else 1)


def serve(settings: Settings) -> None:
    """Run the service that `backend` names.

    Raises:
        ConfigurationError: It names none that serves.
        ReMeError: The service cannot start; the message says why.
    """
    if settings.backend == "cmd":
        raise ConfigurationError("backend: say backend=http or backend=mcp; single commands are told by `reme --help`")
    from reme_core.server.run import log_to_stderr, run_until_stopped, serve_http, serve_mcp  # noqa: PLC0415 - not before

    log_to_stderr()
    run_until_stopped((serve_http if settings.backend == "http" else serve_mcp)(settings))


def _names_the_default(argument: str) -> bool:
    return argument.lstrip("-") in ("config=default", "config=default.yaml") and not Path("default.yaml").exists()
