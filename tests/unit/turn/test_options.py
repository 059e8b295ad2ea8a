"""The options that every adapter takes: each has a default, and there is none that does nothing."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from reme_core import AsyncReMe, Settings
from reme_core.errors import ConfigurationError, InputError
from reme_core.turn import OWN_TOOLS, MemoryTools, TurnMemory, TurnOptions, check_session, options


def test_each_has_a_default() -> None:
    assert options.DEFAULTS.keys() == TurnOptions.__annotations__.keys()
    assert options.complete_options({"top_k": 7}) == options.DEFAULTS | {"top_k": 7}


def test_the_memory_tools_are_known_by_name() -> None:
    tools = [name for name in vars(MemoryTools) if not name.startswith("_") and name != "all"]
    assert set(tools) <= OWN_TOOLS


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topk": 3}, "no option 'topk'; did you mean 'top_k'"),
        ({"reme": None}, "did you mean 'client'"),
        ({"tenant": "alice"}, "did you mean 'workspace_id'"),
        ({"dsn": "postgresql:///x"}, "did you mean 'database_url'"),
        ({"xyzzy": 1}, "there are database_url, client"),
        ({"top_k": 0}, "top_k is a whole number, 1 or more; not 0"),
        ({"kinds": ["feelings"]}, "feelings"),
        ({"on_error": "cry"}, "on_error is 'log' or 'raise', not 'cry'"),
        ({"write": "never"}, "write is .* not 'never'"),
        ({"top_k": "3"}, "top_k is a whole number, 1 or more; not '3'"),
        ({"filters": {"color": "red"}}, "no filter 'color'; there are agent_id, as_of, author"),
        ({"filters": {5: "red", "color": "red"}}, "no filter 5; there are"),
        ({"workspace_id": ""}, "cannot name a workspace"),
        ({"database_url": "alice"}, "database_url is no postgresql"),
        ({"database_url": ""}, "database_url is empty"),
        ({"database_url": SecretStr(" ")}, "database_url is empty"),
        ({"client": "postgresql:///x"}, "client is an open AsyncReMe"),
        ({"spool": Path("notes.txt")}, "whose name ends in .sqlite3, not notes.txt"),
        ({"database_url": "postgresql:///x", "client": AsyncReMe(Settings())}, "not both"),
    ],
)
def test_what_means_nothing_is_an_error_that_names_the_right_one(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        TurnMemory(**{"workspace_id": "alice"} | given)


def test_an_empty_name_is_no_conversation() -> None:
    assert check_session("s1") == "s1"
    assert check_session(None) is None
    with pytest.raises(InputError, match="leave session_id out"):
        check_session(" ")


def test_the_shared_workspace_is_told_of_once_and_may_be_forbidden(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "_told", set())
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert TurnMemory(Settings()).workspace_id == "default"
        TurnMemory(Settings(), "default")
    assert [record.getMessage() for record in caplog.records] == [
        "all users share the workspace 'default'; pass workspace_id to keep them apart"
    ]
    with pytest.raises(ConfigurationError, match="allow_default_workspace"):
        TurnMemory(Settings(allow_default_workspace=False))
