"""What every command shares: the options that all of them take, opening the memory, and how a failure ends.

A command is a plain typer command below `@with_session`. Its first parameter, the `Session`, is filled in; the shared
options (`--json`, `--set`, `--config`, `--debug`) are added to those it declares.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, get_type_hints

import typer

import reme_core
from reme_core.cli import output
from reme_core.errors import (
    ConfigurationError,
    DatabaseError,
    FlowError,
    InputError,
    ModelError,
    NotFoundError,
    ReMeError,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from reme_core import ReMe, Settings

P = ParamSpec("P")

EXIT_CODES: tuple[tuple[type[ReMeError], int], ...] = (
    (NotFoundError, 3),
    (DatabaseError, 4),
    (ModelError, 5),
    (InputError, 2),
    (ConfigurationError, 2),
    (FlowError, 2),
    (ReMeError, 1),
)
"""How the command ends for which error; the first that fits counts."""

INTERRUPTED = 130  # what shells give a program that Ctrl-C ended


@dataclass(frozen=True, slots=True)
class Options:
    """The options that every command takes, before its name as well as after it."""

    as_json: bool = False
    assignments: tuple[str, ...] = ()
    config: Path | None = None
    debug: bool = False

    def over(self, earlier: Options) -> Options:
        """These options, with those given before the command's name below them."""
        return Options(
            self.as_json or earlier.as_json,
            (*earlier.assignments, *self.assignments),
            self.config or earlier.config,
            self.debug or earlier.debug,
        )


_SHARED = "Every command"
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON to stdout, and nothing else.", rich_help_panel=_SHARED)
]
Assignments = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Set one setting, such as recall.log=false.", rich_help_panel=_SHARED
    ),
]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Read settings from YAML.", rich_help_panel=_SHARED)
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=_SHARED)]


class Session:
    """What a command works with: its settings, the open memory, and where its answer goes."""

    def __init__(self, options: Options) -> None:
        self.options = options

    @property
    def settings(self) -> Settings:
        """The settings of the environment, `--config` and `--set`, the later winning."""
        return reme_core.Settings.load(*self.options.assignments, config=self.options.config)

    def opened(self, settings: Settings | None = None) -> ReMe:
        """The memory, open; use it in a `with` block."""
        with output.status("Opening the database …", quiet=self.options.as_json):
            return reme_core.ReMe(settings or self.settings).open()

    def show(self, data: Any, *lines: RenderableType) -> None:
        """Give the answer: `data` with `--json`, the lines for people otherwise; a plain string stays as it is."""
        if self.options.as_json:
            output.print_json(data)
            return
        for line in lines:
            output.stdout().print(line, soft_wrap=isinstance(line, str))

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int | None], None]]:
        """A progress bar on stderr, where that is a terminal. Yields what takes (done, total or None)."""
        with output.progress(what, quiet=self.options.as_json) as advance:
            yield advance


def with_session(command: Callable[Concatenate[Session, P], None]) -> Callable[..., None]:
    """Turn a function of a session and its own options into one that typer can take as a command."""

    @wraps(command)
    def run(ctx: typer.Context, *args: Any, **values: Any) -> None:
        shared = {name: values.pop(name) for name in _SHARED_OPTIONS}
        options = Options(**shared | {"assignments": tuple(shared["assignments"])}).over(ctx.obj or Options())
        with exits(options):
            command(Session(options), *args, **values)

    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [context, *own, *_SHARED_OPTIONS.values()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def remember(
    ctx: typer.Context,
    as_json: AsJson = False,
    assignments: Assignments = [],  # noqa: B006 - typer wants a plain default, and copies it
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Keep the options that are given before the name of the command."""
    ctx.obj = Options(as_json, tuple(assignments), config, debug)


_SHARED_OPTIONS = {
    name: parameter.replace(
        annotation=get_type_hints(remember, include_extras=True)[name], kind=inspect.Parameter.KEYWORD_ONLY
    )
    for name, parameter in inspect.signature(remember).parameters.items()
    if name in {field.name for field in fields(Options)}
}


@contextmanager
def exits(options: Options) -> Iterator[None]:
    """End the program with a message and a code that means something, rather than with a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        output.complain("interrupted", code="interrupted", as_json=options.as_json)
        raise typer.Exit(INTERRUPTED) from None
    except ReMeError as error:
        if options.debug:
            output.print_traceback()
        output.complain(str(error), code=error.code, as_json=options.as_json)
        raise typer.Exit(next(code for kind, code in EXIT_CODES if isinstance(error, kind))) from None
