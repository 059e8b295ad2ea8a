"""How far a model's observations are believed: small models err in slots far more often than in words.

A wrong slot would close what is true, and without any the statement is kept all the same. So a slot that the words do
not bear out is left out, and where rules have read the same words, theirs counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from reme_core.ops.personal.claims import SINGLE, TASTE
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
    if name == "home" and language_of(spoken) in ("en", "zh") and not _LIVING.search(spoken):
        return ""  # a visit
    if name in SINGLE or (name == TASTE and value.strip()):
        return name
    return f"allergy:{value.strip().lower()}" if name.startswith("allergy") and value.strip() else ""


def stands_alone(content: str) -> bool:
    """Whether a statement can be understood without what was said around it; a question is no statement.

    >>> stands_alone("The user loves Leipzig"), stands_alone("The user loves it"), stands_alone("Who is it?")
    (True, False, False)
    """
    return bool(content) and not _DANGLING.search(content)


def has_ended(told: bool, spoken: str) -> bool:
    """Whether something has ended, as a model says, and as far as we know the language the words do, too.

    >>> has_ended(True, "I drink coffee"), has_ended(True, "I gave up coffee"), has_ended(True, "Я больше не пью кофе")
    (False, True, True)
    """
    return told and (language_of(spoken) not in ("en", "zh") or bool(_ENDINGS.search(spoken)))


def in_slot(memory: Memory, read: Sequence[Memory]) -> Memory | None:
    """A model's statement in the slot of the claim that rules read in the same words, so that what ends it is noticed.

    Nothing is given, and what the rules read stands alone, where the statement only says a part of that, where it takes
    a part of it for something else, and where it holds claims about several things, of which none could be closed.

    Args:
        memory: The model's statement.
        read: What the rules read in the same messages.
    """
    sources = {source.id for source in memory.sources}
    near = [m for m in read if sources & {source.id for source in m.sources}]
    twin = next((m for m in near if _plain(m.content) == _plain(memory.content)), None)
    if twin is None and any(_is_part(memory.content, m.content) for m in near):
        return None
    claims = {m.metadata["slot"]: m for m in near if m.metadata.get("slot")}
    held = [twin] if twin else [m for m in claims.values() if _says(memory.content, str(m.metadata.get("value", "")))]
    if len(held) > 1:
        return None
    if held:
        taken = ("kind", "importance", "valid_from", "valid_until", "metadata")
        return memory.model_copy(update={name: getattr(held[0], name) for name in taken})
    name, value = (str(memory.metadata.get(key, "")) for key in ("slot", "value"))
    if name not in ("", *claims) and any(_says(m.content, value) for m in near):
        return None
    return memory


def _is_part(less: str, more: str) -> bool:
    # Without what both begin with, the person: "the user died" is a part of "the user's dog died".
    shared = next((place for place, pair in enumerate(zip(less, more, strict=False)) if len(set(pair)) > 1), len(less))
    return set(terms(less[shared:])) < set(terms(more[shared:]))


def _says(content: str, value: str) -> bool:
    """Whether a statement holds a value; words of scripts without spaces are not told apart by their neighbours."""
    wanted = set(terms(value))
    return bool(wanted) and (wanted <= set(terms(content)) or (language_of(value) in _UNSPACED and value in content))


def _plain(content: str) -> str:
    return re.sub(r"\W+", " ", content).casefold().strip()


_UNSPACED: Final = ("zh", "ja")
_OTHERS: Final = re.compile(
    # "The user's yacht is called Bella" names no user; "the user's name is Ada" does.
    r"(?:'s|’s)\s+(?!(?:\w+\s+)?(?:name|birthday|birth|age|home|hometown|address|flat|house|apartment|job|work|profession"
    r"|occupation|employer|company|school|university|college|diet|marital|status|origin|favou?rite|hobb(?:y|ies)|habits?"
    r"|taste|passion|language)\b)"
    r"|的(?!名字|姓名|生日|年龄|年纪|家|住|地址|职业|工作|单位|公司|雇主|学校|大学|饮食|婚姻|籍贯|老家|故乡|最爱|爱好|兴趣|习惯|口味|语言)"
    r"|(?:妻子|老婆|丈夫|老公|[男女]朋?友|[儿孙]子|女儿|孩子|宝宝|[姐妹哥弟爸妈]{1,2}|[父母]亲|父母|[爷奶]{2}|外[公婆]|叔叔|阿姨|舅舅|姑姑"
    r"|表[姐妹哥弟]|朋友|闺蜜|同事|同学|室友|邻居|老板|上司|老师|医生|小?[猫狗])"
)
_DANGLING: Final = re.compile(r"\b(?:it|this|that|them|there|so)$|[它这那]个?$|[这那][里样]$|[?？]$", re.IGNORECASE)
_LIVING: Final = re.compile(
    r"\b(?:liv(?:e|es|ed|ing)|home|house|flat|apartment|mov(?:e|ed|ing)|settled?|based|resid\w+|rent\w*|place|relocat\w+)\b"
    r"|[住搬租家]|公寓|房子|定居",
    re.IGNORECASE,
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
