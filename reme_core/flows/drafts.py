"""Drafts: memories that are not stored yet, each with the evidence that it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reme_core.prompts.transcript import condense
from reme_core.text.ids import episode_id, stable_id
from reme_core.types import Kind, Memory, Message, Source, Trajectory, names_in, scope_of

RULES = "rules"
"""The author of memories that rules made, not a model."""
MAX_SOURCES = 20  # chosen, not measured: a list of quotes, of at most 4,000 characters, that a person can read
MAX_QUOTE = 200
"""Characters of a message that are kept as evidence: enough to judge a memory without its conversation."""


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
    """A task memory to be stored: what to do, or to avoid, in a situation.

    Its `observed_at` is the time of the last message of its evidence. The author is a model, or `rules`; the type is
    `success`, `failure`, `fix`, `comparison`, or a model's own word.
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
    scope = scope_of(evidence)
    # A message without a time gets the present one, which says nothing about when it was said.
    timed = [m for m in evidence if "sent_at" in m.model_fields_set] or evidence
    return Memory(
        # From its words and scope, so that two writers that learn the same at the same time store one memory.
        memory_id=stable_id(Kind.TASK, when_to_use, content, *names_in(scope).items()),
        kind=Kind.TASK,
        subject=trajectories[0].task_id if trajectories else "",
        when_to_use=when_to_use,
        content=content,
        keywords=list(dict.fromkeys([*tags, *tools])),
        observed_at=max((m.sent_at for m in timed), default=None),
        author=author,
        sources=list({(s.kind, s.id): s for s in [*quoted, *attempts]}.values()),
        metadata=metadata,
        **scope,
    )


def _quote(message: Message) -> str:
    # Only the names of tools that are called: the arguments may hold secrets.
    calls = ", ".join(f"{call.name}(…)" for call in message.tool_calls)
    return condense(f"{message.content} {calls}".replace("\0", ""), MAX_QUOTE)


def confidence_of(memory: Memory) -> float:
    """How sure its author was, 0 to 1; 0.5 if the memory does not say."""
    # Libraries of ReMe 0.1 keep it one level down.
    nested = memory.metadata.get("extra_info")
    told = memory.metadata.get("confidence", nested.get("confidence") if isinstance(nested, dict) else None)
    return float(told) if isinstance(told, int | float) and not isinstance(told, bool) else 0.5
