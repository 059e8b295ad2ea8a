"""Importing this module makes `from reme_ai import ReMeApp` import that of `reme_core`, in this process."""

from reme_core.compat import install

install()
