"""Paths of libraries that callers name: only configured folders, and those below a local service, may be used."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from reme_core.errors import InputError
from reme_core.settings import Settings

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def library_folder(path: str, workspace: str, settings: Settings, *, is_local: bool) -> Path:
    """The folder of a library, as an absolute path, once checked that callers may use it.

    Args:
        path: The folder as the caller gave it; relative to the working directory.
        workspace: Whose library, `<path>/<workspace>.jsonl`, will be read or written.
        settings: Libraries may lie below its `library_dirs` and its `data_dir`.
        is_local: Whether only programs of this machine reach the service, all with the same rights; then libraries may
            lie below the working directory as well.

    Raises:
        InputError: The folder, or the file in it, lies elsewhere.
    """
    folders = (*settings.library_dirs, settings.data_dir, *([Path()] if is_local else []))
    allowed = [folder.expanduser().resolve() for folder in folders]
    if "\0" in path or "/" in workspace or "\\" in workspace:
        raise InputError("path: neither it nor the name of a workspace that is loaded or dumped may hold '/' or NUL")
    # Both are resolved before the comparison: `..` or a symbolic link, of either, could lead out.
    folder = Path(path or ".").resolve()
    file = (folder / f"{workspace}.jsonl").resolve()
    for root in allowed:
        if folder.is_relative_to(root) and file.is_relative_to(root):
            return folder
    names = ", ".join(str(root) for root in allowed)
    raise InputError(f"path: libraries are read and written below {names} only; `library_dirs` sets more folders")
