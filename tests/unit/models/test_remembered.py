"""What a process remembers of workspaces for a while, and no longer."""

from __future__ import annotations

import time

import pytest

from reme_core.store.index.embedders import _Remembered


def test_what_is_over_is_given_no_more_and_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: moment)
    remembered = _Remembered[int]()
    for number in range(5):
        remembered.put(f"w{number}", number)
        moment += 10.0
    assert [remembered.get(f"w{number}") for number in range(5)] == [None, None, None, 3, 4]
    remembered.put("w3", 33)
    moment += 22.0
    remembered.put("w9", 9)
    assert list(remembered._kept) == ["w3", "w9"]
    remembered.forget("w3")
    assert remembered.get("w3") is None
