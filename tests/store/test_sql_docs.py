"""Every statement of docs/sql.md runs, as an ordinary user of the database would run it, and answers something."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from reme_core.demo import run_demo
from reme_core.engine import Engine
from reme_core.settings import Settings

DOCS = Path(__file__).parents[2] / "docs" / "sql.md"
BLOCKS = re.findall(r"```sql\n(.*?)```", DOCS.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.fixture
async def seeded_url(settings: Settings) -> AsyncIterator[str]:
    """A database in which the demonstration was told, a neighbour has a secret, and a task was tried twice."""
    async with Engine(settings) as reme:
        await run_demo(reme)
        await reme.memories.add("neighbour", "Nobody may see this.")
        async with reme.database.transaction("demo") as connection:
            await connection.execute(
                "insert into reme.episode (workspace_id, episode_id, number, task_id, score)"
                " values ('demo', 'e1', 1, 'invoice', 0.2), ('demo', 'e2', 2, 'invoice', 1)"
            )
    assert settings.database_url is not None
    yield settings.database_url.get_secret_value()


async def test_each_question_is_answered_and_no_other_workspace_shows(seeded_url: str) -> None:
    assert len(BLOCKS) >= 14
    with psycopg.connect(seeded_url, autocommit=True) as connection:
        for block in BLOCKS:
            cursor = connection.execute(block)
            while cursor.nextset():
                pass
            if cursor.description is None:  # `set …`
                continue
            rows = cursor.fetchall()
            assert rows, f"no answer to:\n{block}"
            assert "Nobody may see this." not in str(rows)


async def test_the_answers_are_the_right_ones(seeded_url: str) -> None:
    answers = {
        "as superseded": "drinks green tea",
        "as_of('demo'": "hurt her left calf",
        "memory_id = 'demo-race'": "Two hours and four minutes",
        "ilike": "严重过敏",
        "query = 'What did": "half marathon",
        "jsonb_each": "superseded_by",
        "task_scoreboard": "invoice",
        "reme.workspace w": "neighbour",
        "usage_by_day": "embed_passage",
    }
    with psycopg.connect(seeded_url, autocommit=True) as connection:
        for part, answer in answers.items():
            (block,) = [block for block in BLOCKS if part in block]
            connection.execute("set role reme_service; set reme.workspace = 'demo'")
            cursor = connection.execute(block)
            while cursor.nextset():
                pass
            assert answer in str(cursor.fetchall()), block
