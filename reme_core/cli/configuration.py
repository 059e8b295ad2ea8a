"""`reme config`: the settings that commands and services would work with here."""

from __future__ import annotations

from typing import Any

from reme_core.cli.output import table
from reme_core.cli.session import Commands, Session

app = Commands(help="The settings that hold here.", no_args_is_help=True)


@app.command()
def show(session: Session) -> None:
    """Show every setting, from the environment, `.env`, --config and --set together. Keys and passwords are hidden."""
    from reme_core.settings import hide_secrets

    values = _flatten(hide_secrets(session.settings.model_dump(mode="json")))
    shown = table("setting", "value", wide="value")
    for name, value in values.items():
        shown.add_row(name, "–" if value is None else str(value))
    session.show(values, shown)


def _flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The settings as `--set` names them."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
