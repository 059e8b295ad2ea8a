"""A file is replaced whole or not at all, and has the permissions that it shall have."""

from __future__ import annotations

from pathlib import Path

import pytest

from reme_core.errors import InputError
from reme_core.files import replacement_of


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacement_of(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.txt", "old")]
    with replacement_of(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.txt", "new")]


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o666])
def test_the_permissions_are_those_that_are_asked_for(tmp_path: Path, mode: int) -> None:
    with replacement_of(tmp_path / "a.txt", mode=mode) as file:
        file.write(b"new")
        assert [p.stat().st_mode & 0o777 for p in tmp_path.iterdir()] == [mode]
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == mode


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"cannot write .*none.a\.txt: No such file"),
        replacement_of(tmp_path / "none/a.txt"),
    ):
        pass
