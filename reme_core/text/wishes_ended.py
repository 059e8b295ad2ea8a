"""What ends an earlier wish: a permission ("you may use emojis again"), or another name or language ("no, call me Bo").

Only what leaves no doubt which wish is meant. Of other wishes that contradict each other, the reader of a note judges.
"""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

import re
from typing import Final

from reme_core.text.forgetting import names_topic
from reme_core.text.regex import any_of, regex
from reme_core.text.signs import simplify


def allows_again(sentence: str) -> str:
    """What a sentence allows again; empty if it allows nothing that was forbidden.

    >>> allows_again("fine, you may use emojis again"), allows_again("你可以继续用表情了"), allows_again("you can ask again")
    ('emojis', '表情', '')
    """
    match = _AGAIN.search(sentence)
    return (match["what"] or match["what_zh"]).strip() if match else ""


def takes_back(sentence: str) -> bool:
    """Whether a sentence takes back a wish, so that the opposite is wished.

    >>> takes_back("ok you can answer in English again"), takes_back("you can ask again")
    (True, False)
    """
    return bool(allows_again(sentence) or _OTHER_LANGUAGE.fullmatch(sentence.strip()))


def ends(said: str, wish: str) -> bool:
    """Whether somebody who says something ends a wish of their own thereby.

    >>> ends("you may use emojis again", "Never use emojis."), ends("you may use emojis again", "Use emojis.")
    (True, False)
    >>> ends("sorry no, call me Robbie", "Call me Bobby from now on."), ends("不对，叫我小黄", "以后叫我小王")
    (True, True)
    >>> ends("ok you can answer in English again", "answer in French from now on"), ends("算了，还是用中文吧", "以后用英文回答")
    (True, True)
    """
    said, wish = simplify(said), simplify(wish)
    if allowed := allows_again(said):
        return bool(_FORBIDS.search(wish)) and names_topic(allowed, wish)
    pairs = (_OTHER_NAME, _NAME), (_OTHER_LANGUAGE, _LANGUAGE)
    return any(new.fullmatch(said.strip()) and old.fullmatch(wish.strip()) for new, old in pairs)


_USE: Final = r"(?:use|using|send|write|add|include|make|tell me|give me|suggest|recommend|mention)"
_AGAIN: Final = regex(
    rf"^(?:(?:ok(?:ay)?|fine|well|so|actually|alright|yes|yeah|now|please)[,.!\s]+)*(?:you|u) (?:can|may|could|are allowed to) (?:now )?{_USE} (?!(?:my|our|the)\b)(?P<what>[^.!?;,]+?) again\b(?: now| please| if you (?:like|want))?[.!\s]*$"
    r"|^(?:好吧?|行|算了|现在|那)*[，,\s]*[你您]?(?:现在|又)?可以(?:继续|重新|再|又|接着)(?:使?用|发|加|提|推荐)(?P<what_zh>[^，。！？,]{1,12}?)了?[。！\s]*$",
    re.IGNORECASE,
)
_FORBIDS: Final = any_of(
    r"\b(?:never|don't|dont|do not|no|no more|stop|avoid|without|quit)\b",
    r"别|不要|不许|不准|不用",
)
_CALLED: Final = r"(?:call me [\w'-]+(?: [A-Z][\w'-]*)?|[你您]?(?:就)?叫我[^，。！？,的]{1,8}?)"
_CALLS: Final = rf"(?:(?:please|from now on|以后|从现在起|从现在开始|请|就)[,，\s]*)*{_CALLED}(?:,? (?:please|from now on)|就行|就好|吧)*[.!。！]*"
_NAME: Final = regex(_CALLS, re.IGNORECASE)
_OTHER_NAME: Final = regex(
    rf"(?:(?:no|sorry|oops|wait|actually|i meant|scrap that|不对|不是|错了|算了|还是)[,，.\s]*)+{_CALLS}", re.IGNORECASE
)
_TONGUE: Final = r"(?:answer|reply|respond|speak|talk|write)(?: to me| me)? in [a-z]+"
_LANGUAGE: Final = regex(
    rf"(?:(?:please|always|from now on|just),?\s+)*{_TONGUE}(?:,? (?:please|from now on|always))*[.!\s]*"
    r"|(?:(?:以后|从现在起|从现在开始|请|都|一直)[,，\s]*)*用[\u4e00-\u9fff]{1,4}[语文话](?:回答|回复|跟我说|和我说)?我?吧?[。！\s]*",
    re.IGNORECASE,
)
_OTHER_LANGUAGE: Final = regex(
    rf"(?:(?:ok(?:ay)?|fine|alright|actually|now),?\s+)*(?:you|u) (?:can|may) {_TONGUE} again(?: now| please)?[.!\s]*"
    r"|(?:算了|还是)[,，\s]*(?:还是)?用[\u4e00-\u9fff]{1,4}[语文话](?:回答|回复|跟我说|和我说)?我?吧[。！\s]*",
    re.IGNORECASE,
)
