"""What all commands share: common options, settings and the open memory, and exit codes.

A command is a function in a group of `Commands`, which passes the `Session` as its first argument and adds the common
options (`--json`, `--set`, `--config`, `--debug`) to those it declares.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import wraps
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

import reme_core
from reme_core.cli import output
from reme_core.cli.interrupts import end_at_once
from reme_core.errors import (
    ConfigurationError,
    DatabaseError,
    FlowError,
    InputError,
    ModelError,
    NotFoundError,
    ReMeError,
    did_you_mean,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from reme_core import ReMe, Settings

Command = TypeVar("Command", bound=Callable[..., None])

EXIT_CODES: tuple[tuple[type[ReMeError], int], ...] = (
    (NotFoundError, 3),
    (DatabaseError, 4),
    (ModelError, 5),
    (InputError, 2),
    (ConfigurationError, 2),
    (FlowError, 2),
    (ReMeError, 1),
)
"""The exit code of each class of errors. An error has the code of the first class that it is an instance of."""

INTERRUPTED = 130  # what shells give a program that Ctrl-C ended


@dataclass(frozen=True, slots=True)
class Options:
    """The options that every command takes, both before and after its name."""

    as_json: bool = False
    assignments: Sequence[str] = ()
    config: Path | None = None
    debug: bool = False

    def with_earlier(self, earlier: Options) -> Options:
        """These options merged with those before the command's name; where both set one, these win."""
        return Options(
            self.as_json or earlier.as_json,
            (*earlier.assignments, *self.assignments),
            self.config or earlier.config,
            self.debug or earlier.debug,
        )


Workspace = Annotated[
    str, typer.Option("--workspace", "-w", envvar="REME_WORKSPACE", show_envvar=True, help="Which workspace.")
]
Scope = dict[str, Any]
"""The part of a scope that is named. A command with such a parameter `scope` has the options below."""
_SCOPE_OPTIONS = {
    name: inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, typer.Option(help=f"The {what} within the workspace.")],
    )
    for name, what in (("user_id", "person"), ("agent_id", "agent"), ("run_id", "run"))
}


def parse_time(text: str) -> datetime:
    """A point in time as an option names it, in UTC unless it has a zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"'{text}' is no point in time; write 2024-05-31 or 2024-05-31T18:00+02:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


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


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(reme_core.__version__)
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and end.")
]


class Session:
    """What a command works with: its settings, the memory to open, and the form of its answer."""

    def __init__(self, options: Options, *, invoked: str | None = None) -> None:
        self.options = options
        self.invoked = invoked
        """Which command of a group runs next, if any."""

    @property
    def settings(self) -> Settings:
        """The settings of the environment, overridden by `--config`, overridden by `--set`."""
        settings = reme_core.Settings.load(*self.options.assignments, config=self.options.config)
        if self.options.as_json:
            settings.log.format = "json"
        return settings

    def open(self) -> ReMe:
        """Open the memory; the caller closes it, by a `with` block."""
        with end_at_once():
            from reme_core.sync import ReMe

        with self.spinner("Opening the database …"):
            return ReMe(self.settings).open()

    def show(self, data: Any, *lines: RenderableType) -> None:
        """Print the answer: `data` with `--json`, else the lines. Strings among these are not wrapped."""
        with output.check_printing():
            if self.options.as_json:
                output.print_json(data)
                return
            for line in lines:
                output.stdout().print(line, soft_wrap=isinstance(line, str))

    def spinner(self, what: str) -> AbstractContextManager[object]:
        """A context manager that shows a spinner on stderr, if that is a terminal; not with `--json`."""
        return output.stderr().status(what) if self._shows_progress else nullcontext()

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int | None], None]]:
        """Show a progress bar on stderr, if that is a terminal; not with `--json`.

        Yields a function that sets it to (done, total); total is None while it is unknown.
        """
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=output.stderr(), disable=not self._shows_progress) as bars:
            task = bars.add_task(what, total=None)
            yield lambda done, total: bars.update(task, completed=done, total=total)

    @property
    def _shows_progress(self) -> bool:
        return not self.options.as_json and output.stderr().is_terminal


class Commands(typer.Typer):
    """A group of commands, which are functions that take a `Session` and options of their own."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Command], Command]:
        """Make a function a command, which takes the common options as well."""
        return _adding_session(super().command(name, **options))

    def callback(self, **options: Any) -> Callable[[Command], Command]:
        """Make a function that of the group, which takes the common options for its commands, too."""
        return _adding_session(super().callback(**options))


def _adding_session(register: Callable[[Any], Any]) -> Callable[[Command], Command]:
    def add(function: Command) -> Command:
        register(_with_session(function))
        return function

    return add


def _with_session(function: Callable[..., None]) -> Callable[..., None]:
    @wraps(function)
    def run(ctx: typer.Context, **values: Any) -> None:
        if takes_scope:
            named = {name: values.pop(name) for name in _SCOPE_OPTIONS}
            values["scope"] = {name: value for name, value in named.items() if value is not None}
        shared = Options(**{name: values.pop(name) for name in _SHARED_OPTIONS})
        ctx.obj = shared.with_earlier(ctx.obj or Options())  # for the commands of a group, too
        with exit_on_error(ctx.obj):
            function(Session(ctx.obj, invoked=ctx.invoked_subcommand), **values)

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    takes_scope = any(parameter.name == "scope" for parameter in own)
    if takes_scope:
        own = [*(parameter for parameter in own if parameter.name != "scope"), *_SCOPE_OPTIONS.values()]
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [context, *own, *_SHARED_OPTIONS.values()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def keep_options(
    ctx: typer.Context,
    as_json: AsJson = False,
    assignments: Assignments = [],  # noqa: B006 - typer wants a plain default, and copies it
    config: Config = None,
    debug: Debug = False,
    version: Version = False,
) -> None:
    """Keep the options before the command's name, for the command's `Session`."""
    ctx.obj = Options(as_json, assignments, config, debug)
    _heed_workspace_in_dotenv()


def _heed_workspace_in_dotenv() -> None:
    """Put REME_WORKSPACE of `.env` into the environment, which is all that typer reads."""
    from reme_core.settings.sources import read_dotenv

    with suppress(ConfigurationError):  # the command's settings are of that file, too, and raise this again
        if not os.environ.get("REME_WORKSPACE") and (name := read_dotenv().get("REME_WORKSPACE")):
            os.environ["REME_WORKSPACE"] = name


_SHARED_OPTIONS = {
    name: parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    for name, parameter in inspect.signature(keep_options, eval_str=True).parameters.items()
    if name in {field.name for field in fields(Options)}
}


def hint_at_missing(reme: ReMe, workspace: str) -> list[str]:
    """A hint, if there is no workspace of this name, with the nearest one."""
    names = reme.workspaces.list()
    advice = did_you_mean(workspace, names, "`reme workspaces` lists those there are")
    return [] if workspace in names else [f"There is no workspace '{workspace}'; {advice}"]


def require_workspace(reme: ReMe, workspace: str) -> None:
    """Check that there is a workspace of this name.

    Raises:
        NotFoundError: There is none; the nearest one is named.
    """
    if hints := hint_at_missing(reme, workspace):
        raise NotFoundError(hints[0].replace("There", "there", 1))


def read_input() -> str:
    """The whole standard input, read as UTF-8 in every locale.

    Raises:
        InputError: It is closed, cannot be read, or is not UTF-8.
    """
    if sys.stdin is None:
        raise InputError("the standard input is closed; give the text by a pipe or from a file")
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise InputError(f"the standard input is not UTF-8 ({error.reason}); convert it, as with iconv") from None
    except OSError as error:
        raise InputError(f"the standard input cannot be read: {error.strerror}") from None


def confirm(question: str) -> None:
    """Ask whether to go on, and end the program unless the answer is yes.

    Raises:
        InputError: The input is no terminal, so nobody can answer.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        raise InputError("there is nobody to ask; say --yes")
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)


@contextmanager
def exit_on_error(options: Options) -> Iterator[None]:
    """End the program, after a `ReMeError` or Ctrl-C, with a message and an exit code in place of a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        output.print_error("interrupted", code="interrupted", as_json=options.as_json)
        raise typer.Exit(INTERRUPTED) from None
    except ReMeError as error:
        if options.debug:
            output.stderr().print_exception(width=None)
        output.print_error(str(error), code=error.code, as_json=options.as_json)
        raise typer.Exit(next(code for kind, code in EXIT_CODES if isinstance(error, kind))) from None
