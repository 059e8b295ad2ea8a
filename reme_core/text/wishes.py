"""Standing wishes: how people tell an assistant, in so many words, what to do from now on or whenever something happens.

Only wordings that hardly ever mean anything else, in English and Chinese. A wish for this one answer is none, and
neither is what somebody tells of themselves or of others.
"""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

import re
from typing import Final

from reme_core.text.forgetting import POLITE
from reme_core.text.regex import any_of, regex
from reme_core.text.signs import simplify
from reme_core.text.wish_times import is_for_once, lasting_forms
from reme_core.text.wishes_ended import takes_back


def is_standing_wish(sentence: str) -> bool:
    """Whether a sentence tells the assistant how to behave from now on.

    >>> is_standing_wish("if I write in German, please reply in German"), is_standing_wish("please reply in German")
    (True, False)
    >>> is_standing_wish("today reply in German"), is_standing_wish("today send the report")
    (True, False)
    >>> is_standing_wish("以后都用中文跟我说话"), is_standing_wish("我以后都不喝酒了")
    (True, False)
    """
    start = simplify(sentence[:_READ])
    if is_for_once(start) or _SUPPOSED.search(start):
        return False
    if takes_back(start):
        return True
    return any(pattern.search(form) for form in (start, *lasting_forms(start)) for pattern in _WISHES)


# A wish is looked for in so many characters; nobody puts one into a longer sentence.
_READ: Final = 500


# "Would you always rhyme if I asked you to?", "can you always reply this fast?", 以后谁还用表格啊, 以后都用火星文回答得了.
_SUPPOSED: Final = any_of(
    r"\b(?:would|could|can|will) (?:you|u)\b[^.!?]*\b(?:if I (?:asked|told|wanted|said|begged|promised|paid|were|was|did)\b|(?:this|that|so) (?:fast|quick|slow|good|bad|helpful|nice|polite|kind|rude|long|short|stupid|smart)\w*\W*$)",
    r"谁还|(?<![懂晓记值])得了[吧啊。！!\s]*$",
)

# What assistants do, and people seldom tell of themselves without "I": "always take the bus" is no wish.
_TALK: Final = (
    r"(?:answ(?:er)?|reply|respond|write|speak|talk|use|give|call|address|refer|greet|suggest|recommend|propose|mention|bring up|remind|send|add|append"
    r"|include|attach|end|start|begin|explain|summari[sz]e|sum up|list|number|show|tell|ask|check|double-check|verify|confirm|cite|quote|link|state|mark|label"
    r"|flag|highlight|point out|warn|notify|alert|round|convert|translate|format|spell|assume|default|praise|lecture|correct|rewrite|apologi[sz]e|repeat|share"
    r"|reveal|phrase|draft|compare|search|look up|skip|omit|avoid|limit|interrupt|schedule|book|put)\b"
)
_TALKING: Final = (
    r"(?:answering|replying|responding|writing|speaking|talking|using|giving|calling me|suggesting|recommending|mentioning|bringing up|reminding|sending|adding"
    r"|including|ending|starting|explaining|summari[sz]ing|telling|asking|praising|lecturing|correcting|rewriting|apologi[sz]ing|repeating|sharing|interrupting)\b"
)
_DO: Final = (
    rf"(?:{_TALK}|(?:make|keep|let|do|be|say|name|note|order|sort|group|open|close|finish|leave|drop|cut|stick|treat|take|help|teach|act|stay|switch|plan|pick"
    r"|choose|read|try|wait|stop|store|save|review|comment|test|run|commit|turn|break|split|update|prefer|fix|improve|count|sign|copy|cc)\b)"
)
_NOT: Final = r"(?:don't|dont|do not|never|no longer|stop)"
_ONCE: Final = r"(?! (?:worry|forget|wait|panic|bother|mind|be|go|come|leave|get)\b)"
_ALWAYS: Final = r"(?:al?wa?ys|never(?: ever)?|at all times)"
_PLEASE: Final = r"(?:please|pls|plz)"
_SPEECH: Final = (
    r"(?:answers?|replies|reply|responses?|explanations?|summaries|recommendations?|suggestions?|reminders?|quotes?|emojis?|smileys?|jargon|disclaimers?|jokes"
    r"|apologies|compliments?|spoilers?|small talk|questions|exclamation (?:marks|points)|bullet points|headings|greetings|lists|tables)\b"
)
# How a request begins: "but please", "could you", "I'd like you to", "make sure you".
_REQUEST: Final = r"(?:\b(?:can|could|would|will) (?:you|u) |\bI(?:'d| would)? (?:want|like|need|love|prefer) (?:for )?(?:you|u) to |\b(?:make|be) (?:sure|certain)(?: that)?(?: (?:you|u))?(?: to)? )(?:please )?"
_ASK: Final = (
    rf"{POLITE}(?:(?:(?:but|and|also|then|now|just|so) )?(?:{_PLEASE}[, ]+|just |(?:can|could|would|will) (?:you|u) |(?:you|u) (?:can|should|must|may|could) |let's "
    r"|I(?:'d| would)? (?:want|like|need|love|prefer|ask) (?:for )?(?:you|u) to |(?:make|be) (?:sure|certain)(?: that)?(?: (?:you|u))?(?: to)? |try to "
    r"|it(?:'d| would) be (?:great|nice|good|lovely|helpful|better) if (?:you|u)(?: could)? |also |but ))*"
)
# Where a sentence begins, since its middle may tell of the author or of others: "she cooks, and never writes it down".
_BEGIN: Final = rf"(?:(?:^|[.!?;:]\s*)(?:(?:ok(?:ay)?|oh|hey|hi|thanks|also|and|but|so|then|now|no|yeah|well|sorry|btw|remember|actually)[,:!\s]+)*|{_PLEASE},? )"
_CLAUSE: Final = rf"(?:(?:{_PLEASE}|just|always|only),? )*(?:{_NOT}\b{_ONCE}|no\b|only\b|let's\b|(?:you|u) (?:can|should|must|may|are to|have to)\b|{_DO})"
_FROM_NOW: Final = r"(?:from (?:now|here|today) on(?:wards)?|as of (?:now|today)|starting (?:now|today)|going forward|henceforth|in (?:the )?future|以后|今后|从现在(?:起|开始))"
_EACH_TIME: Final = r"(?:whenever|every ?time|each time|any ?time)"
_ASKED: Final = r"(?:ask|say|tell|send|give|paste|share|mention|write|show|want|need)"

_ENGLISH: Final = (
    # "please never mention my ex", "could you always add the source", "I want you to stop apologising"
    rf"(?:{_BEGIN}|{_REQUEST}){_ALWAYS} (?:\w+ly )?{_TALK}",
    rf"{_ASK}don'?t ever \w|{POLITE}(?:and |but )?{_PLEASE},? (?:{_ALWAYS}|don'?t ever) \w|{_REQUEST}(?:{_ALWAYS}|stop) \w",
    r"\bit(?:'d| would) be (?:great|nice|good|lovely|helpful|better) if (?:you|u) \w",
    rf"{_ASK}(?:stop|quit|no more) {_TALKING}|{_ASK}no more (?:\w+ ){{0,2}}{_SPEECH}",
    # "from now on, put …", "going forward I want …", "let's use first names from now on"
    rf"\b{_FROM_NOW},? {_CLAUSE}|\b(?:from (?:now|here|today) on|going forward|henceforth),? I(?:'d)? (?:want|like|prefer|need|expect) (?!to\b)",
    rf"{_ASK}(?:{_DO}|{_NOT}{_ONCE}|only|your name(?:'s| is)(?! (?:on|in|at|no|not|the|an?)\b)) [^.!?]*(?:\b{_FROM_NOW}|\bby default\b|\bat all times\b|\bin (?:all )?(?:of )?your {_SPEECH})",
    rf"\b(?:for|in) (?:all|any|every|each)(?: of)? (?:my |your |future )?[\w ]{{0,30}}?(?:,| )(?:{_PLEASE} |always )?(?:{_NOT} )?{_TALK}",
    # "when I paste code, don't rewrite it", "ask me before you book", "number it every time you give me a list"
    rf"{POLITE}(?:and |but )?(?:when|if|once|before|after|{_EACH_TIME}) (?:I|you|u)\b[^.!?]{{1,80}}?, (?:then )?(?:(?:{_PLEASE}|just|always|only),? )*(?:{_NOT}\b{_ONCE}|{_TALK}|(?<=please ){_DO}|(?:make|keep|be|say|name|do|help)\b)",
    rf"{POLITE}(?:and |but )?(?:when|if|{_EACH_TIME}) I {_ASKED}\b(?:(?! (?:he|she|they|it|we|people|nobody|everyone|everybody)\b)[^.!?,])*,? (?:please |pls )?(?:{_NOT}{_ONCE} )?{_DO}(?<!ask)(?<!say)",
    rf"{_ASK}(?:{_NOT}{_ONCE} )?{_DO}[^.!?]* {_EACH_TIME} (?:I|you|u)\b",
    rf"{_ASK}(?:{_ALWAYS}|{_NOT}{_ONCE}) \w+\b[^.!?]* (?:when|if|before|unless) (?:I|you|u)\b|{_ASK}{_DO} [^.!?]*\b(?:when|if) I {_ASKED}\b",
    rf"{_ASK}{_DO} [^.!?]*\bunless I {_ASKED}\b",
    # "short sentences please, every time you write", "give me the long version, always", "keep it brief whenever you write"
    rf"\b{_PLEASE}\b[^.!?]{{0,20}} (?:whenever|every ?time|each time) (?:you|u)\b|\b{_FROM_NOW},? (?:\w+ ){{1,4}}(?:max|tops|at most|please|pls)\b",
    rf"(?:^|[,;:]\s*)(?:{_PLEASE} |so )*{_DO} [^.!?]{{1,80}}(?:, ?always|,? every single time|,? in (?:all|each|every)(?: of)? your {_SPEECH})\b",
    rf"(?:^|[,;:]\s*)(?:{_PLEASE} |so |can you |could you )*{_DO} [^.!?]{{1,60}} (?:whenever (?:you|u) \w|when (?:you|u) (?:write|make|suggest|recommend) (?:anything|something)\b)",
    r"\bI (?:do |really |much |would )*(?:prefer|like|want|wish) to be (?:called(?! (?:to|in|up|back|on|for)\b)|addressed|referred to)\b|\bI'?d (?:love|like)(?: it)? if (?:you|u)\b[^.!?]*\b(?:always|each|every|whenever|from now on)\b",
    # "remind me every Monday …", "each week remind me …"
    rf"{_ASK}remind (?:me|us)\b[^.!?]*\b(?:every|each|daily|weekly|monthly)\b|\b(?:every|each) \w+,? (?:please )?remind (?:me|us)\b",
    # "I prefer short answers", "keep your explanations simple", "I'd rather you didn't"
    rf"{POLITE}I(?:'d| would)? (?:really |much |always )?(?:prefer|like|want|love|hate|appreciate) (?:your |my |all )?(?:\w+ ){{0,2}}(?:answers|replies|responses|explanations)\b(?! (?:from|to)\b)",
    rf"{POLITE}I(?:'d| would) (?:rather|prefer(?: it)?(?: if)?|like it if|appreciate it if) (?:you|u)\b",
    rf"{_ASK}(?:keep|make) (?:all )?(?:of )?your {_SPEECH}|{_ASK}{_BEGIN}(?:don't|dont|do not){_ONCE} [^.!?]*\b(?:again|any ?more|ever)\b",
    # "call me Sam", "don't call me sir"; "call me back" asks for a call
    rf"{_ASK}(?:(?:not|don't|dont|never|always) )?(?:(?:address|refer to) me as\b|call me(?= )(?! ?(?:back|later|when|if|maybe|at|on|in|for|about|from|until|before|after|once|again|soon|asap|any ?time|now|please|pls|today|tonight|tomorrow|this|next|every|\w+day|a (?:cab|taxi|car)|an|crazy|old)\b))",
    rf"{_ASK}(?:talk|speak|write|chat)(?: \w+ (?:to|with) me\b| (?:to|with) me (?:in|like|as)\b)|{_ASK}default to \w",
    rf"\bas a (?:general )?rule,? (?:{_PLEASE} |{_NOT} |always )*{_DO}",
)
_HERE: Final = r"(?:^|[，。！？；：,.!?;:\s])(?:那|还有|另外|对了|然后)?[，, ]?(?:请|麻烦|拜托)?(?:你|您)?"
_ACTS: Final = (
    r"(?:给我(?![爸妈爷奶哥姐弟妹儿女家老们打介买])|跟我|和我|对我|叫我|喊我|称呼|帮我|提醒|推荐|回答|回复|解释|总结|翻译|列出|列表|标注|标出|附上|写成|写清|写上|指出|保留|说话|重复|道歉|剧透|夸我|问我|建议"
    r"|直接(?:给|说|写|列|回|答)|先(?:给|说|写|列|回|答|讲|指|问)|用(?!不着|完|掉|得))"
)
_NOT_ZH: Final = r"(?:别(?!人|的|处|墅|扭|针)|不要|不许|不准|不用|不必)"
_FROM_NOW_ZH: Final = r"(?:从现在(?:起|开始)|从今天(?:起|开始)|从今(?:以后|往后)|(?:^|[，。！？；：,.!?;:\s]|[你您那但请]|麻烦|拜托|对了|还有|希望|记得|记住)(?:以后|今后|往后|下次(?:开始)?|接下来))"
_OF_SELF: Final = (
    r"(?!再(?!也|[别不])|[，, ]*(?:[他她]|我们?(?:想|要|会|打算|不|就|也|再|在|可以|可能|都|得|请|帮|给|带|去|来)))"
)
_CHINESE: Final = (
    # 以后请…, 从现在起数字都保留…, 以后不要…
    rf"{_FROM_NOW_ZH}{_OF_SELF}[^。！？]{{0,24}}?(?:请|\b(?:please|pls|always|never)\b|麻烦|务必|{_NOT_ZH}(?:再)?(?:{_ACTS}|[加写发说提放带])|{_ACTS})",
    rf"\bfrom now on,? ?(?=[\u4e00-\u9fff]){_OF_SELF}(?!他|她)[^。！？]{{0,24}}?(?:{_NOT_ZH}(?:再)?|{_ACTS})",
    rf"{_FROM_NOW_ZH}[，,]?[你您]的名字(?:就|改)?[叫是](?![什啥谁])",
    r"[你您]以后(?:写字|说话|讲话|回答|回复|回我|跟我|答)(?![得不])",
    # 请每次…, 麻烦你一直…
    rf"(?:请|麻烦|拜托)(?:你|您)?[^，。！？]{{0,4}}?(?:一直|始终|永远|总是|每次|每周|每天|每个?月|一律|{_NOT_ZH}再)",
    # 别再给我推荐…, 别老是夸我
    rf"{_HERE}{_NOT_ZH}(?:再|老是?|总是?|一直)(?:{_ACTS}|[加写发放])",
    # 每次我发英文，你都…; 我问价格的时候，请…; 如果我用英文问，就用英文答
    rf"{_HERE}(?:以后)?(?:(?:每次|每当|只要|凡是?|如果|要是|当|若)我[^，。！？]{{1,20}}?(?:的时候|时|的话|[，,])|我[^，。！？]{{1,20}}?(?:的时候|时|的话))[，,]?\s*(?:(?:你|您|就|都|也|要|得|可以)*(?:请|{_NOT_ZH}|记得|{_ACTS})|请)",
    r"(?:每次|每当|只要|凡是)我(?:问(?![他她它们爸妈别老同])|让你|请你)[^。！？]{0,20}?(?:都要?|请|总要?|就要?|的时候[，,]?)",
    # 推荐电影时别剧透
    rf"{_HERE}(?:回答|回复|推荐|说话|写[^，。！？我]{{0,4}}|解释|翻译|总结|建议|聊天|提醒)[^，。！？我]{{0,8}}(?:的时候|时)[，,]?(?:请|尽量|{_NOT_ZH}|要|先|都|直接)",
    # 每周五提醒我…, 提醒我每天…
    rf"{_HERE}(?:每[周天晚早月年次逢]|每(?:星期|礼拜|个月))[^，。！？我]{{0,10}}(?:提醒我|叫我起床)|{_HERE}提醒我[^，。！？]{{0,4}}每",
    rf"(?<![他她们])(?:希望|想让|想要|需要|要求)(?:你|您)(?!一切)(?![^，。！？]{{0,6}}(?:生气|难过|介意|误会|担心|见怪|幸福|快乐|开心|健康|顺利))[^，。！？]{{0,4}}?(?:以后|每次|总是|一直|始终|{_NOT_ZH}|少|尽量|直接|{_ACTS})",
    # 你回我的时候写详细点, 我的要求是一直讲普通话, 今后三句话以内讲完, 每次回答附来源, 长期用繁体回复我
    r"你(?:回|答|给我|跟我|教我|写)[^，。！？]{0,6}(?:的时候|时)[，,]?[^，。！？]{0,3}(?:写|说|用|先|别|短|详细|简单)|我的(?:要求|偏好|希望)是[^。！？]{0,6}(?:一直|每次|别|不要|用|讲)",
    r"(?:今后|以后)[^，。！？我]{0,10}(?:以内|之内)(?:讲|说|写|答)|(?:长期|始终)(?:使?用)[^，。！？]{1,8}(?:回复|回答|跟我)",
    rf"{_HERE}给我(?:写|发|列|做|讲|推荐)[^，。！？]{{0,6}}(?:一律|每次都)|{_HERE}每次(?:回答|回复|讲完|说完)[^，。！？我]{{0,6}}(?:给我|请|都要|附|加)",
    r"(?:凡是|但凡)[^，。！？我]{1,8}[你您]都|以后(?:只要|无论|不管)?我[问让发说][^，。！？]{0,6}(?:都|就)(?:按|用|先|给|照)",
    # 叫我小满, 你叫我阿杰就行
    r"(?:^|[，。！？；\s]|请|你|您|可以|直接|以后|平时|一直(?<=请一直)|一直(?<=你一直))(?:叫我|喊我|称呼我)(?![起去来吃做写怎干帮学每叫戴给看别不]|如何|什么|[^，。！？；\s]{1,4}我(?:很|好|就|会|都|真|特))",
    r"(?:别|不要)再?(?:叫|喊|称呼)我(?![起去来吃做写怎干帮学戴给看])",
    # 日期一律写成…
    rf"{_HERE}[^，。！？们司校家他她]{{0,14}}?(?:一律|统一|默认|始终|永远)(?:请|都)?(?:{_NOT_ZH}|{_ACTS}|[写按给放标以])",
)
_WISHES: Final = tuple(regex(pattern, re.IGNORECASE) for pattern in (*_ENGLISH, *_CHINESE))
