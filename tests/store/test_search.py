"""What a caller may ask of a recall, and what is refused before the database is asked."""

from __future__ import annotations

import math

import pytest

from reme_core.engine import Engine
from reme_core.errors import InputError
from reme_core.types import Message


async def test_what_is_to_be_passed_over_is_not_found(reme: Engine) -> None:
    memories = await reme.memories.add("w", [f"Rex the dog, fact {n}" for n in range(6)])
    messages = await reme.record("w", [Message(content=f"Rex the dog, remark {n}") for n in range(6)], wait=True)
    for kind, ids in (
        (None, [memory.memory_id for memory in memories]),
        ("conversation", [message.message_id for message in messages]),
    ):
        said = "Rex the dog, fact 1" if kind is None else "Rex the dog, remark 1"
        found = await reme.recall("w", "Rex the dog", kind=kind, without=[ids[0], said], limit=5)
        assert {hit.memory.memory_id for hit in found.hits} == set(ids[2:])


@pytest.mark.parametrize("weight", [-1.0, 1e300, math.nan, math.inf])
async def test_a_weight_that_cannot_be_one_is_refused(reme: Engine, weight: float) -> None:
    await reme.memories.add("w", "Rex is a dog.")
    with pytest.raises(InputError, match="weight of kind 'observation'"):
        await reme.recall("w", "Rex", type_weights={"observation": weight})
    assert len(await reme.recall("w", "Rex", type_weights={"observation": 1e-39})) == 1


@pytest.mark.parametrize("kind", ["observations", "personal"])
async def test_the_weight_of_what_is_no_kind_is_refused(reme: Engine, kind: str) -> None:
    with pytest.raises(InputError, match=f"no kind '{kind}' to weigh; known are observation, "):
        await reme.recall("w", "Rex", type_weights={kind: 2.0})
