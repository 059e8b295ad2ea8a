"""Checks the folders of libraries that callers of a service name: only configured ones may be read and written."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from reme_core.errors import InputError
from reme_core.settings import Settings
from reme_core.store.libraries.format import library_path

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def library_folder(path: str, workspace: str, settings: Settings, *, is_local: bool) -> Path:
    """Check that callers may read and write the library of a workspace in a folder, and return its absolute path.

    Libraries may lie below the `library_dirs` and the `data_dir` of the settings. Below the working directory they may
    lie only if the service `is_local`: then only programs on this machine reach it, all with the same rights.

    Raises:
        InputError: The folder, or the file in it, lies elsewhere.
    """
    folders = (*settings.library_dirs, settings.data_dir, *([Path()] if is_local else []))
    allowed = [folder.expanduser().resolve() for folder in folders]
    if "\0" in path:
        raise InputError("path: it may not contain a NUL")
    # Both are resolved before the comparison, since `..` or a symbolic link in either could lead out of the folder.
    folder = Path(path or ".").resolve()
    file = library_path(folder, workspace).resolve()
    for root in allowed:
        if folder.is_relative_to(root) and file.is_relative_to(root):
            return folder
    names = ", ".join(str(root) for root in allowed)
    raise InputError(f"path: libraries are read and written below {names} only; `library_dirs` sets more folders")
