"""The entry point: it joins the groups of commands, and hands command lines of ReMe 0.1 to `compat`.

Each group is a module with a `typer.Typer`. These modules import the database and models only inside their commands, so
that `reme --help` answers at once.
"""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import os
import re
import sys
from collections.abc import Sequence

import reme_core
from reme_core.cli import (
    chat,
    configuration,
    conversations,
    database,
    demo,
    doctor,
    episodes,
    evaluation,
    flows,
    jobs,
    libraries,
    memories,
    output,
    serve,
    spool,
)
from reme_core.cli.session import Commands, Session, keep_options

_REME_0_1 = "reme_core.compat.command_line"  # imported by name: `cli` and `compat` stand side by side in the map
# A setting as ReMe 0.1 takes it, with or without leading dashes; --set=… and --config=… are options of ours.
_ASSIGNMENT = re.compile(r"(--?(?!(set|config)=))?[A-Za-z_][\w.]*=")

app = Commands(
    name="reme",
    help="Long-term memory for AI agents on your own Postgres.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong use or input, 3 not found, 4 database, 5 model, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    callback=keep_options,
)
app.add_typer(memories.app)
app.add_typer(conversations.app)
app.add_typer(libraries.app)
app.add_typer(database.app, name="db")
app.add_typer(configuration.app, name="config")
app.add_typer(demo.app)
app.add_typer(doctor.app)
app.add_typer(serve.app)
app.add_typer(serve.keys_app, name="keys")
app.add_typer(jobs.worker_app)
app.add_typer(chat.app)
app.add_typer(jobs.app, name="jobs")
app.add_typer(spool.app, name="spool")
app.add_typer(flows.app, name="flows")
app.add_typer(evaluation.app, name="eval")
app.add_typer(episodes.app, name="episodes")


@app.command()
def version(session: Session) -> None:
    """Print the version of reme-core."""
    session.show({"version": reme_core.__version__}, reme_core.__version__)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: `reme recall …`, or ReMe 0.1's `reme backend=http http.port=8002`."""
    try:
        if arguments is None:
            _collect_seldom()
        output.adapt_to_terminal()
        given = [_as_utf8(argument) for argument in (sys.argv[1:] if arguments is None else arguments)]
        # `--config=…` may stand before either: the next argument tells a command from another setting.
        first = next((argument for argument in given if not argument.startswith("--config=")), "")
        if _ASSIGNMENT.match(first):
            importlib.import_module(_REME_0_1).main(given)
        else:
            app(given, prog_name="reme")
    except KeyboardInterrupt:  # outside of a command, which says itself what was not done
        sys.exit(130)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        output.discard_stdout()
        output.print_error(f"the answer cannot be printed: {error.strerror}", code="reme_error", as_json=False)
        sys.exit(1)


def _collect_seldom() -> None:
    """Spare a command the search for garbage in what it imports: a sixth of its time, since it mostly imports."""
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)  # what is left at the end goes with the process


def _as_utf8(argument: str) -> str:
    """An argument whose bytes the locale does not know (then it has surrogates), read as UTF-8."""
    return argument if argument.isprintable() else os.fsencode(argument).decode("utf-8", "replace")
