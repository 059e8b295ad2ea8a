"""What people tell an assistant to do with its memory, in so many words: remember, forget, and how to answer.

Only wordings that hardly ever mean anything else. What is not recognised here is judged by its worth, as anything else.
"""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from reme_core.text.forgetting import POLITE, erases, topic_to_forget

Action = Literal["remember", "instruct", "forget", "erase"]


@dataclass(frozen=True, slots=True)
class Command:
    """What a sentence tells the assistant to do with its memory.

    Attributes:
        action: `remember` a statement, answer by an instruction from now on (`instruct`), `forget` or `erase` something.
        text: The sentence.
        topic: What is to be forgotten or erased.
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
    if topic := topic_to_forget(text):
        if not erases(text.replace(topic, " ")):
            return Command("forget", text, topic)
        # What is erased does not come back, and behind a comma may stand what has nothing to do with it.
        return Command("erase", text, topic.partition(",")[0].strip())
    if _REMEMBER.search(text):
        return Command("instruct" if _BEHAVIOUR.search(text) else "remember", text)
    return Command("instruct", text) if _INSTRUCT.search(text) else None


_REMEMBER: Final = re.compile(
    # "remember that I …", "keep in mind: …", "don't forget my …"
    POLITE + r"(?:can you |could you |you should |I need you to |I want you to )?(?:please |always )?(?:"
    r"(?:remember|note|keep in mind|bear in mind|make a note|don't (?:let (?:me|us) )?forget|dont (?:let (?:me|us) )?forget)"
    r"(?:,| that|:| for (?:later|next time|the future)|(?= (?:I|my|I'm|im|we|our|when|to me)\b))"
    # "Remember the time when we …" tells a story.
    r"(?! (?:time|day|when we|how))"
    r"|(?:remember|note) (?:this|the following):"
    r"|(?:add|save|store|put|commit) (?:this |that |it |the following )?(?:to|in|into) (?:your |the )?(?:long-term )?(?:memory|notes)\b"
    r"|for (?:the record|your memory|future reference)\b"
    # 没记住 tells that something was not remembered.
    r"|(?<![没不])(?:记住|记一下|记下来|帮我记|你记着|你要记得|记好了|别忘了我|记得我))",
    re.IGNORECASE,
)
# Something to remember that is about answering ("remember: never call me Bob") is an instruction.
_BEHAVIOUR: Final = re.compile(
    r"\b(?:don't|dont|do not|never|always|stop|no more) (?:\w+ ){0,2}?(?:suggest|recommend|give|use|call|write|answer|reply|ask|"
    r"mention|send|include|add|remind|talk|speak)"
    r"|\bwhen(?:ever)? I ask\b|[别不]要?(?:再)?(?:给我|推荐|提|用|叫|问|发|写)|回答|回复",
    re.IGNORECASE,
)
_INSTRUCT: Final = re.compile(
    # "from now on, answer briefly"
    r"\b(?:from now on|from here on|going forward|in (?:the )?future|for all (?:your )?(?:answers|replies))\b(?=.*\b(?:answer|reply|"
    r"respond|write|speak|talk|use|call|give|keep|be|don't|dont|never|always|stop|just|only|send|add|include|ask|no)\b)"
    # "keep your answers short from now on"
    + r"|"
    + POLITE
    + r"(?:please |pls |plz )?(?:answer|reply|respond|write|speak|talk|use|call me|address me|give|keep|don't|dont|do not|avoid|include|add|ask) [^.!?]*"
    r"\b(?:from now on|from here on|going forward|in (?:all )?(?:of )?your (?:answers|replies|responses))\b"
    # "always answer in French"; "always answers late" is about somebody
    + r"|"
    + POLITE
    + r"(?:please |pls |plz )?(?:always|never|don't ever|dont ever|stop|no more) (?:answer|reply|respond|writ|speak|talk|us(?:e|ing)|giv|"
    r"call(?:ing)? me|suggest|recommend|remind|send|add|includ|ask|end|start|explain)(?!\w{0,2}s\b)"
    # "always check twice when I ask for a price"
    r"|"
    + POLITE
    + r"(?:always|never) \w+\b[^.!?]* (?:when(?:ever)?|if|every time|any time) I (?:ask|tell you|want you)\b"
    # "when I paste a table, sum it up"; "when I ask him, he laughs" is about somebody
    r"|"
    + POLITE
    + r"(?:when(?:ever)?|every time|each time|any time) I (?:ask|say|tell|send|give|paste|share|mention)\b[^.!?,]*, (?:please |pls |always |then |just )*"
    r"(?:answer|reply|respond|write|speak|use|call me|give|keep|be|don't|dont|do not|never|avoid|include|add|make|show|explain|start|put|sum)\b"
    # "call me Sam"; "call me back" asks for a call
    + r"|"
    + POLITE
    + r"(?:please |pls |just )?(?:you can )?(?:(?:address|refer to) me as\b|call me )(?!back|later|when|if|maybe|at\b|on\b|in\b|tomorrow|a (?:cab|taxi|car)|an\b|crazy|old)"
    # The same in Chinese: 以后…, 每次我问…, 叫我…
    r"|(?:从现在起|从今以后|以后|今后)[^。！？]{0,12}(?:回答|回复|叫我|称呼|用|别|不要|不用|请|说话|写|给我|推荐|提醒|直接|先给)"
    r"|(?:别|不要)再(?:叫|喊|称呼)我"
    r"|(?:每次|每当|只要|凡是)我(?:问|让你|请你)[^。！？]{0,20}?(?:都要?|请|总要?|就要?|的时候[，,]?)"
    r"|(?:^|[，。！？；\s]|请)(?:叫我|喊我|称呼我)(?!起|去|来|吃|做|写)",
    re.IGNORECASE,
)
