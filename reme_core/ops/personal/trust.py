"""How far a model's observations are believed: small models err in slots far more often than in words.

A wrong slot would close what is true, and without any the statement is kept all the same. So a slot that the words do
not bear out is left out, and where rules have read the same words, theirs counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from reme_core.ops.personal.claims import SINGLE, TASTE, slot_of
from reme_core.schema import Memory
from reme_core.text.terms import language_of, terms


def slot_for(attribute: str, value: str, content: str, spoken: str, *, person: str) -> str:
    """The slot of an observation; empty where the model made it up, or nobody said its value, or it is another's.

    Args:
        attribute: What the model says that it is about.
        value: Its value, as the model says.
        content: The statement.
        spoken: What was said in the messages it rests on.
        person: What the statement calls its subject.

    >>> slot_for("home", "Oslo", "The user lives in Oslo", "My flat in Oslo is cold", person="The user")
    'home'
    >>> slot_for("home", "Oslo", "The user's sister lives in Oslo", "She lives in Oslo", person="The user")
    ''
    """
    name = attribute.strip().lower() if set(terms(spoken)).issuperset(terms(value)) else ""
    if name == "instruction":
        return name
    if _OTHERS.match(content.removeprefix(person)):
        return ""
    if name in SINGLE or (name == TASTE and value.strip()):
        return name
    return f"allergy:{value.strip().lower()}" if name.startswith("allergy") and value.strip() else ""


def has_ended(told: bool, spoken: str) -> bool:
    """Whether something has ended, as a model says, and as far as we know the language the words do, too.

    >>> has_ended(True, "I drink coffee"), has_ended(True, "I gave up coffee"), has_ended(True, "Я больше не пью кофе")
    (False, True, True)
    """
    return told and (language_of(spoken) not in ("en", "zh") or bool(_ENDINGS.search(spoken)))


def in_slot(memory: Memory, read: Sequence[Memory]) -> Memory | None:
    """A model's statement in the slot of the claim that rules read in the same words, so that what ends it is noticed.

    Nothing is given, and what the rules read stands alone, where the statement holds claims about several things, of
    which no part could be closed when it ceases to hold, and where it takes a part of a claim for something else.

    Args:
        memory: The model's statement.
        read: What the rules read in the same messages.
    """
    sources = {source.id for source in memory.sources}
    near = [m for m in read if sources & {source.id for source in m.sources}]
    claims = {m.metadata["slot"]: m for m in near if m.metadata.get("slot")}
    said = set(terms(memory.content))
    held = [m for m in claims.values() if (value := slot_of(m.metadata).value) and value <= said]
    if len(held) > 1:
        return None
    if held:
        taken = ("kind", "importance", "valid_from", "valid_until", "metadata")
        return memory.model_copy(update={name: getattr(held[0], name) for name in taken})
    own = slot_of(memory.metadata)
    if own.value and own.name not in claims and any(own.value <= set(terms(m.content)) for m in near):
        return None
    return memory


_OTHERS: Final = re.compile(
    r"(?:'s|’s)\s+(?:\w+\s+){0,2}?(?:(?:step|grand)?(?:sister|brother|mother|father|son|daughter|parent|child)|mom|mum|dad"
    r"|children|kid|wife|husband|partner|spouse|girlfriend|boyfriend|fianc[eé]e?|friend|boss|manager|colleague|coworker"
    r"|roommate|flatmate|neighbou?r|cousin|uncle|aunt|niece|nephew|family|teacher|doctor|dog|cat|pet|rabbit|parrot)s?\b"
    r"|的?(?:妻子|老婆|丈夫|老公|[男女]朋?友|[儿孙]子|女儿|孩子|宝宝|[姐妹哥弟爸妈]{1,2}|[父母]亲|父母|[爷奶]{2}|外[公婆]|叔叔|阿姨|舅舅|姑姑"
    r"|表[姐妹哥弟]|朋友|闺蜜|同事|同学|室友|邻居|老板|上司|老师|医生|[小]?[猫狗]|兔子|鹦鹉)"
)
_ENDINGS: Final = re.compile(
    r"\b(?:no|not|never|none|nor|without|stop\w*|quit\w*|g(?:ave|iven|iving) up|hate\w*|dislike\w*|left|leav\w+|lost"
    r"|died|dead|sold|over|finish\w*|end(?:s|ed)|br(?:oke|eak\w*) up|divorced?|cancel\w*|former\w*|used to|ex"
    r"|resign\w*|until|avoid\w*"
    # A short text in another language may pass for English.
    r"|kein\w*|nicht|nie|pas|jamais|plus|non|mai|più|nunca|jamás|ya no|não|niet|geen)\b|n['’]t\b"
    r"|[不没无未非戒别辞离丢死卖停退曾]|讨厌|放弃|去世|分手|结束|以前|过去|原来|取消|告别",
    re.IGNORECASE,
)
