"""Wishes that something be forgotten: "forget what I said about my back", 把老孙借钱的事忘了吧."""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

import re
from typing import Final

from reme_core.text.regex import regex
from reme_core.text.signs import simplify
from reme_core.text.terms import language_of, terms

# "Hey assistant:" and 你好，助手： call the assistant. Without a greeting it is a line of a dialogue: "Therapist: forget …".
_CALL: Final = r"(?:^(?:hey|hi|hello|[嘿嗨喂]|[你您]好)[,，]?\s*\w+(?: \w+)?\s?[:,：，]\s*)"
# A command begins a sentence, or stands behind a comma or a word of politeness: "so, please forget …", 麻烦你忘掉….
POLITE: Final = rf"(?:{_CALL}|^|[.!?;,。！？；，]\s*|\b(?:and|so|also|oh|ok(?:ay)?|hey|please|pls|plz|actually|yeah|right)[,.\s]+|(?:请|麻烦|帮我|那(?![个些件])|对了|千万)[你您，]?|\s(?=[\u4e00-\u9fff]))"


def topic_to_forget(sentence: str) -> str:
    """What a sentence asks to forget, in the words of the sentence; empty if it asks no such thing, or names no topic.

    >>> topic_to_forget("I want you to forget that business about my eye, both of them")
    'my eye, both of them'
    >>> topic_to_forget("take the salary out of your notes"), topic_to_forget("工资那个数字就当我没说过")
    ('the salary', '工资')
    >>> topic_to_forget("don't forget to write"), topic_to_forget("forget it")
    ('', '')
    """
    wish = _wish_in(sentence)
    return wish[2] if wish else ""


def parts_by_wish(sentence: str) -> list[str]:
    """What a sentence asks to forget, and what it says before and behind that, each as a part; else the sentence.

    >>> parts_by_wish("forget my salary, but remember that I have two cats")
    ['forget my salary', 'but remember that I have two cats']
    >>> parts_by_wish("so, forget what I said about Jo, ok?")
    ['so, forget what I said about Jo, ok?']
    """
    wish = _wish_in(sentence)
    if wish is None:
        return [sentence]
    start, end, _ = wish
    before, behind = sentence[:start].strip(_AROUND), sentence[end:].strip(_AROUND)
    if not _SAYS.search(before):
        before, start = "", 0
    if not (_NEXT_CLAUSE.match(sentence, end) or _SAYS_ZH.match(behind)):
        behind, end = "", len(sentence)
    return [part for part in (before, sentence[start:end].strip(_AROUND), behind) if part]


def _wish_in(sentence: str) -> tuple[int, int, str] | None:
    """Where a wish to forget begins and ends, and its topic."""
    text = simplify(sentence[:_READ])
    for pattern in _WISHES:
        if match := pattern.search(text):
            if _CITED.search(text, 0, match.start()):
                return None
            start, end = match.span("topic")
            if gap := list(CLAUSE_ENDS.finditer(sentence, start, end)):
                start = gap[-1].end()
            if not _COURTESY_ZH.sub("", simplify(sentence[start:end])):
                continue  # 请删掉我的地址 has its topic behind the verb
            following = _NEXT_CLAUSE.search(sentence, start, end)
            end = following.start() if following else end
            before = text[: match.start()].strip(_AROUND)
            later = _FROM_NOW_ON.fullmatch(before) or _FROM_NOW_ON.search(text, match.start(), end)
            if later and not _DROPS.search(match[0]):
                return None
            topic = _PLACE_BEHIND.sub("", sentence[start:end]).strip()
            if not terms(topic) or _NO_TOPIC.fullmatch(topic):
                return None
            return match.start(), end if following else match.end(), topic
    return None


def erases(text: str) -> bool:
    """Whether a text asks to delete something, rather than to forget it."""
    return bool(_ERASES.search(text))


def ends_in_memory(sentence: str, topic: str) -> bool:
    """Whether a sentence says behind all of a topic that it is to leave the memory: "from your notes"."""
    return bool(_PLACE_BEHIND.match(sentence.partition(topic)[2]))


def names_topic(topic: str, text: str) -> bool:
    """Whether a text names what a topic names, or one of the things that the topic lists.

    All words have to stand in the text if there are one or two of them, else two thirds of the words; in Chinese, two
    thirds of the characters.

    >>> names_topic("jordan will you", "Jordan is 21 on the 14th"), names_topic("the move to Berlin", "Berlin is cold")
    (True, False)
    >>> names_topic("my back, disc, physio, everything", "Physio is on Mondays")
    True
    >>> names_topic("my ex, relax and sleep", "I sleep well"), names_topic("my ex, sleep and diet", "My sleep is bad")
    (False, True)
    >>> names_topic("小指发麻", "右手小指老是麻"), names_topic("老孙借钱", "老孙来过")
    (True, False)
    """
    # Both in one language, since a word has a stem in each: the topic alone is too short to tell its own.
    language = language_of(text)
    text, there = simplify(text), _words(text, language)
    plain = _LAST_ZH.sub(r"\1、", _BESIDES.sub(" ", simplify(topic)))
    things = {thing for thing in _LIST.split(plain) if len(thing.split()) <= _LISTED}
    if _SEVERAL_THINGS.fullmatch(plain.strip()):
        # In "my ex, relax and sleep" verbs follow: what is to be forgotten has to be a thing where it is told of.
        things = {thing for thing in things if _OWN.match(thing) or _is_a_thing(thing.strip(), text)}
    else:
        things.add(plain)
    return any(_stands_in(_words(thing, language), there) for thing in things)


def _is_a_thing(words: str, text: str) -> bool:
    """Whether words stand in a text behind "my", "the" and the like, or begin what is said of them: "Phone: 0151"."""
    plain = re.escape(words)
    return bool(
        re.search(rf"(?:\b(?:my|our|your|his|her|their|the|an?|this|that)|'s) (?:\w+(?<!s) )?{plain}\b", text, re.I)
        or re.search(rf"(?:^|[.!?;]\s*){plain}(?::| is\b| are\b)", text, re.I)
    )


def _stands_in(wanted: set[str], there: set[str]) -> bool:
    # The bar is high, since a memory that is forgotten by mistake is lost.
    least = len(wanted) if len(wanted) <= 2 else _SHARE * len(wanted)
    return bool(wanted) and len(wanted & there) >= least


def _words(text: str, language: str) -> set[str]:
    plain = simplify(text)
    return {term for term in terms(plain, language) if not _HAN.search(term)} | set(
        _HAN.findall(_PARTICLES.sub("", plain))
    )


_HAN: Final = regex(r"[\u4e00-\u9fff]")
_PARTICLES: Final = regex(r"[我你您他她跟和的那这吧了啊呀哈]|个$")
_SHARE: Final = 2 / 3
# A wish is looked for in so many characters; nobody puts one into a longer sentence.
_READ: Final = 1_000
CLAUSE_ENDS: Final = regex(r"(?<=[\u4e00-\u9fff])\s+(?=[\u4e00-\u9fff])")
"""Where a Chinese clause ends: many people write blanks in place of commas."""
# Words before the verb that name nothing.
_COURTESY_ZH: Final = regex(r"请|麻烦|拜托|可以|能不能|可不可以|不?能|先|千万|我?想|我?要|帮我|给我|[你您都也就再]")
# "Jordan, but remember …" and "Jordan, I love pizza" say something else behind the topic.
_NEXT_CLAUSE: Final = regex(
    r",?\s+(?=but\b)|,\s*(?=(?:i|i'?m|i'?ve|we|so|because|use|answer|always|never|from now on)\b)"
    r"|(?:,|\s+and\b|,\s*and\b)\s*(?=(?:please |also |instead )*(?:remember|note|call|write|from now on)\b)",
    re.IGNORECASE,
)
_AROUND: Final = " ,，;；、"
# "My son asked" and 妈妈总说 bring in what somebody else says; "as I said" does not.
_CITED: Final = regex(
    r"(?:^|[.!?;,]\s*)(?!(?:(?:as|like|and|but) )?I\b)[^.!?;,]*\b(?:said|says|asked|asks|told|tells|wrote|writes|read|reads|begged|begs|replied)(?: \w+){0,2}$"
    r"|(?:^|[，。！？；])(?!我)[^，。！？；]*(?:说|讲|劝|问|写|喊|告诉|求|回)(?:[我他她]们?|过|道|了)?$",
    re.IGNORECASE,
)
# So many words or characters are more than a courtesy.
_SAYS: Final = regex(r"(?:[a-z]['a-z]*\W+){2}[a-z]|[\u4e00-\u9fff]{4}", re.IGNORECASE)
_SAYS_ZH: Final = regex(r"[\u4e00-\u9fff]{4}")
_LIST: Final = regex(r"[,;/、，；]|\b(?:and|or)\b")
# 工资、地址和电话; without 、 two people may have one matter: 小王和小丽吵架.
_LAST_ZH: Final = regex(r"(、[^、和与及]+)(?:和|与|以?及)(?=[^、]{2,}$)")
# A part of a list with more words is hardly a thing; it is a clause that follows the list.
_LISTED: Final = 4
# Words of a topic that name nothing: "that I told you", "stuff", "any more".
_BESIDES: Final = regex(
    r"\b(?:(?:that|which)? ?(?:i|we|i've|ive|i'd) (?:ever )?(?:just )?(?:told|said|mentioned|gave|shared|wrote)(?: to)?(?: (?:you|u|ya))?)\b"
    r"|\b(?:will you|would you|please|pls|thanks|ok(?:ay)?|for me|again|any ?more|way back|earlier|last time|the other day"
    r"|numbers?|stuff|things?|bits?|business|details?|info(?:rmation)?|both|everything|all of (?:it|them))\b"
    r"|^(?:还有|另外|再有)?(?:帮我)?(?:把|将)?|我?(?:之前|以前|刚才|上次)?(?:说|讲|提)过?的?|数字|信息|细节",
    re.IGNORECASE,
)
# "Forget my coat, it's at the office": a thing that lies somewhere is left there, not in the memory.
_LEFT: Final = (
    r"(?![^.!?;]*\b(?:it|they|them)(?:'s|'re| is| are)?(?: \w+ly| still| just| already)? "
    r"(?:at|in|on|under|behind|near|with|here|there)\b)"
)
# "my salary, address and phone": things of one or two words, up to the end of the clause; not "our trip to Rome, Paris and Oslo".
_ONE: Final = r"\s*(?!(?:i|we|you|u|it|he|she|they)\b)(?:(?:my|our|the) )?[\w'-]+(?: [\w'-]+)?"
_SEVERAL: Final = (
    rf"(?:my|our){_ONE}(?:,{_ONE})+,? (?:and|or){_ONE}(?=\s*(?:$|[.!?;]|,? (?:please|pls|thanks|ok)\b|,? but\b))"
)
_SEVERAL_THINGS: Final = regex(_SEVERAL, re.IGNORECASE)
_OWN: Final = regex(r"\s*(?:my|our|the)\b", re.IGNORECASE)
# What people work on, and delete something from.
_TEXT: Final = r"(?:essay|draft|document|doc|code|letter|e-?mail|mail|resume|cv|slides?|speech|article|novel|poem|report|script|spreadsheet|table|list|page|file|repo|text|post)s?"
_TEXT_ZH: Final = r"(?:(?:文章?|标题|购物车|日[历程]|手机|电脑|相册|邮箱|表格?|列表|名单|清单|草稿|简历|论文|报告|歌单|桌面|网盘|朋友圈|群)[里中上]|结尾|开头|这篇)"
# Texts that only look like a topic: "forget it", "forget to …", "delete the second paragraph".
_NO_TOPIC: Final = regex(
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b.*|(?:today|tomorrow|yesterday|tonight)\b.*|.*\band (?:i'll|i will)\b.*|it|that|this|me|him|her|them|us|anything|something|to .*|how .*|(?:my|our) (?:last|previous|earlier|first) .*|[这那它他她我个]|这个|那个|过去|往事|烦恼|算了|不[开愉][心快]|带.*|(?:跟|和|告诉)你.*"
    # A text that is worked on, or a question.
    rf"|.*\b(?:from|in|of|on|off) (?:(?:the|this|that|these|those|my|our|your|his|her|its|their|an?) )?(?:\w+ )?{_TEXT}"
    r"|(?:my|our) (?:\w+ )?(?:questions?|typos?|mistakes?|messages?|comments?|remarks?|requests?|manners|rudeness)"
    rf"|.*{_TEXT_ZH}.*"
    r"|.*(?:[句段行项字词图页稿]|循环|代码|文件|怎么|什么|吗|\b(?:lines?|paragraphs?|sentences?|words?|sections?|slides?|rows?|columns?)\b).*)",
    re.IGNORECASE,
)
_ERASES: Final = regex(
    r"\b(?:delete|erase|wipe|remove|scrub|borr[ae]|elimina|elimine|lösch\w*|efface[rz]?|supprime[rz]?|apagu?[ae]|cancella|удалите?|сотрите?|usuń|skasuj|sil(?=\W*$))\b|[删刪抹]|削除|消して|지워|삭제",
    re.IGNORECASE,
)

# "From now on don't record my weight" is a wish for later; what is stored already stays.
_FROM_NOW_ON: Final = regex(
    r"\b(?:from (?:now|today) on(?:wards)?|in (?:the )?future|going forward)\b|[以今往]后|从现在(?:起|开始)?",
    re.IGNORECASE,
)
_DROPS: Final = regex(
    r"\b(?:forget|forgot|delete|erase|wipe|scrap|remove|scrub|drop|strike|scratch|take|get)\b|[忘删抹]", re.IGNORECASE
)

_REQUEST: Final = r"(?:can you |could you |would you |you can |you should |i want you to |i'd like you to |i need you to )?(?:please |pls |just )?"
# 你忘了我的生日 without a wish or a question in it is a reproach.
_ASK: Final = (
    POLITE
    + r"(?:我(?:希望|想要?|要)[你您]|(?:我(?:希望|想要?|要))?[你您]?(?:能不能|可不可以|能否|可以|能))?"
    + _REQUEST
)
# Where a sentence begins, since its middle may tell of the author: "I'm in a hurry and forget my keys".
_PLAINLY: Final = rf"(?:{_CALL}|^|[.!?;]\s*|,\s*(?:and |but |so )?(?:also )?(?=please|pls))(?:(?:ok(?:ay)?|oh|hey|hi|actually|also|and|so|no|yeah|well|sorry|please|pls|plz)[,\s]+)*"
_DROP: Final = r"(?:forget|delete|erase|wipe|scrap|remove|scrub|drop|strike|scratch)"
_NOT_KEEP: Final = r"(?:do not|don't|dont|stop) (?:keep|store|save|remember|record|hold on to|note|keeping|storing|saving|remembering|recording|holding on to)"
_THING: Final = r"(?:what|everything|anything|all|whatever|(?:the|that|this|those|all that|all the)(?: whole| entire)? (?:things?|stuff|bits?|parts?|business|story|details?|info(?:rmation)?|lot))\b"
_TOLD: Final = r"(?: (?!about\b)\w+'?\w*){0,6}?"  # "that I ever told ya"
_NAMED: Final = r" (?:about|abt|concerning|regarding) "
# "drop the part about my aunt" is about a speech; "forget the part about …" is not.
_EDIT: Final = rf"(?!forget)\w+ (?:the|that|this|those) (?:\w+ )?(?:things?|bits?|parts?|story|details?){_NAMED}"
_PLACE: Final = r"(?:memory|memories|brain|head|mind|notes|records)\b"
# "Take a load off your mind", "get that song out of your head": only what is the author's own is surely meant there.
_IDIOM: Final = rf"(?!(?!my\b|our\b|{_THING})[^.!?;]* your (?:brain|head|mind)\b)"
_PLACE_BEHIND: Final = regex(rf"\s+(?:from|in|out of|off) (?:your|ur) {_PLACE}.*", re.IGNORECASE)
_TOLD_ZH: Final = r"(?:我?(?:之前|以前|刚才|上次)?(?:说|讲|提|告诉你)过?的?)?"
# 把, 被 and 让 in it would tell a story: 我妈让我把游戏删掉.
_TOPIC_ZH: Final = r"(?=[^，。！？,：:]{0,29}[\u4e00-\u9fff])(?P<topic>[^，。！？,：:把被让]{1,30}?)\s*"
_MATTER_ZH: Final = r"(?:的|嘅|那个|这个|那件|这件|那些|这些|那点|数字)*(?:事情|事儿|事|内容|信息|嘢)?"
_DROP_ZH: Final = r"(?:忘掉|忘了吧|忘记吧|删一?下|delete ?掉?|forget ?掉?|删[掉了除]|抹[掉去]|别再?[记留存]着?|(?:不[要用]|唔好|唔使)再?[记留存]|不用记)"

# 微信删掉了 and 把微信删掉了 tell what was done, but 微信删掉了吧 and 把地址删了 ask for it.
_TO_DO_ZH: Final = r"(?:(?=了?吧)|(?!了)(?(as_told)|(?<!删了)))"
# What stands behind the verb is its object, and the topic only who or when: 明天删除旧账号, 考试不用记公式.
_END_ZH: Final = r"(?:住|下来?|录)?(?:了|喇|啦|吧|吗|呀|啊|呢|哦|谢谢|好吗|好不好|行吗|可以吗|pls|please)*(?=\W|$)"

# Other languages: the verb, "everything I told you about", "my", what stands behind the topic, and what is "my" but no
# topic, a question or a message. Only where that is all of a sentence, so that nothing else in it is lost.
_ELSEWHERE: Final = (
    (r"(?:olvid[ae]|olvídate de|borr[ae]|elimin[ae])", r"(?:todo )?lo que (?:te|le) (?:dije|conté|comenté|he (?:dicho|contado)) (?:sobre|de|acerca de) (?:mis? |el |las? |los )?",
     r"mis? ", "", r"preguntas?|mensajes?|error(?:es)?|comentarios?|últim[ao]s?"),
    (r"(?:vergiss|vergesst|vergessen sie|lösche?|löschen sie)(?: bitte)?", r"(?:alles, ?|das, ?)?was ich (?:dir|ihnen) (?:über|von) (?:mein\w* |den |die |das )?",
     r"mein(?:e[nmrs]?)? ", r" (?:erzählt|gesagt|geschrieben) habe?", r"(?:letzte\w* )?(?:frage|nachricht|fehler|bitte|kommentar)\w*"),
    (r"(?:oubli|effac|supprim)ez?", r"(?:tout )?ce que je (?:t'|vous )ai (?:dit|raconté) (?:sur|de|à propos de|au sujet de) (?:les? |la |l'|mon |ma |mes )?",
     r"(?:mon|ma|mes) ", "", r"questions?|messages?|erreurs?|remarques?|derni\w+"),
    (r"(?:esqueç[ae]|esquece|apagu?[ae])(?: d[oae]s?)?", r"(?:tudo )?o que (?:eu )?(?:(?:te|lhe) )?(?:contei|disse|falei) (?:(?:pra|para) você )?(?:sobre|d[oae]s?) (?:[oa]s? )?(?:meus? |minhas? )?",
     r"(?:[oa]s? )?(?:meus?|minhas?) ", "", r"perguntas?|mensage[mn]s?|erros?|comentários?|últim[ao]s?"),
    (r"(?:dimentica|dimenticati (?:di|del|dei|della|delle)|scorda|cancella)", r"(?:tutto )?(?:quello|ciò) che ti ho (?:detto|raccontato) (?:su|di|del|della|sul|sulla) (?:il |la )?(?:mi[oa] )?",
     r"(?:(?:il|la|i|le) )?(?:mio|mia|miei|mie) ", "", r"domand[ae]|messaggi\w?|error[ei]|comment[io]|ultim[aoei]"),
    (r"(?:забудь|забудьте|удали|удалите|сотри|сотрите)(?: (?:про|об|обо?|о))?", r"вс[её],? что я (?:тебе |вам )?(?:говорил|рассказ(?:ыв)?ал|сказал)а? (?:тебе |вам )?(?:про|об|о) (?:мо\w+ )?",
     r"мо[йяеёюимхг]{1,3} ", "", r"(?:последн\w+ )?(?:вопрос|сообщени|ошибк|просьб)\w*"),
    (r"(?:zapomnij|zapomnijcie|usuń|skasuj)(?: o)?", r"(?:wszystko|wszystkim),? co (?:ci )?(?:mówił|powiedział|opowiadał)[ae]m (?:ci )?o (?:mo\w+ )?",
     r"(?:moj\w+|mój|moim) ", "", r"(?:ostatni\w* )?(?:pytani|wiadomoś|błęd|prośb)\w*"),
    (r"(?:انسَ|انس|انسى|إنسى|احذف|احذفي)", r"كل ما (?:قلته|قلت|أخبرتك به) (?:لك )?عن ", r"(?=\w+ي\b)", "", r"سؤالي|رسالتي"),
)  # fmt: skip
PLEASE: Final = r"(?:(?:por favor|bitte|please|s'il (?:te|vous) pla[iî]t|stp|svp|per favore|per piacere|пожалуйста|proszę|lütfen|من فضلك|कृपया)[,\s]*)?"
# "Vergiss mein Gehalt nicht" asks for the opposite, and "esquece meu aniversário sempre" tells of somebody.
_FEW_WORDS: Final = r"(?P<topic>(?!(?:nicht|nie\w*|sempre|siempre|ogni|todos?|cada)\b)[^\s,.;:!?]+(?: (?!(?:nicht|nie\w*|sempre|siempre|ogni|todos?|cada)\b)[^\s,.;:!?]+){0,3}?)"
_NOBODY_JA: Final = (
    r"(?!さっき|今|昨日|前の|それ|これ|あれ|その|この|あの|彼|彼女|あなた|君|私のこと|僕のこと|俺のこと|全部|みんな)"
)

_MENTIONED: Final = r"(?:i|we)(?: ever| even)? (?:told|said|mentioned|brought up|talked|asked)\b"

_WISHES: Final = tuple(
    regex(pattern, re.IGNORECASE)
    for pattern in (
        # forget everything I told you about X
        rf"{_ASK}(?!{_EDIT}){_DROP} {_THING}{_TOLD}{_NAMED}(?P<topic>[^.!?;]+)",
        # what I told you about X, forget that bit
        rf"{_ASK}{_THING}{_TOLD}{_NAMED}(?P<topic>[^.!?;,]+)[,.;]? (?:can you |could you |please |pls |just |i'd rather you )*"
        rf"(?:{_DROP}|forgot|{_NOT_KEEP}|didn't (?:keep|store|remember)) (?:it|that|this|them|all)\b",
        # take X out of your notes, delete X from your memory
        rf"{_ASK}(?:{_DROP}|take|get) {_IDIOM}(?P<topic>[^.!?;]{{2,60}}?) (?:from|out of|off) (?:your|ur) {_PLACE}",
        # don't keep anything about X
        rf"{_ASK}{_NOT_KEEP} (?:{_THING}{_TOLD}{_NAMED}|about )(?P<topic>[^.!?;]+)",
        rf"{_ASK}(?:do not|don't|dont|stop) remember(?:ing)? (?:(?:anything |that )?about |anything |that |(?=(?:my|our)\b))(?!(?:what|where|who|when|why|if|whether)\b)(?P<topic>[^.!?;,]+)",
        # pretend I never told you about X
        rf"{_ASK}(?:pretend|act (?:like|as if)) i (?:never|haven't|didn't) (?:tell|told|say|said|mention|mentioned|bring up|brought up)"
        r"(?: (?:you|u|anything|it))*(?: about| that)? (?P<topic>[^.!?;]+)",
        # forget that I ever told you about X
        rf"{_ASK}{_DROP} (?:that )?{_MENTIONED}(?: (?:you|u|anything|to you))*(?: about| that)? (?P<topic>[^.!?;,]+)",
        # forget my X, forget that I do X, delete that I have X
        rf"{_PLAINLY}{_REQUEST}(?:forget (?:(?:about |that )?(?=(?:my|our)\b){_LEFT}|(?=(?:i|we)\b(?!(?:'ve)? (?:forg[eo]t|exist))))|(?:forget|delete|erase) that (?=(?:i|we)\b))"
        rf"(?!{_MENTIONED})(?P<topic>{_SEVERAL}|[^.!?;,]+)",
        # 老孙借钱的事你忘了吧
        rf"{_ASK}(?:再有|还有|对了|另外)?[,，]?\s*(?P<as_told>把|将)?{_TOLD_ZH}(?:关于|有关)?{_TOPIC_ZH}{_MATTER_ZH}[,，]?\s*"
        rf"(?:你|您|请|都|全|统统|帮我|给我|就|pls|please)*\s*(?<![没别])(?<!(?<!给)我)(?<!了[,，]){_DROP_ZH}{_TO_DO_ZH}{_END_ZH}",
        rf"{_ASK}{_TOLD_ZH}{_TOPIC_ZH}{_MATTER_ZH}[,，]?\s*(?:你|您|请)?(?:就|权)?当我?没(?:有)?(?:说|讲|提)过?",
        # 忘掉我说的关于小李的事
        rf"{_ASK}(?:(?P<asked>(?<=可以)(?:忘掉|忘记|删掉|删除)|别再记住?|不要再记住?|别记住?|(?:不要|唔好)记住?|不用记住?)|忘掉|忘了|忘记|删掉|删除)(?![账录忆者恨仇挂错在]|得[太很]|告诉|[跟和][你您]|[说讲提](?!过?的))得?{_TOLD_ZH}(?:所有|全部)?(?:关于|有关)?"
        # 忘记密码了 tells what happened, but 别再记我的体重了 and 你可以忘掉我的生日了 ask for it.
        r"(?P<topic>[^，,。！？了吧吗]{2,30}?)(?:的事情|的事|的内容|的信息|这件事|的话)?(?=[，,。！？吧吗]|$|了(?(asked)|吧))",
        *(
            rf"^{PLEASE}{verb},? {PLEASE}(?:{told}|{my}(?!(?:{no_topic})\b)){_FEW_WORDS}(?:{end})?(?:,? {PLEASE})?[\s.!。]*$"
            for verb, told, my, end, no_topic in _ELSEWHERE
        ),
        # Where the verb ends the sentence: "my …", "everything about …".
        rf"^{_NOBODY_JA}(?:(?:私|わたし|僕|俺)の)?(?P<topic>[^、。！？!?\s]{{1,20}}?)(?:のこと|の話|について(?:話|言)ったこと)[はをも]?(?:もう|全部|すべて)*(?:忘れて|消して|削除して)(?:ください|下さい|くれ|ほしい|ね|よ)*[。！!\s]*$",
        r"^(?:내|제|나의|저의) (?!질문|메시지)(?P<topic>[^\s,.!?]+?)(?:은|는|을|를|에 대한 건|에 대해서?는?|이야기는?)? (?:이제 |다 |전부 |그냥 |제발 )*(?:잊어|지워|삭제해) ?(?:줘|주세요|버려|줄래)요?[.!\s]*$",
        r"^(?P<topic>[^,.!?]{1,30}?)(?:에 대해서?|에 관해) (?:내가 |제가 )?(?:말한|얘기한|이야기한|했던 말|한 말) ?(?:건|거|것은|것을|것|은|을)? (?:이제 |다 |전부 )*(?:잊어|지워|삭제해) ?(?:줘|주세요|버려)요?[.!\s]*$",
        rf"^{PLEASE}(?P<topic>[^,.!?]{{1,30}}?) hakkında (?:sana |size )?(?:söyledik|anlattık|söyledi[gğ]im |anlattı[gğ]ım )\w*(?: her ?şeyi)? (?:unut|sil)[.!\s]*$",
        rf"^{PLEASE}(?:मेर[ाीे] )(?!सवाल|संदेश)(?P<topic>[^,.!?।]{{1,30}}?)(?: के बारे में| की बात| को)? भूल (?:जाओ|जाइए|जा|जाना)[.!।\s]*$",
    )
)
