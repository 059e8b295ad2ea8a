"""Which stored statements may be concerned by new ones: those in the same slot, and those nearest in meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from reme_core.models import ChatModel
from reme_core.ops.deps import Deps
from reme_core.ops.personal.claims import slot_of
from reme_core.ops.personal.relations import Relation, undecided
from reme_core.ops.transcript import language
from reme_core.prompts import prompt
from reme_core.schema import PERSONAL_KINDS, Kind, Memory, Message
from reme_core.store.filters import Filters
from reme_core.store.recall import Plan, Question, recall_memories
from reme_core.text.fence import fenced

Vectors = npt.NDArray[np.float32]

STATED: Final = [str(kind) for kind in PERSONAL_KINDS if kind != Kind.INSIGHT]
"""Kinds that people state; insights follow from these and are reflected upon, not stated."""
_NEAREST: Final = 20
_IN_SLOT: Final = 500
_JUDGED: Final = 5
"""Neighbours of one statement that a model is asked about."""
_QUESTIONS: Final = 8
"""Statements that one question to the model is about."""


async def around(workspace: str, drafts: Sequence[Memory], vectors: Vectors, deps: Deps) -> dict[str, list[Memory]]:
    """For each draft, by id, the active statements about its subject that it may concern, nearest first."""
    embedder = await deps.serving.embedder(workspace)
    in_slot: dict[str, list[Memory]] = {}
    for slot in {slot_of(draft.metadata).name for draft in drafts} - {""}:
        in_slot[slot] = await deps.memories.list(
            workspace, Filters(kinds=STATED, metadata={"slot": slot}), limit=_IN_SLOT
        )
    found = {}
    for draft, vector in zip(drafts, vectors, strict=True):
        question = Question(workspace, draft.content, vector, embedder.name, _NEAREST)
        hits = await recall_memories(deps.database, question, Filters(kinds=STATED), Plan())
        near = sorted(hits, key=lambda hit: -(hit.parts.similarity or 0))
        both = [*(hit.memory for hit in near), *in_slot.get(slot_of(draft.metadata).name, ())]
        # What was added by hand has no subject, and may be about anybody here.
        own = {m.memory_id: m for m in both if m.subject in (draft.subject, "")}
        found[draft.memory_id] = list(own.values())
    return found


class _Judgement(BaseModel):
    new: int = Field(description="The number of the newer statement")
    old: int = Field(description="The number of the older statement")
    # Asked for, but not insisted on: whoever names first what a pair is about judges it better.
    about: str = Field("", description="What both speak of, in one to three words")
    relation: Literal["same", "contained", "fuller", "contradicts", "none"]

    model_config = ConfigDict(json_schema_extra={"required": ["new", "old", "about", "relation"]})


class _Judgements(BaseModel):
    relations: list[_Judgement]


async def judge(
    pairs: Mapping[str, Sequence[Memory]], news: Mapping[str, Memory], deps: Deps, chat: ChatModel
) -> dict[tuple[str, str], Relation]:
    """Ask the model what newer statements are to older ones, where rules leave that open.

    Args:
        pairs: By the id of a newer statement, the older ones that it may repeat or contradict, nearest first.
        news: The newer statements by id.
        deps: For the language.
        chat: The model.

    Returns:
        Relations other than `none`, by the ids of the newer and the older statement.
    """
    open_pairs = {key: [old for old in olds if undecided(news[key], old)][:_JUDGED] for key, olds in pairs.items()}
    asked = [memory_id for memory_id, olds in open_pairs.items() if olds]
    judged: dict[tuple[str, str], Relation] = {}
    for at in range(0, len(asked), _QUESTIONS):
        numbered: list[tuple[str, str]] = []
        lines = []
        for number, memory_id in enumerate(asked[at : at + _QUESTIONS], 1):
            lines.append(f"{_dated(news[memory_id], f'New {number}')}")
            for old in open_pairs[memory_id]:
                numbered.append((memory_id, old.memory_id))
                lines.append(f"  {_dated(old, f'Old {len(numbered)}')}")
        spoken = [Message(content=news[memory_id].content) for memory_id in asked]
        request = prompt(
            "personal/contra_repeat", language(deps.language, spoken), statements=fenced("\n".join(lines), "statements")
        )
        answer = await chat.structured(request, _Judgements, purpose="contra_repeat")
        for relation in answer.relations:
            if 0 < relation.old <= len(numbered) and relation.relation != "none":
                judged[numbered[relation.old - 1]] = relation.relation
    return judged


def _dated(memory: Memory, title: str) -> str:
    day = f" ({memory.observed_at:%Y-%m-%d})" if memory.observed_at else ""
    return f"{title}{day}: {memory.content}"
