"""The command line: `reme add`, `reme recall`, `reme load`, `reme db upgrade` and so on."""

from reme_core.cli.interrupts import end_at_once

with end_at_once():
    from reme_core.cli.main import main

__all__ = ["main"]
