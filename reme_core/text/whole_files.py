"""Files that appear whole or not at all: readers see the old one or the new one, even after a crash."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from reme_core.errors import InputError
from reme_core.types import new_id


@contextmanager
def replacement_of(path: Path, *, mode: int | None = None) -> Iterator[IO[bytes]]:
    """A file that replaces `path` when the block ends, and is removed if an exception ends it.

    Its permissions are `mode`, by default those of any new file. Where `path` is a symbolic link, the file behind it is
    replaced, and the link stays.

    Raises:
        InputError: It cannot be written, or is something else than a file, such as a pipe or a device.
    """
    target = Path(os.path.realpath(path))
    if os.path.lexists(target) and not target.is_file():
        raise InputError(f"cannot write {path}: it is there and no regular file; name another path")
    part = target.with_name(f".{target.name}.{new_id()}.part")  # two writers of one path do not mix

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, 0o666 if mode is None else mode)

    try:
        with open(part, "xb", opener=opener) as file:
            if mode is not None:
                part.chmod(mode)  # all of it: the umask of the process may have taken some away
            yield file
            flush_to_disk(file)  # before it gets its name: else a loss of power could leave an empty file there
        part.replace(target)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    finally:
        with suppress(OSError):  # a name that cannot be written cannot be removed either
            part.unlink(missing_ok=True)


def flush_to_disk(file: IO[bytes]) -> None:
    """Wait until what was written is on the disk."""
    file.flush()
    os.fsync(file.fileno())
