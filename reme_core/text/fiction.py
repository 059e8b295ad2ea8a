"""Which of a person's words state something about that person, and which are fiction, jokes, guesses or questions.

A wrong memory costs more than a missing one, so in doubt words are left out: a message is skipped as a whole where it
tells a story, jokes, or hands over text to work on; a role play ends only when somebody says so; and a single sentence
is skipped where it asks, supposes, plans or reports what others said. English and Chinese have rules of their own;
text in other languages is left to a model.
"""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reme_core.schema import Message

LONGEST_TOLD: Final = 1_500
"""Characters beyond which a message is taken for pasted text; people say things about themselves in fewer words."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a message that may state a fact about its speaker."""

    message: Message
    text: str


def unreal(messages: Sequence[Message]) -> dict[str, str]:
    """The messages of people that state no facts about them, each with the reason.

    Reasons: `fiction`, `joke`, `role play`, `text` (given to be worked on, or pasted). A joke that is owned up to
    ("just kidding") takes back the same person's message before it, too.

    Args:
        messages: A conversation, or several, in order.
    """
    reasons: dict[str, str] = {}
    playing: set[str] = set()
    before: dict[str, str] = {}
    for message in messages:
        if message.role != "user":
            continue
        text, session = plain(message.content), message.session_id
        if session in playing and _PLAY_ENDS.search(text):
            playing.discard(session)
        elif _PLAY_BEGINS.search(text):
            playing.add(session)
        if session in playing:
            reasons[message.message_id] = "role play"
        elif _OWNED_UP.search(text):
            if session in before:
                reasons[before[session]] = "joke"
            # What follows the confession is meant seriously again.
            rest = _AFTER_FIRST.sub("", text, count=1)
            if not rest.strip() or _reason(rest):
                reasons[message.message_id] = "joke"
        elif reason := _reason(text):
            reasons[message.message_id] = reason
        before[session] = message.message_id
    return reasons


def sentences(message: Message) -> list[Sentence]:
    """The sentences of a message, without code, quotations of others, embedded lines and mere pleasantries."""
    text = _CODE.sub(" ", plain(message.content))
    lines = [line for line in text.splitlines() if not line.lstrip().startswith((">", "|", "#"))]
    parts = [part.strip() for line in lines for whole in _ENDS.split(line) for part in _QUESTION_STARTS.split(whole)]
    return [
        Sentence(message, part)
        for part in parts
        if re.search(r"\w", _PLEASANTRIES.sub("", part)) and not _OWNED_UP.match(part)
    ]


def states(sentence: str) -> bool:
    """Whether a sentence states something as a fact: no question, guess, plan, wish or report.

    >>> states("I live in Berlin."), states("If I lived in Berlin, I would swim."), states("我住在北京吗？")
    (True, False, False)
    """
    return not (_ASKS.search(sentence) or _SUPPOSES.search(sentence) or _REPORTS.search(sentence) or _quotes(sentence))


def may_tell(message: Message) -> bool:
    """Whether any sentence of a message states something, or asks for something, as lasting wishes may do.

    >>> may_tell(Message(content="Who wrote Peer Gynt?")), may_tell(Message(content="Could you be brief from now on?"))
    (False, True)
    """
    return any(states(sentence.text) or _REQUESTS.search(sentence.text) for sentence in sentences(message))


def plain(text: str) -> str:
    """The text with straight apostrophes, as rules expect them."""
    return text.replace("’", "'").replace("‘", "'")


def _reason(text: str) -> str:
    if len(text) > LONGEST_TOLD or _WORK.search(text):
        return "text"
    if _JOKES.search(text):
        return "joke"
    return "fiction" if _FICTION.search(text) else ""


def _quotes(sentence: str) -> bool:
    return any(_FIRST_PERSON.search(match[0]) for match in _QUOTED.finditer(sentence))


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_ENDS: Final = re.compile(
    r"(?<=[。！？；])|(?<=[.!?;])(?=\s)(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bSt\.)(?<!\bMrs\.)|\n"
)
_AFTER_FIRST: Final = re.compile(r"^[^.!。！\n]*[.!。！\n]?")
# "I'm vegetarian, so what could I cook?" states something before it asks.
_QUESTION_STARTS: Final = re.compile(
    r",\s+(?:(?:so|and|but)\s+)?(?=(?:could|can|would|will|do|does|what|how|which|where|who|any|should)\b[^,]*\?)"
    r"|[，,](?=(?:请问|有什么|有没有|能不能|可以|可不可以|你|您|该|怎么|什么|哪)[^，,]*[?？吗呢])",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(r"\"[^\"]+\"|“[^”]+”|「[^」]+」|『[^』]+』|«[^»]+»|(?<!\w)'[^']+'(?!\w)")
_FIRST_PERSON: Final = re.compile(r"\bI\b|\bmy\b|我", re.IGNORECASE)

_WORKS_OF: Final = (
    r"(?:novel|story|book|screenplay|script|game|dream|nightmare|poem|song|film|movie|play|campaign|fanfic\w*"
    r"|role-?play|novella|comic|simulation|parallel universe)"
)
_FICTION: Final = _any(
    rf"\b(?:in|for|from) (?:my|the|this|a|our|that|his|her) (?:\w+ ){{0,2}}{_WORKS_OF}\b(?! (?:job|car|house|holiday))",
    rf"\b(?:{_WORKS_OF}|chapter|scene) (?:goes|begins|starts|opens)\b",
    r"\b(?:my|the|our) (?:\w+ )?(?:character|protagonist|narrator|hero|heroine|villain|alter ego|avatar)\b",
    r"\bonce upon a time\b|\bfiction(?:al)?\b|\bmake-believe\b|\b(?:chapter|scene) (?:\d+|one|two)\s*[:.]",
    r"^\W*(?:just )?(?:imagine|suppose|picture this)(?: that)?,? (?:I|we|you)\b|^\W*(?:想象一下|设想一下)",
    r"\bI dream(?:ed|t)\b|\bin character\b|\b(?:act|speak|talk) as if\b",
    r"(?:我的?|这部?|那部?|在|某)?(?:小说|故事|剧本|游戏|梦|电影|漫画|诗|歌词|话剧)(?:里|中|当中)",
    r"主人公|主角|男主|女主|反派|虚构|(?:我|昨晚|昨天)?(?:做梦|梦见|梦到)|从前有|第[一二三四五六七八九十\d]+章",
)
_JOKES: Final = _any(
    r"\bjust kidding\b|\bkidding\b|\bjk\b|\bj/k\b|\bjok(?:e|ing)\b|\bapril fool|\blol\b|\blmao\b|\brofl\b|\b(?:ha){2,}h?\b",
    r"\bhehe+\b|\byeah,? right\b|\bsarcas\w+|(?:^|\s)/s\b|😂|🤣|😜|😝|🤪|😉",
    r"哈哈|开玩笑|开个玩笑|逗你|骗你的|说笑|瞎说的|胡说的|愚人节|嘻嘻|手动狗头|\[狗头\]",
)
_OWNED_UP: Final = _any(
    r"^\W*(?:(?:no|nah|ha\w*|sorry|ok(?:ay)?|oh)\W+)*(?:(?:I(?:'m| am| was)|that was)\s+)?(?:just|only|totally)?\s*"
    r"(?:kidding|joking|jk|a joke|messing with you|pulling your leg)\b",
    r"^\W*(?:不是|不|没有|好吧|哈+)?[，,\s]*(?:我|刚才)?(?:是|在|只是|跟你)?(?:开(?:个)?玩笑|骗你|逗你|说笑|瞎说)",
)
_PLEASANTRIES: Final = re.compile(
    r"\b(?:hi|hello|hey|hiya|there|good (?:morning|afternoon|evening|day|night)|(?:good)?bye|see you|take care|cheers|thx"
    r"|thank(?:s|(?: you)?(?: (?:so|very) much| a lot)?)|(?:you're )?welcome|please|ok(?:ay)?|great|cool|nice|perfect|sure"
    r"|yes|no|again|happy (?:new year|easter|holidays|birthday)|merry christmas)\b"
    r"|早上好|[上中下]午好|晚上好|新年好|[你您]们?好|早安|晚安|再见|拜拜|谢谢[你您]?们?|多谢|感谢|辛苦了|(?:新年|圣诞|生日)快乐|不客气"
    r"|太好了|好的|是的|嗯|啊|呀|啦",
    re.IGNORECASE,
)
_PLAY_BEGINS: Final = _any(
    r"\brole-?play|\blet'?s (?:pretend|play (?:a game|make-believe|that|pretend))|\bpretend (?:that |to be |you|I|we)",
    r"\b(?:I'll|I will|you'll|you will|I'm going to) (?:be|play) (?:a|an|the|as|your|my) [^.]{0,40}?\b(?:and|while|,)"
    r" (?:you|I)(?:'ll|'re| will| are|'m| am| be| play)\b",
    r"角色扮演|我们?来?扮演|假装|你(?:来)?扮演|我(?:来)?扮演|玩(?:个|一个)游戏",
)
_PLAY_ENDS: Final = _any(
    r"\b(?:stop|end|enough of|enough with|quit|finish|leave) (?:the |this |our |with the )?(?:game|role|play|pretend|act)",
    r"\bgame over\b|\bback to (?:reality|normal|real life|being me)\b|\bout of character\b|\booc\b"
    r"|\bno more (?:games|role|pretend)",
    r"(?:游戏|扮演|表演)(?:到此)?(?:结束|为止)|不玩了|回到现实|说正经的|言归正传|别演了",
)
_WORK: Final = _any(
    r"(?:^|[.!?\n]\s*|\bplease\b|\b(?:can|could|would|will) you\b|\bhelp me(?: to)?\b|\bneed you to\b)\s*(?:please )?"
    r"(?:translate|proofread|rewrite|re-?phrase|paraphrase|summari[sz]e|correct|improve|edit|polish|analy[sz]e|classify"
    r"|write|compose|draft|finish|continue|complete)\b[^.!?\n]{0,60}"
    r"\b(?:this|following|below|text|sentence|paragraph|story|poem|song|letter|e-?mail|essay|speech|dialogue|scene|bio"
    r"|post|message|quote|lyrics|draft|verse|monologue|slogan)s?\b",
    r"^\W*(?:please )?(?:translate|proofread|rewrite|re-?phrase|paraphrase|summari[sz]e|correct|edit|polish)\b[^:\n]{0,30}:",
    r"\b(?:here is|here's|below is|this is) (?:an?|the|my friend's|his|her|their) (?:\w+ ){0,2}(?:text|e-?mail|letter|post"
    r"|article|transcript|review|diary|quote|log|story|poem)\b",
    r"(?:翻译|润色|改写|总结|概括|修改|校对|分析|续写|仿写)(?:一下|下面|以下|这|成|为|\s*[:：])|(?:帮我|请|给我)(?:写|编|作|续)"
    r"(?:一|个|首|篇|段|封)",
    r"(?:以下|下面)(?:是|的)[^。]{0,12}(?:文章|邮件|信|文字|段落|对话|日记|评论|原文)",
)
_ASKS: Final = re.compile(
    r"[?？]\s*[\"”』」)]?\s*$|(?:吗|呢|么)[。！.!]?\s*$|^\s*(?:what|who|where|when|why|how|which|do|does|did|is|are|can|could"
    r"|would|will|should|shall|has|have you|am I)\b(?!\s+a\b)|是不是|有没有|会不会|能不能|要不要|是否",
    re.IGNORECASE,
)
_REQUESTS: Final = re.compile(r"\b(?:(?:can|could|would|will) you|please)\b|请|能否|能不能|可不?可以", re.IGNORECASE)
_SUPPOSES: Final = re.compile(
    r"\b(?:[Ii]f|[Uu]nless|[Ii]magine|[Ss]uppos\w+|[Ww]hat if|would(?:n't)?|could|might|may|[Mm]aybe|[Pp]erhaps|[Pp]robably"
    r"|[Pp]ossibly|wish(?:es|ed)?|[Hh]op(?:e|es|ing)|[Pp]retend\w*|[Hh]ypothetically|almost|nearly|[Dd]ream\w*|'d|think about"
    r"|thinking (?:of|about)|considering|plan(?:ning|s)? (?:to|on)|going to (?!the\b|a\b|my\b)|gonna|want(?:ed)? to|I guess"
    r"|not sure|should|in theory|as if|as though|tomorrow|next (?:week|month|year|spring|summer|autumn|fall|winter))\b|'d\b"
    r"|如果|假如|假设|要是|万一|倘若|想象|设想|也许|可能|或许|大概|说不定|希望|但愿|打算|计划|准备|考虑|想要|想去|差点|几乎|好像"
    r"|似乎|仿佛|应该会|恐怕|将来|明天|明年|下周|下个?月|理论上|比如说|譬如|要不"
)
_REPORTS: Final = re.compile(
    r"\b(?:said|says|say|told|tells|claim(?:s|ed)?|according to|heard|believes?|believed|asked|insists?|quot(?:e|es|ed)"
    r"|rumou?r\w*|thinks|thought)\b|[他她它们友事妈爸人板师哥姐弟妹](?:都|总|常|刚|还|也)?(?:说|问|讲|觉得|认为|以为|告诉|声称)|听说|据说"
    r"|说我|书上说|有人|俗话说|老话说",
    re.IGNORECASE,
)
