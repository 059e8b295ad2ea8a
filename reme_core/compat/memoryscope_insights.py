"""MemoryScope's reflection by a chat model: insights from observations that belong together, with their evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field

from reme_core.compat.memoryscope_forgetting import MOST, day_said, filters_about, memories_about, time_said
from reme_core.flows.deps import Deps
from reme_core.flows.parallel import parallel
from reme_core.flows.registry import op
from reme_core.models import ChatModel
from reme_core.personal.grounding import inventions
from reme_core.personal.state import PersonalState, add_to_result
from reme_core.prompts import phrase, prompt
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import condense, language, person_of
from reme_core.store.change import Change, Close
from reme_core.store.filters import Filters
from reme_core.store.libraries.format import WIRE_KEY
from reme_core.text.ids import stable_id
from reme_core.types import Kind, Memory, Message, Source, scope_of

_OBSERVED = (Kind.OBSERVATION, Kind.CUSTOM)
_REFLECTED = "reflected"
_ANSWER_TOKENS = 400


class _Subjects(BaseModel):
    subjects: list[str]


class _Insight(BaseModel):
    content: str
    evidence: list[int] = Field(default_factory=list)


@op(uses={"user_name"}, writes={"subjects"})
async def get_reflection_subject(
    state: PersonalState, deps: Deps, *, least_unreflected: int = 6, new_subjects: int = 1
) -> None:
    """Find sides of a person that observations tell about, and that no insight is about yet.

    Args:
        least_unreflected: How many observations there have to be since the last reflection (MemoryScope's 6).
        new_subjects: How many new sides one reflection takes up.
    """
    fresh = [m for m in await memories_about(state, deps, _OBSERVED) if not _is_reflected(m)]
    if deps.chat is None or len(fresh) < least_unreflected:
        return  # joining statements without understanding them is no insight
    known = [_side_of(insight) for insight in await memories_about(state, deps, [Kind.INSIGHT])]
    speech = language(deps.language, [m.content for m in fresh])
    request = prompt(
        "personal/get_reflection_subject",
        speech,
        person=person_of(state.user_name) or phrase("person", speech),
        observations=fence(_number_lines(fresh, deps), "observations"),
        known=fence(", ".join(filter(None, known)) or "-", "known"),
        most=new_subjects,
    )
    answer = await deps.chat.complete_as(
        request, _Subjects, purpose="get_reflection_subject", max_tokens=_ANSWER_TOKENS
    )
    taken = {attribute.casefold() for attribute in (*known, "")}  # and no empty subject
    found = dict.fromkeys(s.strip() for s in answer.subjects if s.strip().casefold() not in taken)
    state.subjects = list(found)[:new_subjects]
    state.report["subjects"] = state.subjects


@op(reads={"subjects"}, uses={"user_name"}, writes={"memories", "closing", "update_result"})
async def update_insight(state: PersonalState, deps: Deps, *, nearest: int = 5, most: int = MOST) -> None:
    """Form an insight for each new subject, and bring the others up to date with what has been observed since.

    An insight is made of the observations nearest to it, and links to them. A new wording supersedes the old one.

    Args:
        nearest: Observations that an insight is made from (MemoryScope's 5).
        most: How many stored insights are brought up to date, the newest.
    """
    if deps.chat is None:
        return
    chat, version = deps.chat, await deps.memories.version(state.workspace_id)
    observed = {m.memory_id: m for m in await memories_about(state, deps, _OBSERVED)}
    insights = await memories_about(state, deps, [Kind.INSIGHT])
    fresh = {memory_id for memory_id, m in observed.items() if not _is_reflected(m)}
    topics: list[tuple[str, Memory | None]] = [(subject, None) for subject in state.subjects]
    topics += [(_side_of(insight), insight) for insight in insights[:most]]
    change = Change(expected_version=version)

    async def renew(attribute: str, old: Memory | None) -> Memory | None:
        near = await _near(attribute, old, observed, nearest, state, deps)
        # Without anything new there is nothing to add to an insight.
        if not near or (old is not None and not fresh & {m.memory_id for m in near}):
            return None
        return await _write(attribute, old, near, state, deps, chat)

    written = await parallel(renew(attribute, old) for attribute, old in topics)
    renewed = [
        (new, old)
        for new, (_, old) in zip(written, topics, strict=True)
        if new is not None and (old is None or new.content != old.content)
    ]
    change.add = await _never_stored([new for new, _ in renewed], state, deps)
    change.close = [
        Close(old.memory_id, "superseded", new.memory_id)
        for new, old in renewed
        if old is not None and new in change.add
    ]
    if change.add:
        # A new subject was found by looking at all fresh observations, so that all of them count as reflected upon.
        used = {source.id for one in change.add for source in one.sources} | (fresh if state.subjects else set())
        change.annotate = {memory_id: {_REFLECTED: True} for memory_id in sorted(used & fresh)}
        await deps.memories.apply(state.workspace_id, change, actor=deps.flow, reason="reflected upon")
    add_to_result(state, change)


def _is_reflected(observation: Memory) -> bool:
    """Whether insights were drawn from an observation, here or by MemoryScope before it was loaded."""
    return bool(observation.metadata.get(_REFLECTED) or _as_loaded(observation).get("obs_reflected"))


def _side_of(insight: Memory) -> str:
    """The side of the person that an insight is about; empty if a caller made it, whose metadata may hold anything."""
    loaded = _as_loaded(insight)
    # The names of ReMe 0.1 and of MemoryScope come after ours.
    sides = (insight.metadata.get("attribute"), loaded.get("reflection_subject"), loaded.get("key"))
    return next((side for side in sides if side and isinstance(side, str)), "")


def _as_loaded(memory: Memory) -> Mapping[str, Any]:
    """What a memory had in fields of the system that it was loaded from."""
    kept = memory.metadata.get(WIRE_KEY)
    return kept if isinstance(kept, dict) else {}


async def _near(
    attribute: str, old: Memory | None, observed: dict[str, Memory], nearest: int, state: PersonalState, deps: Deps
) -> list[Memory]:
    query = f"{attribute} {old.content if old else ''}".strip()
    if not query:
        return []
    # More than are needed: older ones than those that one reflection looks at are among the hits.
    hits = (
        await deps.recall(state.workspace_id, query, filters_about(state, _OBSERVED), limit=4 * nearest, flow=deps.flow)
    ).memories
    return sorted([observed[m.memory_id] for m in hits if m.memory_id in observed][:nearest], key=time_said)


async def _write(
    attribute: str, old: Memory | None, near: Sequence[Memory], state: PersonalState, deps: Deps, chat: ChatModel
) -> Memory | None:
    speech = language(deps.language, [m.content for m in near])
    person = person_of(state.user_name) or phrase("person", speech)
    request = prompt(
        "personal/update_insight",
        speech,
        subject=fence(attribute, "subject"),
        before=fence(old.content if old else "-", "before"),
        person=person,
        observations=fence(_number_lines(near, deps), "observations"),
    )
    answer = await chat.complete_as(request, _Insight, purpose="update_insight", max_tokens=_ANSWER_TOKENS)
    content = answer.content.strip()
    # An insight without evidence is taken to rest on all that the model was shown.
    used = [near[n - 1] for n in dict.fromkeys(answer.evidence) if 0 < n <= len(near)] or list(near)
    # The observations, and the old wording, stand for the messages that an insight has to be borne out by.
    grounds = [Message(content=m.content, sent_at=time_said(m)) for m in [*used, *([old] if old else [])]]
    if not content or inventions(content, grounds, [person], deps.settings.timezone):
        return None
    sources = [Source(kind="memory", id=m.memory_id, quote=condense(m.content, 200)) for m in used]
    kept = [s for s in old.sources if s.id not in {m.memory_id for m in used}] if old else []
    return Memory(
        memory_id=stable_id("insight", state.user_name, attribute, content, [s.id for s in sources]),
        kind=Kind.INSIGHT,
        subject=state.user_name,
        content=content,
        keywords=[attribute],
        importance=0.7,
        observed_at=max((m.observed_at for m in used if m.observed_at), default=None),
        author=chat.name,
        sources=[*sources, *kept],
        metadata={"attribute": attribute},
        **scope_of(near),
    )


async def _never_stored(memories: Sequence[Memory], state: PersonalState, deps: Deps) -> list[Memory]:
    """Those of some memories that were never stored: what was closed is not concluded again from the same evidence."""
    ids = [memory.memory_id for memory in memories]
    known = await deps.memories.list(state.workspace_id, Filters(ids=ids, status=None), limit=len(ids))
    taken = {memory.memory_id for memory in known}
    return [memory for memory in memories if memory.memory_id not in taken]


def _number_lines(memories: Sequence[Memory], deps: Deps) -> str:
    lines = [" ".join(filter(None, (day_said(memory, deps), memory.content))) for memory in memories]
    return "\n".join(f"[{number}] {line}" for number, line in enumerate(lines, 1))
