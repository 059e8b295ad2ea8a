"""Importing this module makes `from reme_ai import ReMeApp` find `reme_core`'s, in this process."""

from reme_core.compat import install

install()
