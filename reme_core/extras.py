"""Packages that only some uses need: where one is missing, the error names the extra that brings it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reme_core.errors import ConfigurationError


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Import what an extra brings in this block.

    Raises:
        ConfigurationError: A package is not installed.

    Example:
        >>> with needing("server"):
        ...     import no_such_package
        Traceback (most recent call last):
        reme_core.errors.ConfigurationError: no_such_package is not installed; run `pip install "reme-core[server]"`
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("reme_core"):
            raise
        raise ConfigurationError(f'{error.name} is not installed; run `pip install "reme-core[{extra}]"`') from error
