"""A spool that several processes share: what one has written stays, whatever the others do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from reme_core.spool.file import Entry, SpoolFile
from reme_core.types import Message

OTHER = """
import sys
from pathlib import Path
from reme_core.spool.file import SpoolFile
file = SpoolFile(Path(sys.argv[1]))
print(len(file.read()), flush=True)
sys.stdin.readline()
file.close()
"""


def entry(name: str) -> Entry:
    return Entry("w", [Message(content=name)], entry_id=name)


def other(path: Path) -> subprocess.Popen[str]:
    """A process that has the file open, until it is told to end."""
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"
    return process


def test_what_is_written_stays_when_another_process_closes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    file = SpoolFile(path)
    file.write([entry("first")])
    with other(path) as process:
        assert list(file.read()) == ["first"]  # looks at the header, which must not give up SQLite's locks
        process.communicate("end\n")
    file.write([entry("second")])
    found = subprocess.run(
        [sys.executable, "-c", OTHER, str(path)], input="\n", capture_output=True, text=True, check=True
    )
    assert found.stdout == "2\n"
    file.close()
