"""The interfaces and ops of earlier systems: ReMe 0.1, MemoryScope, and the memory of an RL training helper."""

from __future__ import annotations

import sys
import types


def install() -> None:
    """Make `from reme_ai import ReMeApp` import ours, in this process, even if reme-ai is installed.

    Call it before anything imports `reme_ai`. `import reme_core.compat.as_reme_ai` does the same in one line.
    """
    from reme_core.compat.command_line import main  # noqa: PLC0415 - `import reme_core.compat` stays light
    from reme_core.compat.reme_app import ReMeApp  # noqa: PLC0415

    module = types.ModuleType("reme_ai", "ReMe 0.1's name, answered by reme_core.")
    module.__dict__.update(ReMeApp=ReMeApp, main=lambda: main(sys.argv[1:]), __all__=["ReMeApp", "main"])
    sys.modules["reme_ai"] = module
