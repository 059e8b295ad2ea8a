"""What can go wrong, as one small tree. Every message says what was wrong and what to do about it.

Catch `ReMeError` for everything that is ours; each class also carries a stable machine-readable `code`, which the
HTTP service puts into its error bodies.
"""

from __future__ import annotations


class ReMeError(Exception):
    """Anything ReMe core raises on purpose."""

    code = "reme_error"


class InputError(ReMeError, ValueError):
    """What the caller gave cannot be taken as it is; nothing was stored."""

    code = "invalid_input"


class NotFoundError(ReMeError, LookupError):
    """The named workspace, memory, message or job does not exist (or belongs to another workspace)."""

    code = "not_found"


class ConflictError(ReMeError):
    """The change collides with one that was made meanwhile, or with an id that holds something else."""

    code = "conflict"


class ConfigurationError(ReMeError, ValueError):
    """A setting is unknown, malformed, or contradicts another one."""

    code = "configuration"


class LibraryError(InputError):
    """A JSONL library has a line that cannot be read; the whole file was left out.

    `line` is its 1-based number, `path` the file.
    """

    code = "invalid_library"

    def __init__(self, message: str, *, path: str = "", line: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.line = line


class DatabaseError(ReMeError):
    """Postgres could not be reached, or is not fit for use."""

    code = "database"


class DatabaseUnavailableError(DatabaseError):
    """No connection: wrong address, wrong password, or the server is down."""

    code = "database_unavailable"


class SchemaError(DatabaseError):
    """The database's schema is older or newer than this version of ReMe core, or pgvector is missing or too old."""

    code = "database_schema"


class ModelError(ReMeError):
    """A chat, embedding or rerank model failed after all retries."""

    code = "model"


class ModelUnavailableError(ModelError):
    """The model's endpoint refused, timed out or could not be reached; trying again later may help."""

    code = "model_unavailable"


class ModelAnswerError(ModelError):
    """The model answered, but not in the form asked for; `raw` holds its text."""

    code = "model_answer"

    def __init__(self, message: str, *, raw: str = "") -> None:
        super().__init__(message)
        self.raw = raw


class EmbeddingModelError(ModelError):
    """The workspace's vectors were made by another embedding model than the one at hand."""

    code = "embedding_model"


class FlowError(ReMeError, ValueError):
    """A flow cannot be built: bad grammar, an unknown op, a missing input, or two parallel writers of one field."""

    code = "flow"
