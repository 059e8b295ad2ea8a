"""The command line as its tests run it: in this process, on a database of their own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reme_core.cli import main


class Reme:
    """Runs `reme …` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.err = ""

    def __call__(self, *arguments: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, self.err = self._capsys.readouterr()
        assert (ended.value.code or 0) == code, self.err
        return out

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))
