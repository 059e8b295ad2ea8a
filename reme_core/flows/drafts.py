"""Drafts: memories that were extracted and are not stored yet, each with the evidence it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reme_core.ops.identity import episode_id, stable_id
from reme_core.ops.transcript import condense
from reme_core.schema import Kind, Memory, Message, Source, Trajectory

RULES = "rules"
"""The author of what no model wrote."""
MAX_SOURCES = 20
MAX_QUOTE = 200
"""Characters of a message that are kept as evidence, so that a memory can be judged without its conversation."""


def draft(
    when_to_use: str,
    content: str,
    *,
    trajectories: Sequence[Trajectory],
    evidence: Sequence[Message],
    author: str,
    confidence: float,
    step_type: str = "",
    tags: Sequence[str] = (),
    tools: Sequence[str] = (),
) -> Memory:
    """A task memory on its way to the store.

    Its id follows from its words, so that two writers who learn the same at the same time store it once. It was
    observed when the last message of its evidence was said.

    Args:
        when_to_use: The situation in which it helps.
        content: What to do, or to avoid.
        trajectories: The attempts it comes from.
        evidence: The messages it rests on.
        author: Who made it: a model's name, or `rules`.
        confidence: How sure its author is, 0 to 1.
        step_type: What sort of lesson: `success`, `failure`, `fix`, `comparison`, or the model's own word.
        tags: Words it should also be found by.
        tools: Tools it speaks of.
    """
    metadata: dict[str, Any] = {
        "tags": list(tags),
        "confidence": confidence,
        "step_type": step_type,
        "tools_used": list(dict.fromkeys(tools)),
        "trajectory_scores": [t.score for t in trajectories],
    }
    quoted = [Source(kind="message", id=m.message_id, quote=_quote(m)) for m in evidence[:MAX_SOURCES]]
    attempts = [Source(kind="episode", id=episode_id(t)) for t in trajectories]
    return Memory(
        memory_id=stable_id(Kind.TASK, when_to_use, content),
        kind=Kind.TASK,
        subject=trajectories[0].task_id if trajectories else "",
        when_to_use=when_to_use,
        content=content,
        keywords=list(dict.fromkeys([*tags, *tools])),
        observed_at=max((m.sent_at for m in _timed(evidence)), default=None),
        author=author,
        sources=list({(s.kind, s.id): s for s in [*quoted, *attempts]}.values()),
        metadata=metadata,
    )


def _timed(messages: Sequence[Message]) -> Sequence[Message]:
    """Those whose time was told, where any was: a missing time is taken for now, which says nothing of when it was."""
    return [m for m in messages if "sent_at" in m.model_fields_set] or messages


def _quote(message: Message) -> str:
    # Of a call only the tool's name: its arguments may hold secrets.
    calls = ", ".join(f"{call.name}(…)" for call in message.tool_calls)
    return condense(f"{message.content} {calls}".replace("\0", ""), MAX_QUOTE)


def confidence_of(memory: Memory) -> float:
    """How sure its author was; 0.5 where that is not told. Libraries keep it one level down, in `extra_info`."""
    nested = memory.metadata.get("extra_info")
    told = memory.metadata.get("confidence", nested.get("confidence") if isinstance(nested, dict) else None)
    return float(told) if isinstance(told, int | float) and not isinstance(told, bool) else 0.5
