"""`reme eval`: how well memory does with a model of one's own, on the data of the project."""

from __future__ import annotations

import asyncio
import importlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from reme_core.cli.session import Commands, Session
from reme_core.errors import ConfigurationError, InputError

app = Commands(help="Measure how well memory does, on the data of the project.", no_args_is_help=True)


@app.command()
def personal(
    session: Session,
    llm: Annotated[str, typer.Option(help="none, oracle, or the URL of an OpenAI-compatible endpoint.")] = "none",
    model: Annotated[str, typer.Option(help="The model's name there.")] = "default",
    small: Annotated[bool, typer.Option(help="Use the schema for models of a few billion parameters.")] = False,
    people: Annotated[Path | None, typer.Option(help="A folder of people's files; default is the project's.")] = None,
) -> None:
    """Replay people's conversations, and print what was kept, what changed, what is false, and what it cost."""
    del session  # a database of its own
    sys.path.append(str(Path.cwd()))  # a checkout: an installed command does not look into the folder it runs in
    try:
        benchmark = importlib.import_module("benchmarks.personal")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "the benchmarks are not installed with the package; run this in a checkout of the project"
        ) from error
    given = ["--llm", llm, "--model", model, *(["--small"] if small else [])]
    given += ["--people", str(people)] if people else []
    try:
        asyncio.run(benchmark.main(benchmark.parser().parse_args(given)))
    except FileNotFoundError as error:
        raise InputError(str(error)) from error
