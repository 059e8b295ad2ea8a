"""Programs: the installed command, and those that belong to no package, as modules whose parts can be called."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

ROOT = Path(__file__).parents[1]
REME: Final = str(Path(sys.executable).parent / "reme")


def load_script(path: str) -> ModuleType:
    """A fresh module made of the program at `path`, which is relative to the project's root."""
    name = path.removesuffix(".py").replace("/", "_")
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module
