"""The errors of ReMe core. Each message says what was wrong and what to do about it.

All derive from `ReMeError`. Each class has a `code` for programs, which does not change; the HTTP service puts it into
the bodies of its errors.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class ReMeError(Exception):
    """Any error that ReMe core raises on purpose."""

    code = "reme_error"


class InputError(ReMeError, ValueError):
    """A value that the caller gave does not fit; nothing was stored."""

    code = "invalid_input"


class NotFoundError(ReMeError, LookupError):
    """The named workspace, memory, message or job does not exist (or belongs to another workspace)."""

    code = "not_found"


class ConflictError(ReMeError):
    """Somebody else made another change meanwhile, or the id already belongs to something else."""

    code = "conflict"


class ConfigurationError(ReMeError, ValueError):
    """A setting is unknown, malformed, or contradicts another one."""

    code = "configuration"


class LibraryError(InputError):
    """A JSONL library has a line that cannot be read; nothing of the file was loaded.

    Attributes:
        path: The file.
        line: The number of the line, from 1.
    """

    code = "invalid_library"

    def __init__(self, message: str, *, path: str = "", line: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.line = line


class DatabaseError(ReMeError):
    """Postgres could not be reached, or cannot be used as it is."""

    code = "database"


class DatabaseUnavailableError(DatabaseError):
    """No connection: wrong address, wrong password, or the server is down."""

    code = "database_unavailable"


class SchemaError(DatabaseError):
    """The database's schema is older or newer than this version of ReMe core, or pgvector is missing or too old."""

    code = "database_schema"


class SpoolError(ReMeError):
    """The file where turns wait for the database cannot be used, or too many wait already."""

    code = "spool"


class ModelError(ReMeError):
    """A chat, embedding or rerank model failed after all retries."""

    code = "model"


class ModelUnavailableError(ModelError):
    """The model's endpoint refused, timed out or could not be reached; trying again later may help."""

    code = "model_unavailable"


class ModelRefusedError(ModelError):
    """The model's endpoint refused what it was asked (400, 413, 422 …); asking the same again does not help."""

    code = "model_refused"


class ModelAnswerError(ModelError):
    """The model answered in another form than it was asked for; `raw` is its answer."""

    code = "model_answer"

    def __init__(self, message: str, *, raw: str = "") -> None:
        super().__init__(message)
        self.raw = raw


class EmbeddingModelError(ModelError):
    """The vectors of the workspace were made by another embedding model than the one that is set."""

    code = "embedding_model"


class FlowError(ReMeError, ValueError):
    """A flow cannot be built: its grammar is wrong, an op is unknown, an input is missing, or branches collide."""

    code = "flow"


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """End a message about an unknown name: with the nearest known one, or with `otherwise` if none is near.

    >>> did_you_mean("recal", ["recall", "rerank"], "there is none")
    "did you mean 'recall'?"
    """
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean '{near[0]}'?" if near else otherwise


@contextmanager
def require_extra(extra: str) -> Iterator[None]:
    """Import packages of an extra within this block.

    Raises:
        ConfigurationError: A package is not installed.

    Example:
        >>> with require_extra("server"):
        ...     import no_such_package
        Traceback (most recent call last):
        reme_core.errors.ConfigurationError: no_such_package is not installed; run `pip install "reme-core[server]"`
    """
    try:
        yield
    except ModuleNotFoundError as error:
        # A module of our own that is missing is no matter of an extra.
        if (error.name or "").startswith("reme_core"):
            raise
        raise ConfigurationError(f'{error.name} is not installed; run `pip install "reme-core[{extra}]"`') from error
