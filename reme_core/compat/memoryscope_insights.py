"""Reflection: insights from observations that belong together, each linked to what it rests on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial

from pydantic import BaseModel, Field

from reme_core.ops.beside import side_by_side
from reme_core.ops.deps import Deps
from reme_core.ops.drafts import RULES
from reme_core.ops.identity import stable_id
from reme_core.ops.personal.grounding import unsupported
from reme_core.ops.personal.statements import keywords_of, person_of
from reme_core.ops.personal.upkeep import MOST, is_about, said_at, tell
from reme_core.ops.registry import op
from reme_core.ops.state import SummaryState
from reme_core.ops.transcript import condense, language
from reme_core.prompts import Language, phrase, prompt
from reme_core.schema import Kind, Memory, Message, Source
from reme_core.store.change import Change, Close
from reme_core.store.filters import Filters
from reme_core.text.fence import fenced
from reme_core.text.terms import terms

_REFLECTED = "reflected"
_OF_RULES = 3
"""Observations that have to share a theme before the rules call it one; MemoryScope's prompts ask for as many."""


class _Subjects(BaseModel):
    subjects: list[str]


class _Insight(BaseModel):
    content: str
    evidence: list[int] = Field(default_factory=list)


@op(uses={"user_name"}, writes={"subjects"})
async def get_reflection_subject(
    state: SummaryState, deps: Deps, *, least_unreflected: int = 6, new_subjects: int = 1
) -> None:
    """Find sides of a person that their observations tell about, and that no insight is about yet.

    Args:
        state: Reads `user_name`.
        deps: Uses `memories` and `chat`.
        least_unreflected: Observations that have to have gathered since the last reflection (MemoryScope's 6).
        new_subjects: How many new sides one reflection takes up.
    """
    fresh = [m for m in await _observations(state, deps) if not m.metadata.get(_REFLECTED)]
    if len(fresh) < least_unreflected:
        return
    known = [insight.metadata.get("attribute", "") for insight in await _insights(state, deps)]
    if deps.chat is None:
        found = _themes(fresh, known)
    else:
        speech = _language(fresh, deps)
        request = prompt(
            "personal/get_reflection_subject",
            speech,
            person=person_of(state.user_name) or phrase("person", speech),
            observations=fenced(_numbered(fresh), "observations"),
            known=fenced(", ".join(filter(None, known)) or "-", "known"),
            most=new_subjects,
        )
        answer = await deps.chat.structured(request, _Subjects, purpose="get_reflection_subject")
        taken = {attribute.casefold() for attribute in (*known, "")}
        found = [s.strip() for s in answer.subjects if s.strip().casefold() not in taken]
    state.subjects = found[:new_subjects]
    state.report["subjects"] = state.subjects


@op(reads={"subjects"}, uses={"user_name"}, writes={"memories", "closing", "update_result"})
async def update_insight(state: SummaryState, deps: Deps, *, nearest: int = 5) -> None:
    """Form an insight for each new subject, and bring the others up to date with what has been observed since.

    An insight is made of the observations nearest to it, to which it links. A new wording supersedes the old one.

    Args:
        state: Reads `subjects`.
        deps: Uses `recall`, `memories` and `chat`.
        nearest: Observations that an insight is made from (MemoryScope's 5).
    """
    version = await deps.memories.version(state.workspace_id)
    observed = {m.memory_id: m for m in await _observations(state, deps)}
    fresh = {memory_id for memory_id, m in observed.items() if not m.metadata.get(_REFLECTED)}
    topics: list[tuple[str, Memory | None]] = [(subject, None) for subject in state.subjects]
    topics += [(str(i.metadata.get("attribute", "")), i) for i in await _insights(state, deps)]
    change = Change(add=[], close=[], decided_after=version)
    add, close = [], []

    async def bring_up(attribute: str, old: Memory | None) -> tuple[Memory | None, Memory | None]:
        near = await _near(attribute, old, observed, nearest, state, deps)
        # Without anything new there is nothing to add to an insight.
        if not near or (old is not None and not fresh & {m.memory_id for m in near}):
            return None, old
        return await _written(attribute, old, near, state, deps), old

    for insight, old in await side_by_side([partial(bring_up, attribute, old) for attribute, old in topics]):
        if insight is None or (old is not None and insight.content == old.content):
            continue
        add.append(insight)
        if old is not None:
            close.append(Close(old.memory_id, "superseded", insight.memory_id))
    change.add, change.close = add, close
    if add:
        used = {source.id for insight in add for source in insight.sources} | (fresh if state.subjects else set())
        change.annotate = {memory_id: {_REFLECTED: True} for memory_id in sorted(used & fresh)}
        await deps.memories.apply(state.workspace_id, change, actor=deps.flow, reason="reflected upon")
    tell(state, change)


async def _observations(state: SummaryState, deps: Deps) -> list[Memory]:
    kinds = [str(Kind.OBSERVATION), str(Kind.CUSTOM)]
    found = await deps.memories.list(state.workspace_id, Filters(kinds=kinds), limit=MOST)
    return [memory for memory in found if is_about(memory, state)]


async def _insights(state: SummaryState, deps: Deps) -> list[Memory]:
    found = await deps.memories.list(state.workspace_id, Filters(kinds=[str(Kind.INSIGHT)]), limit=MOST)
    return [memory for memory in found if is_about(memory, state)]


async def _near(
    attribute: str, old: Memory | None, observed: dict[str, Memory], nearest: int, state: SummaryState, deps: Deps
) -> list[Memory]:
    query = f"{attribute} {old.content if old else ''}".strip()
    if not query:
        return []
    if deps.chat is None:
        # The rules' themes are single terms, so what belongs to one is what holds it.
        theme = set(terms(attribute))
        return sorted((m for m in observed.values() if theme <= set(terms(m.content))), key=said_at)[-nearest:]
    kinds = [str(Kind.OBSERVATION), str(Kind.CUSTOM)]
    hits = (await deps.recall(state.workspace_id, query, kind=kinds, limit=4 * nearest, flow=deps.flow)).memories
    return sorted([observed[m.memory_id] for m in hits if m.memory_id in observed][:nearest], key=said_at)


async def _written(
    attribute: str, old: Memory | None, near: Sequence[Memory], state: SummaryState, deps: Deps
) -> Memory | None:
    speech = _language(near, deps)
    if deps.chat is None:
        if len(near) < _OF_RULES:
            return None
        told = phrase("insight_join", speech).join(m.content.rstrip("。.") for m in near)
        content, used, author = phrase("insight", speech, theme=attribute, told=told), list(near), RULES
    else:
        person = person_of(state.user_name) or phrase("person", speech)
        request = prompt(
            "personal/update_insight",
            speech,
            subject=fenced(attribute, "subject"),
            before=fenced(old.content if old else "-", "before"),
            person=person,
            observations=fenced(_numbered(near), "observations"),
        )
        answer = await deps.chat.structured(request, _Insight, purpose="update_insight")
        content, author = answer.content.strip(), deps.chat.name
        chosen = [near[n - 1] for n in dict.fromkeys(answer.evidence) if 0 < n <= len(near)]
        used = chosen or list(near)
        grounds = [
            Message(content=m.content, sent_at=m.observed_at or m.created_at) for m in [*used, *([old] if old else [])]
        ]
        if not content or unsupported(content, grounds, person=person, timezone=deps.settings.timezone):
            return None
    sources = [Source(kind="memory", id=m.memory_id, quote=condense(m.content, 200)) for m in used]
    kept = [s for s in old.sources if s.id not in {m.memory_id for m in used}] if old else []
    return Memory(
        memory_id=stable_id("insight", state.user_name, attribute, content, [s.id for s in sources]),
        kind=Kind.INSIGHT,
        subject=state.user_name,
        content=content,
        keywords=keywords_of(f"{attribute} {content}"),
        importance=0.7,
        observed_at=max((m.observed_at for m in used if m.observed_at), default=None),
        author=author,
        sources=[*sources, *kept],
        metadata={"attribute": attribute},
    )


def _themes(observed: Sequence[Memory], known: Sequence[str]) -> list[str]:
    """Words that at least three observations share, the most frequent first."""
    named = {term for attribute in known for term in terms(attribute)}
    counts: Counter[str] = Counter()
    spelled: dict[str, str] = {}
    for memory in observed:
        counts.update(set(terms(memory.content)) - _NO_THEMES - named)
        spelled.update({stem: word.lower() for word in _WORDS.findall(memory.content) for stem in terms(word)})
    shared = [term for term, count in counts.items() if count >= _OF_RULES and len(term) > 1 and not term.isdigit()]
    ordered = sorted(shared, key=lambda term: (-counts[term], -len(term), term))
    return [spelled.get(term, term) for term in ordered]


_WORDS = re.compile(r"[^\W\d_]+")
_NO_THEMES = frozenset(
    terms(
        "user like love enjoy usually often every morning evening go went day week month year 用户 喜欢 每天 经常 户喜"
    )
)


def _numbered(memories: Sequence[Memory]) -> str:
    return "\n".join(
        f"[{number}] {m.observed_at:%Y-%m-%d} {m.content}" if m.observed_at else f"[{number}] {m.content}"
        for number, m in enumerate(memories, 1)
    )


def _language(memories: Sequence[Memory], deps: Deps) -> Language:
    return language(deps.language, [Message(content=m.content) for m in memories])
