"""Paths that come over the network: only files below the configured folders may be read and written."""

from __future__ import annotations

from pathlib import Path

from reme_core.errors import InputError
from reme_core.settings import Settings


def confined(path: str, workspace: str, settings: Settings) -> Path:
    """The folder that a caller names, once it is seen that the workspace's library in it lies where it may.

    Links and `..` are followed before the look, for the folder as well as for the file in it.

    Args:
        path: As the caller gave it; relative to the working directory.
        workspace: Whose library, `<path>/<workspace>.jsonl`, will be read or written.
        settings: `library_dirs` and `data_dir` say what is allowed.

    Raises:
        InputError: It lies elsewhere.
    """
    allowed = [folder.expanduser().resolve() for folder in (*settings.library_dirs, settings.data_dir)]
    if "\0" in path or "/" in workspace or "\\" in workspace:
        raise InputError("path: neither it nor the name of a workspace that is loaded or dumped may hold '/' or NUL")
    folder = Path(path or ".").resolve()
    file = (folder / f"{workspace}.jsonl").resolve()
    for root in allowed:
        if folder.is_relative_to(root) and file.is_relative_to(root):
            return folder
    names = ", ".join(str(root) for root in allowed)
    raise InputError(f"path: libraries are read and written below {names} only; `library_dirs` sets more folders")
