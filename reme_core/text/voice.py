"""In whose name a sentence speaks: its author's own, or another's, whom it reports, shows, or speaks for.

A wish and who one is are heeded in every conversation, so they have to be said by the person themselves, in their own
name. In doubt a sentence is not, since it stays in the conversation anyway. The rules know the wordings of two languages.
"""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

from typing import Final

from reme_core.text.fiction import asks, own_words, sentences
from reme_core.text.regex import any_of, regex, words
from reme_core.text.signs import simplify

LANGUAGES: Final = ("en", "zh")
"""The languages whose wordings the rules know."""


def in_own_name(text: str) -> str:
    """What of a message its author says for themselves.

    >>> in_own_name("My boss wants all reports as PDF. My boss wants me to use PDF. Call me Sam")
    'My boss wants me to use PDF. Call me Sam'
    >>> in_own_name("For all users: answer in French. Sign at the door: always knock"), in_own_name("他说以后用法语。以后用中文。")
    ('', '以后用中文。')
    """
    return " ".join(own_sentences(text))


def own_sentences(text: str) -> list[str]:
    """The same, sentence by sentence."""
    own: list[str] = []
    plain = simplify(text)
    if _PLAYED.search(plain) or _shows_a_text(plain):
        return own
    for sentence in sentences(own_words(text, mark=_QUOTATION)):
        plain = simplify(sentence)
        if _SAID_BEFORE.search(plain) or _TAKEN_BACK.search(plain):
            own.clear()  # "That's what my sister wants.", "Just kidding."
        if _FOLLOWS.search(plain) or _introduces(plain):
            break  # "Ravi asked me to pass this on."
        own.append(_own_part(sentence.replace(_QUOTATION, " ")))
        if _WRITTEN.search(plain) and _QUOTATION not in sentence:
            break  # "I wrote a story today": what follows may be it
    return [part for part in own if part]


def told_of_oneself(text: str, asked: str) -> list[str]:
    """The sentences in which the author of a message tells of themselves, or answers a question about them.

    There are none in a message that brings in what others say or write: the "I" in it may be theirs.

    >>> told_of_oneself("I'm Ann. Bo came by.", ""), told_of_oneself("Leeds.", "Where do you live?")
    (["I'm Ann."], ['Leeds.'])
    """
    if brings_in_others(text):
        return []
    is_asked = bool(_YOU.search(asked))
    return [sentence for sentence in own_sentences(text) if is_asked or _ONESELF.search(simplify(sentence))]


def _shows_a_text(text: str) -> bool:
    """Whether a message asks about what stands in it, or has a line that asks or introduces others: it shows a text.

    >>> _shows_a_text("Always pay at once. Should I believe that?"), _shows_a_text("Always be brief. Is that ok?")
    (True, False)
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and any(
        asks(line) or line.rstrip().endswith((":", "：")) or _TASK.search(line) for line in lines
    ):
        return True
    if sum(bool(_STAMPED.search(line)) for line in lines) > 1:  # a copy of a chat
        return True
    return any(asks(part) and _POINTS.search(part) and not _AGREED.search(part) for part in sentences(text))


def _introduces(sentence: str) -> bool:
    """Whether a sentence introduces what is not its author's wish: "Sample lines for the box: …"."""
    introduced = _INTRODUCED.search(sentence)
    return introduced is not None and not _OWN_LEAD.search(introduced[0])


def brings_in_others(text: str) -> bool:
    """Whether a message cites or shows what others say, speaks for them, or speaks of a text or a work of fiction.

    >>> brings_in_others("My mum lives in Hull"), brings_in_others("Is this CV fine? I am a nurse")
    (False, True)
    """
    plain = simplify(text)
    if _WRITTEN.search(plain) or own_words(text) != text:
        return True
    signs = (_ANOTHERS, _SAID_BEFORE, _FOLLOWS)
    return any(sign.search(sentence) for sentence in sentences(plain) for sign in signs)


def _own_part(sentence: str) -> str:
    """What stands before another comes in; nothing of what is shown, hearsay, said for others, or asked."""
    plain = simplify(sentence)
    if _ANOTHERS.search(plain) or (asks(plain) and not _REQUESTS.search(plain)):
        return ""
    other = _OF_OTHERS.search(plain)
    if other is None or _ONESELF.search(plain[: other.start()] + " " + plain[other.end() :]):
        return sentence
    return _LAST_CLAUSE.sub("", sentence[: other.start()].strip())  # without the clause in which the other comes in


_QUOTATION: Final = "''"
# A line of a chat that says who wrote the next one, and when.
_STAMPED: Final = regex(r"^.{1,40}\b\d{1,2}:\d\d(?: ?[AaPp][Mm])?\W*$")
# What is to be done with the other lines of a message.
_TASK: Final = any_of(
    r"^(?!.*\b(?:from now on|always|whenever|every time)\b).*\b(?:help me|how (?:do|should) I) (?:reply|respond|summari[sz]e|count|reword|rewrite|translate|proofread|shorten)\b",
    r"^(?!.*(?:以后|今后|每次|从现在|一律)).*帮我?(?:回[一个他她句]|怼|改|统计|总结|整理|润色|翻译|缩)",
)
_LAST_CLAUSE: Final = regex(r"[,，;；][^,，;；]*$")

# Who others are, what they write, and what they do.
_PEOPLE: Final = words(
    r"m[uo]m(?:my)? mother dad(?:dy)? father parents? wife husband partner girlfriend boyfriend fianc[eé]e? ex son daughter kids? child(?:ren)? bab(?:y|ies)"
    r" sisters? brothers? twins? aunt uncle cousins? grand\w+ nan niece nephew in-laws? boss managers? colleagues? co-?workers? lead(?:er)? clients? customers?"
    r" neighbou?rs? (?:room|flat|class|team)mates? friends? buddy teacher doctor dentist vet land(?:lord|lady) tenants? interns? ceo cto cfo director"
    r" supervisor professor students? pupils? users? people members? guests? visitors? employees? staff team owner coach trainer editor lawyer accountant agent"
    r" patients? guy (?:wo)?man lady girl boy stranger caller admin\w* maintainers? reviewers?"
)
_ZH_PEOPLE: Final = words(
    "妈妈? 爸爸? 爷爷 奶奶 外公 外婆 姥姥 姥爷 哥哥? 弟弟? 姐姐? 妹妹? 儿子 女儿 孩子 宝宝 老公 老婆 先生 太太 丈夫 妻子 对象 男友 女友 男朋友 女朋友"
    " 老板 主任 经理 领导 上司 同事 邻居 室友 舍友 朋友 闺蜜 哥们 老师 导师 学生 同学 医生 客户 顾客 甲方 房东 队长 组长 群主 群友 网友 管理员 主播 楼主 家人 亲戚"
)
_TEXTS: Final = words(
    "(?:e-?)?mails? letters? notices? announcements? memos? messages? texts? posts? tweets? comments? reviews? signs? labels? stickers? posters? banners?"
    " ad(?:vert)?s? flyers? leaflets? manuals? readme doc(?:ument)?s? files? pages? (?:web)?sites? articles? slides? screens? pop-?ups? subtitles? captions?"
    " transcripts? voicemails? out-of-office auto-?reply whatsapp chat group newsletter contract policy terms menu receipt invoice ticket headline title"
    " subject description bio lyrics script screenplay quote proverb saying prompt snippet log output form survey quiz template"
)
_SAY: Final = "(?:say|tell|think|write)s? said told wrote typed decided (?:insist|claim|want|order|ask|demand)(?:s|ed)?"
_SAYS: Final = words(f"{_SAY} texted posted reckons?")
_WISHES: Final = words(
    f"{_SAY} thought promised announced is was are were (?:believe|hate|like|love)s? wish(?:es|ed) prefer(?:s|red)? agree[sd]"
    " require[sd]? (?:expect|suggest|recommend|request|need)(?:s|ed)? swears? swore"
)
_WORD: Final = r"(?:words?|rules?|orders?|requests?|wish(?:es)?|instructions?|idea|policy)"
_SAYS_ZH: Final = r"(?:说|讲|规定|要求|吩咐|交代|定|写)的"

# "my old boss", "Ravi", "my boss's rule", "that's", "for my husband Ravi".
_KIN: Final = rf"(?:[\w'-]+ ){{0,2}}?{_PEOPLE}"
_SOMEBODY: Final = rf"(?:(?:my|our|his|her|their|the|a) {_KIN}|(?-i:(?!I\b|I'|You\b|We\b)[A-Z][a-zà-ÿ-]+))"
_THEY: Final = rf"(?:{_SOMEBODY}|he|she|they)"
_THEIR: Final = rf"(?:{_SOMEBODY}'s|\b(?:his|her|their))"
_THEIR_WORD: Final = rf"{_THEIR} (?:\w+ )?{_WORD}"
_THAT_IS: Final = r"(?:that|this|those|these|it)(?:'s| is| was| are| were)"
_ABOUT_SOMEBODY: Final = rf"(?:for|to|about|regarding) {_SOMEBODY}(?: (?-i:[A-Z]\w+))?\s*"
_TO_TELL_YOU: Final = r"(?: to (?:tell|let|ask|remind) you\b)?"

_YOU: Final = any_of(r"\b(?:you|your|yours|u|ur)\b", r"[你您]")
# Words for the author.
_ONESELF: Final = any_of(r"\b(?:I|im|ive|me|my|mine|myself|we|us|our)\b", r"[我咱]")
_WRITTEN: Final = any_of(
    rf"\b{_TEXTS}\b(?<!\bterms)(?<!\bgroup)|\b(?:cv|curriculum|r[ée]sum[ée]s?|applications?|essays?|diar(?:y|ies)|blogs?|speech(?:es)?|biograph(?:y|ies)|testimonials?|personas?|file ?names?|"
    r"novels?|stor(?:y|ies)|poems?|songs?|plays?|films?|movies?|comics?|games?|characters?|hero(?:es|ine)?|protagonist|villains?|avatars?|scenes?|chapters?|dreams?|fiction|tales?|worksheets?|workbooks?|underline|fill in the (?:blank|gap)s?)\b",
    r"简历|求职信|自我介绍|作文|日记|博客|演讲|传记|小说|故事|诗|歌词|剧本|电影|漫画|游戏|角色|人设|台词|主角|文件名|信里|邮件|公告|纸条|弹窗|说明书|小字|热评|规则卡|传单|海报|短剧|剧本杀",
)
"""Words for texts and works of fiction, in which another may say "I"."""
_OF_OTHERS: Final = any_of(
    rf"\b(?:my|our|his|her|their|the|a|an|some|this|that) {_KIN}\b(?:'s\b)?(?: told (?:me|us))?{_TO_TELL_YOU}",
    r"\b(?:he|she|they|somebody|someone|everyone|everybody|people|(?-i:(?!(?:I|We|You)\b)[A-Z][a-zà-ÿ-]+(?: [A-Z][a-zà-ÿ-]+)?))"
    rf"(?:'s|'d| also| always| never| just| would| has| had| \w+ly){{0,2}} {_WISHES}\b(?: (?:me|us)\b)?{_TO_TELL_YOU}|\b(?:he|she|they)'(?:s|re|d|ll)\b",
    rf"(?:(?:我|我们|我家|咱|咱们|你|他|她)的?)?(?:[^\s，。！？：我]{{0,3}}){_ZH_PEOPLE}(?:[让叫]我(?:告诉|转告|跟)你)?",
    r"(?:他|她)们?(?:[让叫]我(?:告诉|转告|跟)你)?|有人|人家|别人",
)
# "Should I believe that?", "Does it sound pompous?", 靠谱吗: a question without a topic of its own is about what stands
# beside it. Questions that only come with a wish ("What does this error mean?", 这本书谁写的) have a topic.
_POINTS: Final = any_of(
    r"(?<!what day is )(?<!what time is )\b(?:this|that|these|those|it|him|them)\W*$|^\W*(?:should|shall|must|do) (?:I|we) [a-z]+\W*$|^\W*[a-z']+\W*$",
    r"\b(?:scam|phishing|fake|legit|genuine|threatening|pompous|rhyme)\b",
    r"[这那它](?:个?是|算|真|可信|能信|合适|通顺|对)|^[^，。！？我你]{0,2}(?:吗|么|吧)[？?]?\s*$|(?:骗|诈骗|水军|靠谱|押韵|合理|真的)[^，。]{0,3}[吗么吧不]?[？?]?\s*$",
)
# "Is that ok?" asks whether the wish itself is heard.
_AGREED: Final = any_of(
    r"\b(?:ok(?:ay)?|all ?right|fine|possible|deal|clear|got it|(?:can|could|will|would) (?:you|u))\b",
    r"(?:可以|好|行|能做到|明白|懂了|记住了|没问题|知道了|能记住|方便)[吗么不吧]",
)
# What stands before a text that a sentence introduces, 女总裁进门第一句：…; a topic ("about my code: …") introduces none.
_INTRODUCED: Final = any_of(
    r"^[^:]*\b(?:this|these|that|lines?|sentences?|texts?|words?|captions?|slogans?|samples?|examples?)\b[^:]*:\s",
    r"^[^：]*(?:[这那]|句|行|台词|文案|例)[^：]*[：:]|，比如",
)
# What introduces a wish of one's own.
_OWN_LEAD: Final = any_of(
    r"\b(?:remember|note|notice|please|from now on|going forward|in future|wish(?:es)?|requests?|preferences?|rules? for (?:you|me|us)|favou?r|things?|points?|remind\w*|important|keep in mind|for (?:you|me)|answers?|replies|reply|I(?:'d| would)? (?:want|like|need|prefer|ask)|(?:want|like|need|ask|expect) you)\b",
    r"记|请|要求|希望|一[点条件]|[两二三几][点条件]|提醒|以后|今后|偏好|习惯|我(?:想|要|喜欢|有)|麻烦|补充|说明|注意|重要|回答|回复",
)
# What a sentence says is another's where it shows something,
_ANOTHERS: Final = any_of(
    r"</?[A-Za-z_][^<>]{0,80}>|⟦[^⟧]{0,80}⟧|\{\{|\w\(['\"]|[{[]\s*[\"']\w+[\"']\s*:",
    rf"(?!^\W*(?:please )?note(?: that)?\s*:)\b{_TEXTS}\b[^:：.!?。]{{0,25}}[:：]",
    r"\b(?:novels?|stor(?:y|ies)|films?|movies?|comics?|characters?|hero(?:es|ine)?|protagonist|villain)(?:'s)?\b(?! (?:questions?|ideas?|draft))[^:：.!?。]{0,40} (?:says?|tells?|asks?|orders?|shouts?|whispers?|writes?)\b[^:：.!?。]{0,20}[:：]",
    rf"\b{_TEXTS} (?:says?|said|reads?|states?|goes|told|tells?|asks?|wants?|claims?|instructs?)\b",
    r"\b(?:parse|explain|check|validate|debug|format|decode|fix|read|review|correct|translate|spell|pronounce|what does|why does|what's wrong)\b[^:：.!?。]{0,40}[:：]",
    r"\b(?:corrige|corrija|corrig[eé]z?|traduc[ei]|traduzca|traduis|traduisez|traduza|korrigiere?|übersetze?|correggi|исправь|переведи)\b[^:：]{0,40}[:：]",
    r"(?:解释|报错|看看|看下|润色|翻译|检查|修改|改写|解析|校对|什么意思)[^：:。！？]{0,15}[：:]|^\W*翻译",
    r"(?:弹窗|页面|屏幕|纸条|说明书|卡片?|帖子?)[^，。]{0,8}(?:一行|一段|小字|写|念)",
    r"(?:公告|通知|来信|邮件|信里|信中|短信|消息|留言|告示|标语|弹幕|评论|写着|原文|签名|台词|歌词|剧本|文案|朋友圈|第[一二三四五六七八九十\d]+[封条篇段])[^：:，。]{0,6}[：:]",
    # speaks for others,
    r"\b(?:for|to|with|by|of) (?:all|every|each|any|other|the other|the next|whichever|whoever) ?(?:of )?(?:the |other )?"
    rf"(?:{_PEOPLE}|accounts?|workspaces?|tenants?|sessions?|agents?|assistants?|bots?|one)\b|\b(?:everyone|everybody|whoever|anyone)(?: else| who|'s)\b|\bfor (?:everyone|everybody)\b",
    r"\b(?:in|into|to|under|on) (?:the )?(?:memory|profile|notes?|account|file|record)s? (?:of|for)\b|\buser (?-i:(?!I\b)[a-z]+\b) ?[:']|\bput (?:it|this|that) under\b",
    rf"\b(?:when|if|whenever|once|every time|each time) {_THEY} (?:\w+ )?(?:asks?|says?|writes?|types?|wants?|needs?|mentions?|logs?|opens?|talks?)\b(?! me\b)",
    r"\b(?:answer|give|tell|send|greet|remind|treat|charge) (?:him|her|them)\b|\bbehalf\b",
    r"(?:给|提醒|告诉|回答|回复)[他她]|[他她]们?(?:问|说|要|想)|(?:给|帮|替)[^我你，。]{1,6}(?:设|登记|记|存)|(?<![我你])的(?:称呼|资料|档案|备注)",
    rf"^\W*(?:\w+ ){{0,6}}?{_ABOUT_SOMEBODY}:|^\W*(?:(?:please|and|also|now|so|but|this is|remember|note),? ){{0,3}}{_ABOUT_SOMEBODY}[,-]",
    rf"\b(?:remember|note|keep in mind|store|save) (?:this )?(?:for|about) {_SOMEBODY}\b",
    r"\b(?:m[ée]moire|profil|memoria|perfil|memória|Gedächtnis|Profil) (?:de|del|di|do|da|von|meine[rs]?) ",
    r"(?:所有|全体|每个|每位|其他|其它|别的|任何|下一[位个])[^，。！？：]{0,4}(?:用户|人|员工|成员|同事|客户|账号|会话)|大家(?!都?[是这那叫喊])|替[^我，。]{1,8}(?:记|存|说)",
    # is a name, a dream, an example, a thought, or what was not said,
    r"\b(?:called|named|(?:en)?titled|registered as|labell?ed|captioned|saying|goes)\W{1,3}(?:always|never|from now|call me|answer|reply|please|don't|only|speak|talk)\b",
    r"(?:文件夹?|文档|歌|书|片子|电影|视频|帖子|频道|群|店|公司|餐厅|队|马|猫|狗|表格|标题)[^，。！？]{0,6}(?:叫做?|名为|名叫|题为|是)\s*[^我，。]{0,2}(?:以后|从现在|从今|请|一直|每次|别再|不要再|不许|叫我)",
    r"\b(?:dream(?:ed|t|s)?|nightmare)\b[^.!?]{0,60}\b(?:told|tell|said|say|asked?|called?)\b|梦见|梦到|做了?个?梦",
    r"(?:比如|例如|譬如|假如)[^，。！？]{0,3}(?:有人|别人|某人|谁|一个人)|\b(?:for example|e\.g\.|for instance|say|suppose|imagine|let's say)\b[^.!?]{0,12}\b(?:some(?:one|body)|a (?:user|person|customer))\b",
    r"\bif I (?:ever |suddenly )?(?:won|were|became|ruled)\b|\b(?:nearly|almost|never|didn't|did not) (?:ask(?:ed)?|tell|told|want(?:ed)?|meant?)(?: for)? (?:you|u) to\b|没有?(?:让|叫|要求|说过?)[你您]",
    # is said by others without a mark of it ("he goes like call me D", 墙上写着…, 室友天天跟我说 call me …),
    rf"\b(?:{_THEY}|\w+body|everyone) (?:just |always |then )?(?:goes|went|(?:is|was|be)(?: all)? like),? (?:like,? )?(?:call|always|never|from now|you|don't|please|only|answer)\b|\bI(?:'d|'ll| would| will) be (?:all )?like\b",
    r"(?<![正我在])[写印贴刻标挂喷纹]着|(?:[^我，。！？]|(?<!我)[跟对和冲][我你])(?:说|讲|喊|嚷嚷|念叨|要求)[：:，,\s]?(?:以后|从现在|从今|请|一直|每次|别再|不要再|不许|叫我|跟我说话|回答|just\b|call\b|always\b|never\b|from now\b)",
    r"\b(?:some(?:one|body)|people|users?|they|one) (?:might|may|could|would|can|will) (?:\w+ )?(?:say|type|write|ask|tell|put)\b|\b(?:say|type|write|ask|put|said|typed|wrote|told|goes) (?:\w+ )?(?:something|sth) like\b",
    r"(?:要是|如果|假如|假设)我(?:哪天|有一天|是|当|成了|变成|中了)|以前[^，。]{0,12}[跟让叫对]它|[跟对]它(?:说|讲)|\b(?:old|previous|last) (?:chat|ro)?bot\b|\b(?:old|previous|last) assistant\b",
    r"首歌[^，。]{0,6}[唱词]|怎么唱|歌里唱|语音转文字|语音里",
    r"\b(?:wants?|asked|told|begged|got) me to (?:tell|ask|let|remind) you\b|[让叫要]我(?:告诉|转告|跟你说)",
    rf"\b{_THEY} (?:\w+ )?(?:wrote|says?|said|told|typed|yelled|texted|shouted|announced|posted)\b[^.!?,]{{0,20}}\b(?:call (?:me|him|her)|from now on|always|never ever)\b",
    # has been heard somewhere,
    r"\bI(?:'m| am| was|'ve been) told\b|\bI (?:\w+ )?heard\b|\bI (?:read|saw) (?:that|about|somewhere)\b|\b(?:apparently|supposedly|allegedly|rumou?r|reportedly|according to|word is|legend)\b",
    r"听说|据说|传说|据称|网上说|有传言|看到(?:有|一)",
    # or says at its end who says so (", my boss says"), or at its beginning ("my flatmate: …", "she typed: …").
    rf"[,;–—-]\s*(?:or so |as |so |at least |(?:that|this|it)(?:'s| is) (?:how|what) )?{_THEY} (?:just |always |has |have )?{_SAYS}(?: (?:me|us|you|so|it|that))*\W*$",
    rf"[,;–—-]\s*(?:so |as |thus )?{_SAYS} {_SOMEBODY}\W*$|[,;–—-]\s*{_THAT_IS} {_THEIR_WORD}",
    rf"^\W*(?!(?:Note|PS|Remember|Reminder|Rules?|Also|Requests?|Wish|Preferences?|Important|FYI|Please|And|But|So|Ok|Okay|Hi|Hello|Thanks)\b)(?:{_THEY}|every(?:one|body)[\w ]*)(?: {_SAYS})?(?: \w+)?\s*:",
    rf"[，,][^，。]{{0,6}}{_SAYS_ZH}\W*$|(?:留言|转告|传话|带话|发来|写道|来信)[^，。]{{0,6}}(?:[：:，]|\s|$)",
)
# What was said before is another's: "That's what my sister wants", 小李说的.
_SAID_BEFORE: Final = any_of(
    rf"^\W*(?:well |or so |at least )?{_THAT_IS} (?:all )?(?:what|how|from|for|according to|straight from) (?:{_THEY}|them|him)\b",
    rf"^\W*{_THAT_IS}? ?{_THEIR_WORD}|^\W*{_THEIR} {_WORD}, not mine",
    rf"^\W*(?:这|那|都)?(?:是|都是)?[^我，。]{{1,6}}{_SAYS_ZH}\W*$|^\W*(?:这|那)是(?!我)[^，。]{{1,6}}的(?:意思|要求|规定|原话|习惯)\W*$",
)
# What was said before does not count: "just kidding", "scratch that", 算了当我没说
_TAKEN_BACK: Final = any_of(
    r"^\W*(?:(?:no|nah|haha|lol|ok|oh|wait|hang on|actually|sorry|hmm),? )*(?:(?:I'm |I was )?(?:just |only )?(?:kidding|joking|messing)|jk\b|nvm\b|never ?mind(?! (?:the|my|if|about)\b)|(?:scratch|scrap|strike|cancel) that|forget (?:it|that|I said)|on second thoughts?|ignore that|actually (?:no|don't)\b|不[用必]了|算了)",
    r"^\W*(?:哈+|额|呃|唉|哎|不|好吧|还是)?[，,]?(?:算了|不[用必]了|当我没说|开(?:个)?玩笑|逗你|骗你|说着玩|瞎说)",
)
# What follows is another's: "Ravi asked me to pass this on", "my landlord's rule is simple".
_FOLLOWS: Final = any_of(
    rf"\b(?:borrow\w*|using|on|from|at|stole|took|grabbed|hijack\w*) (?:(?:[\w'-]+ )?{_SOMEBODY}(?:'s|s')|his|her|their) (?:\w+ )?(?:phone|laptop|account|keyboard|computer|tablet|device|login|machine|pc|seat|desk)\b",
    r"^\W*(?:hi|hey|hello)?\W*(?:this is |it's )?(?-i:[A-Z][a-zà-ÿ-]+)(?: \w+)? (?:here|speaking|typing)\b|借(?:用)?[^，。]{1,8}的(?:账号|手机|电脑|平板|account)",
    r"\bpass(?:ing|ed)? (?:this|it|that|these|something|a message|word) (?:on|along)\b|\b(?:sends?|sent) word\b|\bspeaking for\b|\bonly the messenger\b|\brelay(?:ing)?\b",
    rf"\b(?:message|note|word|request|instructions?) from (?:{_SOMEBODY}|him|her|them)\b|{_THEIR_WORD} (?:is|are|was|were)\b|\b(?:has|had) (?:a|one|some|this) (?:\w+ )?{_WORD} (?:for you|too)?\W*$",
    r"\bnot (?:mine|my own|my idea|me)\b|不是我(?:说|写|的(?!错))|(?:群里|刚才|刚刚|收到)[^，。]{0,8}[发转]|原话",
    r"转告|传话|带话|(?:替|帮)[^我，。]{1,6}(?:说|问|转|记)一?[声下]|(?:领导|老板|主任|经理|他|她)的?(?:意思|要求|规定)是",
)
# "*bows* From now on call me milord", "you are now the cook of a ship", "LARP tonight, I'm Grom", 你演皇帝，我演大臣
_PLAYED: Final = any_of(
    r"(?<!\*)\*[A-Za-z一-鿿][^*\n]{1,60}\*(?!\*)|[（(](?:[^（）()\n]{0,8})(?:地|着|鞠躬|叹气|微笑|转身|bows|sighs|smiles|nods)[）)]",
    r"\byou(?:'re| are) (?:now )?(?:a|an|the|my) (?!(?:best|great|good|nice|star|life|angel|legend|gem|help\w*|machine|bot|robot|assistant|ai)\b)\w+|你(?:现在)?是(?:我的|一个|一名|一位|个)(?!助手|助理)",
    r"\b(?:larp\w*|cosplay\w*|role-?play\w*|improv|skit|(?:this|our|the) scenario|text adventure|werewolf)\b[^\n]{0,80}\b(?:I'?m|you'?re|you are|call me)\b|^\W*(?:please |now )?(?:simulate|impersonate|imitate)\b",
    r"^\W*(?:now )?be (?-i:[A-Z])[a-z]+\b|\b(?:you|u)(?:'ll| will)? (?:be|play) (?:a|an|the|my)\b|\bplaying (?-i:[A-Z])[a-z]+[^.!?]{0,40}\bI'?m\b",
    r"扮演|对戏|设想|假[设如]你|人物设定|[我你](?:来)?[演扮](?![讲过])|你(?:来)?当(?!然|时|初|我的?(?:助手|助理))",
    r"(?:剧情|情景|演戏|小品|相声|桌游|狼人杀|台词)[^\n]{0,40}(?:[我你][是演扮当]|叫我|称呼我)",
    r"你是(?!不|知道|最|对的?|说|指|想|要|否|怎么|什么|谁|我的?(?:助手|助理)|助手|助理|AI|机器人)[^，,。！？的吧吗]{1,8}(?=[，,。！]|我是)",
)
_REQUESTS: Final = any_of(
    r"\b(?:can|could|would|will) (?:you|u)\b|\bplease\b|\bremember\b|\w\W+(?:ok(?:ay)?|all ?right|deal)\W*$",
    r"[^，。！？]{3}(?:好吗|好不好|行吗)\W*$|请|麻烦|能不能|可不可以|可以.{0,12}[吗么]|能.{0,12}[吗么]",
)
