"""docs/architecture.md names every module that there is."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "docs" / "make_map.py"


def test_the_map_names_every_module() -> None:
    spec = importlib.util.spec_from_file_location("make_map", SCRIPT)
    assert spec is not None and spec.loader is not None
    make_map = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_map)
    assert make_map.PAGE.read_text(encoding="utf-8") == make_map.page(), "run `python docs/make_map.py`"
