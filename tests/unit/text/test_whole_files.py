"""A file is replaced whole or not at all, and has the permissions that it shall have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reme_core.errors import InputError
from reme_core.text.whole_files import replacement_of


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
    with pytest.raises(InputError, match="File name too long"), replacement_of(tmp_path / ("a" * 300)):
        pass


def test_the_file_behind_a_link_is_written_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link, file_behind = tmp_path / "a.txt", tmp_path / "elsewhere" / "b.txt"
    link.symlink_to(file_behind)
    for text in ("made", "replaced"):
        with replacement_of(link) as file:
            file.write(text.encode())
        assert (link.readlink(), file_behind.read_text()) == (file_behind, text)
    assert [p.name for p in (tmp_path / "elsewhere").iterdir()] == ["b.txt"]


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "link", "loop", "folder"):
        with (
            pytest.raises(InputError, match=f"cannot write .*{name}: it is there and no regular file"),
            replacement_of(tmp_path / name),
        ):
            pass
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "loop").is_symlink()
    assert len([*tmp_path.iterdir()]) == 4
