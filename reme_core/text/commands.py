"""What people tell an assistant to do with its memory, in so many words: remember, forget, and how to answer.

Only wordings that hardly ever mean anything else. What is not recognised here is judged by its worth, as anything else.
"""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from reme_core.text.terms import terms

Action = Literal["remember", "instruct", "forget", "erase"]


@dataclass(frozen=True, slots=True)
class Command:
    """A command: to `remember` a statement, to heed an instruction from now on, to `forget` something or to `erase` it.

    `text` is the sentence; `topic` names what is to be forgotten.
    """

    action: Action
    text: str
    topic: str = ""


def command_of(sentence: str) -> Command | None:
    """The command that a sentence gives, or None.

    >>> command_of("forget everything I've told you about Jordan").topic
    'Jordan'
    >>> command_of("don't forget to write") is None, command_of("I forgot my keys") is None
    (True, True)
    """
    text = " ".join(sentence.replace("’", "'").split())
    if match := _FORGET.search(text):
        topic = next(group for group in match.groups() if group is not None)
        if terms(topic) and not _NO_TOPIC.fullmatch(topic.strip()):
            return Command("erase" if erases(match[0]) else "forget", text, topic.strip())
        return None
    if _REMEMBER.search(text):
        return Command("instruct" if _BEHAVIOUR.search(text) else "remember", text)
    return Command("instruct", text) if _INSTRUCT.search(text) else None


def erases(text: str) -> bool:
    """Whether a text asks to delete something, rather than to forget it."""
    return bool(_ERASES.search(text))


def names_topic(topic: str, text: str) -> bool:
    """Whether a text names what a topic names: a high bar, for what is forgotten wrongly is lost.

    Both of two words have to stand in it, of more of them two thirds; of Chinese, two thirds of the characters.

    >>> names_topic("jordan will you", "Jordan is 21 on the 14th"), names_topic("the move to Berlin", "Berlin is cold")
    (True, False)
    >>> names_topic("小指发麻", "右手小指老是麻"), names_topic("老孙借钱", "老孙来过")
    (True, False)
    """
    topic = _COURTESY.sub(" ", topic)
    wanted = {term for term in terms(topic) if not _HAN.search(term)} | set(_HAN.findall(topic))
    there = {term for term in terms(text) if not _HAN.search(term)} | set(_HAN.findall(text))
    least = len(wanted) if len(wanted) <= 2 else _SHARE * len(wanted)
    return bool(wanted) and len(wanted & there) >= least


_COURTESY: Final = re.compile(
    r"\b(?:will you|would you|please|pls|thanks|ok(?:ay)?|for me|again|any ?more|"
    r"way back|earlier|last time|the other day)\b"
    r"|[吧了啊呀哈那这]+$|^(?:帮我)?(?:把|将)?", re.I
)  # fmt: skip
_HAN: Final = re.compile(r"[\u4e00-\u9fff]")
_SHARE: Final = 2 / 3
_POLITE: Final = r"(?:^|[.!?;,。！？；，]\s*|\b(?:and|so|also|oh|ok(?:ay)?|hey|please|pls|plz|actually|yeah|right)[,.\s]+|(?:请|麻烦|帮我|那|对了)[你您，]?)"
_TOLD: Final = r"(?: (?:\w+'?\w*)){0,6}?"  # "that I ever told ya"
_FORGET: Final = re.compile(
    _POLITE + r"(?:can you |could you |would you |you can |I want you to |I'd like you to )?(?:please |just )?(?:"
    r"(?:forget|delete|erase|wipe|scrap|remove) (?:(?:what|everything|anything|all|whatever|the (?:thing|things|stuff|bit|part))\b"
    + _TOLD
    + r" (?:about|concerning|regarding) )([^.!?;,]+)"
    r"|(?:what|everything|the (?:thing|things|stuff|bit|part)) (?:I|we|I've|ive|I'd)\b"
    + _TOLD
    + r" (?:about|regarding) ([^.!?;,]+)"
    r"[,.;]? (?:please |pls |can you |just )?(?:forget|delete|erase|wipe|scrap|remove) (?:it|that|this|them|all)\b"
    r"|(?:do not|don't|dont|stop) remember(?:ing)? (?:anything |that )?(?:about )?([^.!?;,]+)"
    r"|(?:再有|还有|对了|另外)?[,，]?\s*(?:把|将)?(?:我(?:之前|以前|刚才)?(?:说|讲|提|告诉你)(?:过)?的?)?([^，。！？,]{1,30}?)"
    r"(?:的|那个|这个|那件|这件|那些|这些)*(?:事情|事儿|事|内容|信息)?[,，]?\s*(?:你|请|都|全|统统|帮我|pls|please)*\s*(?<![我没别])"
    r"(?:忘掉|忘了吧|忘记吧|删掉|删了吧|删除|抹掉|别再?记着?|不要再?[记存]|不用记)"
    r"|(?:忘掉|忘了|忘记|删掉|删除|别再记|不要再记|别记|不要记|不用记)(?:我(?:之前|以前|刚才)?(?:说|讲|提|告诉你)(?:过)?的?)?(?:所有|全部)?"
    r"(?:关于|有关)?([^，。！？了吧]{2,30}?)(?:的事|的事情|的内容|的信息|这件事|的话)?(?=[，。！？了吧]|$))",
    re.IGNORECASE,
)
_ERASES: Final = re.compile(r"\b(?:delete|erase|wipe|remove)\b|删|抹", re.IGNORECASE)
_NO_TOPIC: Final = re.compile(
    r"(?:it|that|this|me|him|her|them|us|to .*|how .*|这|那|它|他|她|我|这个|那个|带.*|我)", re.IGNORECASE
)
_REMEMBER: Final = re.compile(
    _POLITE + r"(?:can you |could you |you should |I need you to |I want you to )?(?:please |always )?(?:"
    r"(?:remember|note|keep in mind|bear in mind|make a note|don't (?:let (?:me|us) )?forget|dont (?:let (?:me|us) )?forget)"
    r"(?:,| that|:| for (?:later|next time|the future)|(?= (?:I|my|I'm|im|we|our|when|to me)\b))"
    r"(?! (?:time|day|when we|how))"
    r"|for (?:the record|your memory|future reference)\b"
    r"|(?<![没不])(?:记住|记一下|记下来|帮我记|你记着|记好了|别忘了我|记得我))",
    re.IGNORECASE,
)
_BEHAVIOUR: Final = re.compile(
    r"\b(?:don't|dont|do not|never|always|stop|no more) (?:\w+ ){0,2}?(?:suggest|recommend|give|use|call|write|answer|reply|ask|"
    r"mention|send|include|add|remind|talk|speak)"
    r"|\bwhen(?:ever)? I ask\b|[别不]要?(?:再)?(?:给我|推荐|提|用|叫|问|发|写)|回答|回复",
    re.IGNORECASE,
)
_INSTRUCT: Final = re.compile(
    r"\b(?:from now on|from here on|going forward|in (?:the )?future|for all (?:your )?(?:answers|replies))\b(?=.*\b(?:answer|reply|"
    r"respond|write|speak|talk|use|call|give|keep|be|don't|dont|never|always|stop|just|only|send|add|include|ask|no)\b)"
    + r"|"
    + _POLITE
    + r"(?:please |pls |plz )?(?:always|never|don't ever|dont ever|stop|no more) (?:answer|reply|respond|writ|speak|talk|us(?:e|ing)|giv|"
    r"call(?:ing)? me|suggest|recommend|remind|send|add|includ|ask|end|start|explain)(?!\w{0,2}s\b)"
    r"|"
    + _POLITE
    + r"(?:always|never) \w+\b[^.!?]* (?:when(?:ever)?|if|every time|any time) I (?:ask|tell you|want you)\b"
    + r"|"
    + _POLITE
    + r"(?:please |pls |just )?(?:you can )?call me (?!back|later|when|if|maybe|at\b|on\b|in\b|tomorrow|a (?:cab|taxi|car)|an\b|crazy|old)"
    r"|(?:从现在起|从今以后|以后|今后)[^。！？]{0,12}(?:回答|回复|叫我|称呼|用|别|不要|不用|请|说话|写|给我|推荐|提醒|直接)"
    r"|(?:每次|每当|只要|凡是)我(?:问|让你|请你)[^。！？]{0,20}?(?:都要?|请|总要?|就要?|的时候[，,]?)"
    r"|(?:^|[，。！？；\s]|请)(?:叫我|喊我|称呼我)(?!起|去|来|吃|做|写)",
    re.IGNORECASE,
)
