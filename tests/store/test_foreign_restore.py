"""A dump of Postgres' own tools, restored into a server that has never seen our role."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from reme_core.engine import Engine
from reme_core.errors import SchemaError
from reme_core.postgres import migrate
from reme_core.postgres.embedded.files import postgres_binary
from reme_core.postgres.embedded.server import EmbeddedServer
from reme_core.settings import Settings


async def test_a_database_restored_without_our_role_says_what_to_do_and_works_then(
    settings: Settings, database_url: str, own_data_dir: Path, tmp_path: Path
) -> None:
    async with Engine(settings) as engine:
        await engine.memories.add("alice", "She drinks tea.")
        await engine.memories.add("bob", "He drinks coffee.")
    dump = tmp_path / "memory.dump"
    subprocess.run([postgres_binary("pg_dump"), "-Fc", "-f", dump, database_url], check=True)
    server = EmbeddedServer.acquire(own_data_dir, linger_seconds=0)
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("create database restored")
    url = make_conninfo(server.url, dbname="restored")
    restore = [postgres_binary("pg_restore"), "--no-owner", "-d", url, dump]
    told = subprocess.run(restore, capture_output=True, text=True, check=False).stderr
    assert "reme_service" in told  # the grants failed; everything else is there
    elsewhere = settings.model_copy(update={"database_url": SecretStr(url), "pooler_url": None})
    with pytest.raises(SchemaError, match="reme db upgrade"):
        await Engine(elsewhere).open()
    migrate.upgrade(url)
    async with Engine(elsewhere) as engine:
        assert [hit.content for hit in (await engine.recall("alice", "What is drunk?")).hits] == ["She drinks tea."]
        await engine.memories.add("alice", "She drinks water.")
        assert await engine.database.fetch("alice", "select current_user::text") == [("reme_service",)]
    server.release()
