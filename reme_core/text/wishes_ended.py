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
from reme_core.text.terms import terms


def allows_again(sentence: str) -> str:
    """What a sentence allows again; empty if it allows nothing that was forbidden.

    >>> allows_again("fine, you may use emojis again"), allows_again("你可以继续用表情了"), allows_again("you can ask again")
    ('emojis', '表情', '')
    """
    match = _AGAIN.search(sentence)
    return (match["what"] or match["what_zh"]).strip() if match else ""


def ends(said: str, wish: str) -> bool:
    """Whether somebody who says something ends a wish of their own thereby.

    >>> ends("you may use emojis again", "Never use emojis."), ends("you may use emojis again", "Use emojis.")
    (True, False)
    >>> ends("sorry no, call me Robbie", "Call me Bobby from now on."), ends("不对，叫我小黄", "以后叫我小王")
    (True, True)
    >>> ends("ok you can answer in English again", "answer in French from now on"), ends("算了，还是用中文吧", "以后用英文回答")
    (True, True)
    """
    said, wish = simplify(said).strip(), simplify(wish)
    if (lifted := _LIFTS.fullmatch(said)) and _lifts(lifted.groupdict(), wish):
        return True
    if allowed := allows_again(said):
        return bool(_FORBIDS.search(wish)) and names_topic(allowed, wish)
    pairs = (_OTHER_NAME, _NAME), (_OTHER_LANGUAGE, _LANGUAGE), (_TO_LANGUAGE, _LANGUAGE)
    return any(new.fullmatch(said) and old.fullmatch(wish.strip()) for new, old in pairs)


def wishes_instead(sentence: str) -> bool:
    """Whether a sentence says what is wished instead of an earlier wish: another name, or another language.

    >>> wishes_instead("sorry no, call me Robbie"), wishes_instead("back to English please")
    (True, False)
    """
    plain = simplify(sentence[: _LONGEST + 1]).strip()
    return any(pattern.fullmatch(plain) for pattern in (_OTHER_NAME, _OTHER_LANGUAGE))


def may_end(sentence: str) -> bool:
    """Whether a sentence says that some wish no longer holds; without that wish it tells nothing.

    >>> may_end("ok emojis are fine again lol"), may_end("back to English please"), may_end("I am back to work again")
    (True, True, False)
    """
    plain = simplify(sentence[: _LONGEST + 1]).strip()
    if len(plain) > _LONGEST:
        return False
    # "Stop X" is a wish of its own, or none.
    ending = bool(allows_again(plain)) or any(pattern.fullmatch(plain) for pattern in (_LIFTS, _TO_LANGUAGE))
    return (ending and not _STOP.match(plain)) or wishes_instead(plain)


def _lifts(what: dict[str, str | None], wish: str) -> bool:
    """Whether something that is allowed, or no longer asked for, is all that a wish forbids, or asks for."""
    part = next((part for part in _SENTENCES.split(wish) if any(_is_in(words, part) for words in what.values())), None)
    if part is None:
        return False
    if what["stopped"] or what["stopped_zh"]:
        return not _FORBIDS.search(part)
    # "My back is fine again" and "food is fine again" may tell how something is.
    return bool(_FORBIDS.search(part)) and not (what["fine"] and _TALK_OF.search(part))


def _is_in(words: str | None, wish: str) -> bool:
    if words is None:
        return False
    if _HAN.search(words):
        return words in wish
    wanted = set(terms(words))
    return bool(wanted) and wanted <= set(terms(wish))


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
_LEAD: Final = (
    r"(?:(?:ok(?:ay)?|fine|well|so|actually|alright|yes|yeah|now|please|no|nah|hey|btw|good|great|thanks)[,.!\s]+)*"
)
# No question mark: "are emojis fine again?" allows nothing. Nor "but only in chats".
_TAIL: Final = r"(?:[,\s]+(?:again|now|any ?more|please|pls|thanks|thx|lol|haha|if (?:you|u) (?:like|want)|i guess|after all))*[^\w?？]*"
_LEAD_ZH: Final = r"(?:好[吧的了]?|行|算了|嗯|哦|那|现在|[你您]|[，,\s])*"
_LIFTS: Final = regex(
    rf"{_LEAD}(?:you|u) (?:can|may|could|are allowed to) (?:now |again )?(?:{_USE}|bring up|talk about|ask(?: me)? about|call me) (?P<allowed>[^.!?;,]+?){_TAIL}(?:, (?!but|only|if|when|except|unless|just|not)[^.!?;]+[.!]*)?"
    rf"|{_LEAD}(?P<fine>(?:\w+ ){{0,2}}\w+) (?:(?:is|are) )?(?:totally |perfectly )?(?:ok(?:ay)?|fine|allowed|welcome) (?:again|now){_TAIL}"
    rf"|{_LEAD}(?:(?:you|u) (?:don't|dont|do not) (?:have|need) to|(?:there's )?no need to|(?:(?:you|u) can )?(?:stop|quit)) (?P<stopped>[^.!?;,]+?){_TAIL}"
    rf"|{_LEAD_ZH}可以(?:继续|重新|再|又|接着)?(?:使?用|发|加|提|推荐|写|说|叫我)(?P<allowed_zh>[^，。！？,]{{1,12}}?)了[。！~\s]*"
    rf"|{_LEAD_ZH}(?P<fine_zh>[^，。！？,我你他她]{{1,8}}?)(?:现在|又)?可以(?:用|发|加|提|写|说)了[。！~\s]*"
    rf"|{_LEAD_ZH}(?:不用|不必|不需要|别|不要)(?:再|继续)?(?P<stopped_zh>[^，。！？,]{{2,14}}?)(?<!就[好行])了[。！~\s]*",
    re.IGNORECASE,
)
_LONGEST: Final = 200  # characters, more than such a sentence has
_STOP: Final = regex(rf"{_LEAD}(?:stop|quit)\b", re.IGNORECASE)
_SENTENCES: Final = regex(r"[.!?。！？]+\s*")
_TALK_OF: Final = regex(r"\b(?:mention|talk|ask|bring|tell|remind|worry)", re.IGNORECASE)
_HAN: Final = regex(r"[\u4e00-\u9fff]")
# "Actually, call me later" and 还是叫我去吧 give no name.
_NO_NAME: Final = r"(?!(?:back|later|when|if|maybe|at|on|in|for|about|from|until|before|after|once|again|soon|asap|any ?time|now|today|tonight|tomorrow|this|next|every|\w+day|an?)\b)"
_CALLED: Final = rf"(?:(?:call|address) me(?: as)? {_NO_NAME}[\w'-]+(?:\.? [A-Z][\w'-]*)?|[你您]?(?:就)?叫我(?![起去来吃做写怎干帮学每叫戴给看别不])[^，。！？,的]{{1,8}}?)"
_CALLS: Final = rf"(?:(?:please|pls|always|from now on|以后|从现在起|从现在开始|请|就)[,，\s]*)*{_CALLED}(?:,? (?:please|from now on)|就行|就好|吧)*[.!。！]*"
_NAME: Final = regex(_CALLS, re.IGNORECASE)
_OTHER_NAME: Final = regex(
    rf"(?:(?:no|nah|sorry|oops|wait|actually|i meant|scrap that|不对|不是|错了|算了|还是)[,，.\s]*)+{_CALLS}(?:[，,;][^.!?。！？]{{1,30}}[.!。！]*)?",
    re.IGNORECASE,
)
_TONGUE: Final = r"(?:answer|reply|respond|speak|talk|write)(?: to me| me)? in [a-z]+"
_LANGUAGE: Final = regex(
    rf"(?:(?:please|pls|always|from now on|just),?\s+)*{_TONGUE}(?:,? (?:please|from now on|always))*[.!\s]*"
    r"|(?:(?:以后|从现在起|从现在开始|请|都|一直)[,，\s]*)*用[\u4e00-\u9fff]{1,4}[语文话](?:回答|回复|跟我说|和我说)?我?吧?[。！\s]*",
    re.IGNORECASE,
)
_OTHER_LANGUAGE: Final = regex(
    rf"(?:(?:ok(?:ay)?|fine|alright|actually|now),?\s+)*(?:you|u) (?:can|may) {_TONGUE} again(?: now| please)?[.!\s]*"
    r"|(?:算了|还是)[,，\s]*(?:还是)?用[\u4e00-\u9fff]{1,4}[语文话](?:回答|回复|跟我说|和我说)?我?吧[。！\s]*",
    re.IGNORECASE,
)
_TONGUES: Final = (
    r"(?:english|german|french|spanish|italian|dutch|portuguese|polish|russian|ukrainian|czech|greek|turkish|arabic|hebrew|hindi|chinese|mandarin"
    r"|cantonese|japanese|korean|vietnamese|thai|swedish|danish|norwegian|finnish|hungarian|romanian|welsh|latin)"
)
_TONGUE_ZH: Final = r"[\u4e00-\u9fff]{1,3}[语文话]"
_TO_LANGUAGE: Final = regex(
    rf"{_LEAD}(?:let's )?(?:(?:go|switch|come|change) )?back to {_TONGUES}{_TAIL}"
    rf"|{_LEAD}(?:answer|reply|respond|speak|talk|write)(?: to me| me)? in {_TONGUES} again{_TAIL}"
    rf"|{_LEAD_ZH}(?:还是|请)?(?:换回|改回|恢复|切回|回到|变回)(?:说|用|讲)?{_TONGUE_ZH}(?:回答|聊)?[吧了]?[。！\s]*"
    rf"|{_LEAD_ZH}可以(?:用|说|讲){_TONGUE_ZH}(?:回答|回复|聊|跟我说)?了[。！\s]*"
    rf"|{_LEAD_ZH}不用(?:再?说|再?用)?{_TONGUE_ZH}了[，,\s]*(?:还是)?(?:用|说|讲){_TONGUE_ZH}[吧了]?[。！\s]*",
    re.IGNORECASE,
)
