"""Which words of a person are almost certainly no statement: fiction, role play, pasted text, code, questions.

In doubt the words are kept, and other modules judge whether they tell something lasting. English and Chinese have rules
of their own.
"""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from reme_core.text.forgetting import topic_to_forget
from reme_core.text.regex import any_of, regex
from reme_core.text.signs import simplify
from reme_core.types import Message

# Characters beyond which a message is taken for pasted text; people say things about themselves in fewer words.
_LONGEST_SAID: Final = 1_500
BESIDE_WISH: Final = ("fiction", "text")
"""The reasons for setting a message aside beside which its author may wish something: "fix only the typos, always"."""


def unreal(messages: Sequence[Message]) -> dict[str, str]:
    """The messages of people that state no facts about them, each with the reason.

    Reasons: `fiction`, `joke`, `role play`, `text` (pasted, or to be worked on), `question` (nothing else). A message
    is a joke only if a person says so ("just kidding"); what the same person said before it in the session is one, too.
    """
    reasons: dict[str, str] = {}
    playing: set[str] = set()
    before: dict[tuple[str, str], str] = {}  # by session and author: who owns up to a joke made it
    for message in messages:
        if message.role != "user":
            continue
        # A longer message is taken for pasted text, so the patterns need not read all of it.
        text, session = simplify(message.content[: _LONGEST_SAID + 1]), message.session_id
        if session in playing and _PLAY_ENDS.search(text):
            playing.discard(session)
        elif _PLAY_BEGINS.search(text):
            playing.add(session)
        if session in playing:
            reasons[message.message_id] = "role play"
        elif _OWNED_UP.search(text):
            if (session, message.author) in before:
                reasons[before[session, message.author]] = "joke"
            # What follows the confession is meant seriously again.
            rest = _AFTER_FIRST.sub("", text, count=1)
            if not rest.strip() or _reason(rest):
                reasons[message.message_id] = "joke"
        elif reason := _reason(text):
            reasons[message.message_id] = reason
        before[session, message.author] = message.message_id
    return reasons


def sentences(text: str) -> list[str]:
    """The sentences of a message, without code and embedded lines; those within quotation marks stay where they are."""
    lines = [line for line in _CODE.sub(" ", text).splitlines() if not line.lstrip().startswith(_EMBEDDED)]
    parts = [part.strip() for line in lines for part in _ENDS.split(line)]
    return [part for part in parts if re.search(r"\w", part)]


def own_words(text: str, mark: str = " ") -> str:
    """What an author says in words of their own: without code, quotations, lines of logs and chats, and marked blocks.

    Where a quotation was stands the `mark`.

    >>> own_words("A sign said 'always knock'. Call me Sam"), own_words('she wrote: "call me Ann')
    ('A sign said  . Call me Sam', 'she wrote: ')
    """
    text = _PASTED.sub(" ", _CODE.sub(" ", text))
    return _UNCLOSED.sub("", _QUOTED.sub(mark, text))


def asks(sentence: str) -> bool:
    """Whether a sentence is a question and nothing else.

    >>> asks("what do lentils need?"), asks("I'm vegetarian, so what could I cook?"), asks("你住哪儿呢")
    (True, False, True)
    """
    plain = simplify(sentence)
    return bool(_ASKS.search(plain)) and not _STATES_BEFORE.search(plain)


def asks_for_text(text: str) -> bool:
    """Whether somebody asks in another language than English and Chinese that a text be written, or translated.

    >>> asks_for_text("Übersetze: „Ich wohne in Wien.“"), asks_for_text("Ich schreibe Gedichte")
    (True, False)
    """
    return bool(_WORK_ELSEWHERE.search(text))


def _reason(text: str) -> str:
    if len(text) > _LONGEST_SAID or _WORK.search(text) or asks_for_text(text):
        return "text"
    if _FICTION.search(text):
        return "fiction"
    said = sentences(_without_quotes(text))
    if not said:
        return "text"
    # "could you forget my birthday?" tells nothing, but has to be carried out
    return "question" if all(asks(sentence) and not topic_to_forget(sentence) for sentence in said) else ""


def _without_quotes(text: str) -> str:
    """The text without what somebody else says in it in the first person."""
    return _QUOTED.sub(lambda match: " " if _FIRST_PERSON.search(match[0]) else match[0], text)


_CODE: Final = regex(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
# How lines begin that are cited, or are of a table, a heading, or a comment in code.
_EMBEDDED: Final = (">", "|", "#", "//", "/*", "<!--")
# Where a sentence ends; the point of "Dr." ends none.
_ENDS: Final = regex(r"(?<=[。！？；])|(?<=[.!?;])(?=\s)(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bSt\.)(?<!\bMrs\.)|\n")
_AFTER_FIRST: Final = regex(r"^[^.!。！\n]*[.!。！\n]?")
_QUOTED: Final = regex(
    r"\"[^\"]+\"|„[^„“”]+[“”]|“[^“”]+”|「[^「」]+」|『[^『』]+』|«[^«»]+»|»[^«»]+«|(?<!\w)['‘](?:[^'‘’\n]|(?<=\w)['’](?=\w)){1,400}['’](?!\w)"
)
# Lines of mails and logs, speakers of a chat, and blocks between marks.
_PASTED: Final = regex(
    r"^[ \t]*(?:>|\d\d:\d\d:\d\d\b|[\[(<*]{0,2}(?:system|user|assistant|human|bot\w?)[\])>*]{0,2}[:,：]|\[system\]).*$|<<<[^<>]*>>>|(?<!-)---(?!-)[^-]*(?:-[^-]+)*---",
    re.IGNORECASE | re.MULTILINE,
)
# A quotation that never ends takes the rest of the text.
_UNCLOSED: Final = regex(r"(?:(?<!\w)\"|[„“「『«]).*\Z", re.DOTALL)
_FIRST_PERSON: Final = regex(r"\bI\b|\bmy\b|我", re.IGNORECASE)
_WORKS_OF: Final = (
    r"(?:novel|story|book|screenplay|script|game|dream|nightmare|poem|song|film|movie|play|campaign|fanfic\w*"
    r"|role-?play|novella|comic|simulation|parallel universe)"
)
_FICTION: Final = any_of(
    rf"\b(?:in|for|from) (?:my|the|this|a|our|that|his|her) (?:\w+ ){{0,2}}{_WORKS_OF}\b(?! (?:job|car|house|holiday))",
    rf"\b(?:{_WORKS_OF}|chapter|scene) (?:goes|begins|starts|opens)\b",
    r"\b(?:my|the|our) (?:\w+ )?(?:character|protagonist|narrator|hero|heroine|villain|alter ego|avatar)\b",
    r"\bonce upon a time\b|\bfiction(?:al)?\b|\bmake-believe\b|\b(?:chapter|scene) (?:\d+|one|two)\s*[:.]",
    r"^\W*(?:just )?(?:imagine|suppose|picture this)(?: that)?,? (?:I|we|you)\b|^\W*(?:想象一下|设想一下)",
    r"\bD&D\b|\bdungeon master\b|跑团|写的(?:歌词?|诗|小说|故事|剧本|台词)",
    r"\b(?:screenplay|script|scene|dialogue) (?:check|draft|excerpt|snippet)\b|^(?:INT|EXT)\. |\b(?:in|for) (?:our|my|the|a) (?:quiz|riddle)\b",
    r"\bI dream(?:ed|t)\b|\bin character\b|\b(?:act|speak|talk) as if\b",
    r"(?:我的?|这部?|那部?|在|某)?(?:小说|故事|剧本|游戏|梦|电影|漫画|诗|歌词|话剧)(?:里|中|当中)",
    r"主人公|主角|男主|女主|反派|虚构|(?:我|昨晚|昨天)?(?:做梦|梦见|梦到)|从前有|第[一二三四五六七八九十\d]+章",
)
# "no, just kidding", 开玩笑的
_OWNED_UP: Final = any_of(
    r"^\W*(?:(?:no|nah|ha\w*|sorry|ok(?:ay)?|oh)\W+)*(?:(?:I(?:'m| am| was)|that was)\s+)?(?:just|only|totally)?\s*"
    r"(?:kidding|joking|jk|a joke|messing with you|pulling your leg)\b",
    r"^\W*(?:不是|不|没有|好吧|哈+)?[，,\s]*(?:我|刚才)?(?:是|在|只是|跟你)?(?:开(?:个)?玩笑|骗你|逗你|说笑|瞎说)",
)
_PLAY_BEGINS: Final = any_of(
    r"\brole[- ]?play|\blet'?s (?:pretend|play (?:a game|make-believe|that|pretend))|\bpretend (?:that |to be |you|I(?! (?:never|haven't) (?:t[eo]ll?d?|sa(?:y|id)|mention|br(?:ing|ought)))|we)",
    r"\b(?:I'll|I will|you'll|you will|I'm going to) (?:be|play) (?:a|an|the|as|your|my) [^.]{0,40}?\b(?:and|while|,)"
    r" (?:you|I)(?:'ll|'re| will| are|'m| am| be| play)\b",
    # What follows is rehearsed, or is material to work on, one piece after the other.
    r"\b(?:help me|let'?s|can we|can you|could you|will you)\b[^.!?\n]{0,20}\b(?:rehearse|(?:run|read|practi[sc]e|go over) (?:my |the |some |these |our )?lines)\b",
    r"\b(?:i(?:'?ll| will|'?m (?:going to|gonna)| am going to)|let me) (?:just )?(?:give|send|read|feed|show|type|paste|say|dictate)(?: you| u| out)? (?:\w+ ){0,4}(?:lines?|verses|lyrics|sentences?|phrases?|dialogue)\b(?! of code)[^.!?\n]{0,30}\b(?:per message|at a time|one by one|and (?:you|u)|(?:you|u) (?:just )?(?:tell|give|translate|write|correct|answer))\b",
    r"(?:^|[.!?,]\s*|\byou |\bplease )(?:translate|correct|rate) (?:everything|whatever|each (?:line|sentence)|every (?:line|sentence)) I\b|\bdictation (?:time|practice|exercise)\b|\blet'?s do (?:some |a )?dictation\b",
    r"(?:^|[，。！？\s你请能来])[陪跟和帮给]我[^，。！？]{0,4}(?:对(?:一下|一?[个次遍])?(?:台词|戏|词)|排练|排戏|听写)|我[^，。！？]{0,2}(?:一句一句|一条一条|逐句)[^，。！？]{0,2}(?:说|发|念|给|打)|我(?:说|发|念|给|打)[^，。！？]{0,4}(?:一句|句子|台词|例句)[^。！？]{0,8}你[^，。！？]{0,4}(?:翻|改|纠|念|接|评)",
    r"角色扮演|我们?来?扮演|演(?:一[出场]|个)?(?:戏|小品)|假装|你(?:来)?扮演|我(?:来)?扮演|玩(?:个|一个)游戏",
)
_PLAY_ENDS: Final = any_of(
    r"\b(?:stop|end|enough of|enough with|quit|finish|leave) (?:the |this |our |with the )?(?:game|role|play|pretend|act)",
    r"\bgame over\b|\bback to (?:reality|normal|real life|being me)\b|\bout of character\b|\booc\b"
    r"|\bno more (?:games|role|pretend)",
    r"\bthat(?:'s| was) (?:all|it|the last)\b[^.!?\n]{0,12}\b(?:lines?|sentences?|for (?:today|now)|one|of them)\b|对到这|收工|就练到这|练完了",
    r"(?:游戏|扮演|表演|排练)(?:到此)?(?:结束|为止)|不玩了|回到现实|说正经的|言归正传|别演了",
)
# "please translate the following text", 帮我写一首诗: what comes with such a request is no statement of the person's own.
_WORK: Final = any_of(
    r"(?:^|[.!?\n]\s*|\bplease\b|\b(?:can|could|would|will) you\b|\bhelp me(?: to)?\b|\bneed you to\b)\s*(?:please )?"
    r"(?:translate|proofread|rewrite|re-?phrase|paraphrase|summari[sz]e|correct|improve|edit|polish|analy[sz]e|classify"
    r"|write|compose|draft|finish|continue|complete)\b[^.!?\n]{0,60}"
    r"\b(?:this|following|below|text|sentence|paragraph|story|poem|song|letter|e-?mail|essay|speech|dialogue|scene|bio"
    r"|post|message|quote|lyrics|draft|verse|monologue|slogan)s?\b",
    r"\b(?:shorten (?:this|that|it)|turn (?:this|that|it|these) into)\b|\bsubject lines?\b[^.!?\n]{0,20}\bfor (?:this|the following)\b|提炼|错别字|(?:翻|译)成",
    r"^\W*(?:please )?(?:translate|proofread|rewrite|re-?phrase|paraphrase|summari[sz]e|correct|edit|polish)\b[^:\n]{0,30}:",
    r"\b(?:here is|here's|below is|this is) (?:an?|the|my friend's|his|her|their) (?:\w+ ){0,2}(?:text|e-?mail|letter|post"
    r"|article|transcript|review|diary|quote|log|story|poem)\b",
    r"(?:翻译|润色|改写|总结|概括|修改|校对|分析|续写|仿写)(?:一下|下面|以下|这|成|为|\s*[:：])|(?:帮[我忙]|请|给我)(?:写|编|作|续)"
    r"(?:一|个|首|篇|段|封)[^。]{0,12}(?:故事|小说|诗|歌词|剧本|童话|story|poem)",
    r"(?:以下|下面)(?:是|的)[^。]{0,12}(?:文章|邮件|信|文字|段落|对话|日记|评论|原文)",
)
# In other languages: "translate" before a colon or a quotation, and "write a poem", both as a command.
_WORK_ELSEWHERE: Final = any_of(
    r"^\W*(?:(?:bitte|por favor|пожалуйста|proszę|şunu)[,\s]+)?(?:übersetz(?:e|t|en sie)?|tradu(?:ce|zca|cid|ceme|z|za|zir)|tradúceme|traduis|traduisez|traduire|traduci|vertaal|переведи(?:те)?|przetłumacz\w*|çevir|ترجمي?|अनुवाद कर\S*)(?: [^\s:\"„«“»]+){0,4}\s*[:\"„«“»]",
    r"^\W*(?:(?:bitte|por favor|s'il te plaît|per favore|пожалуйста|proszę)[,\s]+)?(?:schreib|schreibe|escribe|escríbeme|écris|écris-moi|écrivez|scrivi|scrivimi|escreva|escreve|напиши|напишите|napisz|schrijf|اكتب|اكتبي)\b[^.!?\n]{0,25}"
    r"\b(?:gedicht|geschichte|märchen|lied|cuento|poema|canción|relato|poème|conte|histoire de|histoire sur|chanson|poesia|racconto|storia|fiaba|canzone|conto|história|música|poesía|рассказ|сказку|стих\w*|стихотворение|песню|wiersz|opowiadanie|bajkę|piosenkę|verhaal|sprookje|gedicht|liedje|قصة|قصيدة|أغنية)\b",
    r"\b(?:şiir|hikâye|hikaye|öykü|masal|şarkı)\w* yaz(?:ar mısın|ın)?\b|(?:कविता|कहानी|गीत) लिख(?:ो|ें|िए| दो)",
    r"(?:俳句|短歌|詩|诗|物語|物语|小説|小说|歌詞|歌词)を[^。、]{0,6}(?:書い|书い|作っ)て(?:ください|下さい|くれ|ね|ほしい|[。:：\s]|$)|(?:訳し|翻訳し|翻译し)て(?:ください|下さい|くれ|ね|ほしい|[。:：\s]|$)",
    r"(?:시|하이쿠|이야기|소설|동화|노래 ?가사)(?:를|을)? ?(?:하나 |한 편 )?(?:써|지어) ?(?:줘|주세요)|번역해 ?(?:줘|주세요)",
)
_ASKS: Final = regex(
    r"[?？]\s*[\"”』」)]?\s*$|(?:吗|呢|么)[。！.!~～]?\s*$"
    r"|^\W*(?:(?:so|ok(?:ay)?|and|haha|hey|hi|perfect|thanks|ta)[,.\s]+)*(?:what|who|where|why|how|which)(?:'?s| is| are| do| does| did| would| can"
    r"| could| should)\b|^\W*(?:can|could|would|will|do|does|did|is|are|should) (?:you|u|i|we|it|they|he|she|there|this|that)\b"
    r"|(?:怎么|什么|哪里|哪儿|多少钱|几点)[^，,。]{0,8}$",
    re.IGNORECASE,
)
# "I'm vegetarian, so what could I cook?" states something before it asks.
_STATES_BEFORE: Final = regex(
    r"\b(?:I|we|my \w+)(?:'m|'ve| am| have| was| were| is| are| don't| got| need| can't| live| work| love| hate)\b[^?]*[,;:]"
    r"|(?:我|我们|我家)[^，,？?]{2,}[，,]",
    re.IGNORECASE,
)
