"""What people tell an assistant to do with its memory, in so many words: remember, forget, and how to answer.

Only wordings that hardly ever mean anything else. What is not recognised here is judged by its worth, as anything else.
"""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from reme_core.text.fiction import sentences
from reme_core.text.forgetting import PLEASE, POLITE, ends_in_memory, erases, topic_to_forget
from reme_core.text.regex import regex
from reme_core.text.signs import simplify
from reme_core.text.wish_times import only_bounds, validity_of_wish
from reme_core.text.wishes_ended import may_end, wishes_instead
from reme_core.types import TimeRange

Action = Literal["remember", "instruct", "allow", "forget", "erase"]


@dataclass(frozen=True, slots=True)
class Command:
    """What a sentence tells the assistant to do with its memory."""

    action: Action
    """`remember` a statement, answer by an instruction from now on (`instruct`; here only what corrects one, for others see
    `personal.voice`), `forget` or `erase` something; `allow` says that a wish no longer holds, if there is such a wish."""
    topic: str = ""
    """What is to be forgotten or erased."""


def command_of(sentence: str) -> Command | None:
    """The command that a sentence gives, or None.

    >>> command_of("forget everything I've told you about Jordan").topic
    'Jordan'
    >>> command_of("don't forget to write") is None, command_of("I forgot my keys") is None
    (True, True)
    """
    text = " ".join(sentence.split())
    if topic := topic_to_forget(text):
        if not erases(text.replace(topic, " ")):
            return Command("forget", topic)
        # What is erased does not come back, and behind a comma may stand what has nothing to do with it; but not in
        # "delete my salary, address and phone from your memory".
        return Command("erase", topic if ends_in_memory(text, topic) else topic.partition(",")[0].strip())
    plain = simplify(text)
    if _REMEMBER.search(plain):
        return Command("remember")
    if wishes_instead(text):
        return Command("instruct")
    return Command("allow") if may_end(text) else None


def validity_of_wishes(text: str, sent_at: datetime, timezone: str) -> TimeRange:
    """The time for which the wishes of a text hold; open where they hold at different times.

    In "From now on answer in French. Until Friday call me Bo." the one wish does not end with the other.
    """
    wishes: list[str] = []
    for sentence in sentences(text) or [text]:
        if wishes and only_bounds(sentence):
            wishes[-1] = f"{wishes[-1].rstrip('.!。！ ')}, {sentence}"
        else:
            wishes.append(sentence)
    held = [validity_of_wish(wish, sent_at, timezone) for wish in wishes]
    return held[0] if all(one == held[0] for one in held) else TimeRange()


_REMEMBER: Final = regex(
    # "remember that I …", "keep in mind: …", "don't forget my …"
    POLITE + r"(?:but |and )?(?:can you |could you |you should |I need you to |I want you to )?(?:please |always )?(?:"
    r"(?:remember|rem(?:em)?b?er|note|keep in mind|bear in mind|make a note|don't (?:let (?:me|us) )?forget|dont (?:let (?:me|us) )?forget)"
    r"(?:,| that|:| for (?:later|next time|the future)|(?= (?:I|my|I'm|im|we|our|when|to me)\b))"
    # "Remember the time when we …" tells a story.
    r"(?! (?:time|day|when we|how))"
    r"|(?:remember|note) (?:this|the following):|(?:keep|bear) (?:this|that|it) in mind\b"
    r"|(?:add|save|store|put|commit) (?:this |that |it |the following )?(?:to|in|into) (?:your |the )?(?:long-term )?(?:memory|notes)\b"
    r"|for (?:the record|your memory|future reference)\b"
    # 没记住 tells that something was not remembered.
    r"|(?<![没不])(?:记住|记一下|记下来|帮我记|你记着|你要记得|记好了|别忘了我|记得我))"
    # Other languages, with what is to be remembered behind the verb, or before it.
    rf"|^{PLEASE}(?:(?:recuerd[ae]|acuérdate de|ten en cuenta|an[oó]t[ae]|apunta|no olvides|lembre-se de|lembra(?: de)?|anot[ae]|não (?:se )?esqueç?[ae](?: de)?"
    r"|tieni a mente|ricorda(?:ti)?|non dimenticare)(?: que| che|:)|(?:merk(?: es)? dir|merken sie sich|denk daran|vergiss nicht)(?: bitte)?(?:, dass|:)"
    r"|(?:souviens-toi|souvenez-vous|retiens|retenez|note|notez|n'oublie(?:z)? pas)(?: bien)?(?: que\b| qu'|:)"
    r"|(?:запомни|запомните|учти|учтите|не забудь|не забудьте)(?:[,:]? что|:)|(?:zapamiętaj|pamiętaj|nie zapomnij)(?:,? że|:)|unutma[,:]|aklında tut[,:]"
    r"|(?:تذكر|تذكري|تذكّر|لا تنس|لا تنسى) (?:أن|أنني|أني|انني)\b|याद (?:रखना|रखो|रखिए|रखें)(?: कि|[,:])|(?:覚えて(?:おいて|いて)|覚えといて)(?:ください|下さい|ね)*[、,:：])"
    r"|(?<!を)(?:と|こと[をは]?|[、,]) ?(?:覚えて(?:おいて|いて)|覚えといて)(?:ください|下さい|くれ|ね)*[。！!\s]*$"
    r"|(?:다는|라는|이라는|는|은) (?:걸|것을|거|것) (?:꼭 )?(?:기억해|잊지) ?(?:줘|주세요|둬|두세요|마|마세요)요?[.!\s]*$",
    re.IGNORECASE,
)
