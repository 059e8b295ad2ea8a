"""What a Chinese sentence claims about its speaker, by rule: one clause, one pattern, one claim.

As with the English rules, a pattern has to match from the start of a clause, behind nothing but filler and words of
time. "我" becomes the person: 我喜欢早上喝咖啡工作 → 用户喜欢早上喝咖啡工作.
"""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from reme_core.ops.personal.claims import TASTE, Claim
from reme_core.text.terms import terms

Build = Callable[[re.Match[str], str], list[Claim]]


def claims(sentence: str, person: str = "") -> list[Claim]:
    """The claims of a sentence that states something (`reality.states`).

    >>> [claim.content for claim in claims("对了，我喜欢早上喝咖啡工作。")]
    ['用户喜欢早上喝咖啡工作']
    """
    who = person or "用户"
    found = []
    for clause in _clauses(sentence):
        for pattern, build in _PATTERNS:
            if match := pattern.match(clause):
                found += build(match, who)
                break
    return found


def wishes(sentence: str, person: str = "") -> list[Claim]:
    """Standing wishes about how to be answered; those may come as a question (能不能以后都用中文回答？)."""
    text = sentence.strip().strip('“”"')
    if not _STANDING.search(text) or not _WISH.search(text):
        return []
    ended = bool(_WISH_ENDS.search(text))
    if match := _IN_LANGUAGE.search(text):
        slot, value = "answer_language", _ENGLISH_NAMES.get(match[1], match[1])
    elif match := re.search(r"简短|简洁|简单|详细", text):
        slot, value = "answer_length", "long" if match[0] == "详细" else "short"
    else:
        slot, value, ended = "instruction", text, False
    return [Claim(f"{person or '用户'}要求：“{text.rstrip('。！!.')}”", text, slot, value, holds=not ended)]


def third_person(clause: str, who: str) -> str:
    """A first-person clause as a statement about `who`.

    >>> third_person("我把我的车卖了。", "用户")
    '用户把自己的车卖了'
    """
    text = clause.strip().rstrip("。！!，,；;.")
    text = re.sub(r"^我", who, text, count=1)
    text = re.sub(r"我自己|我(?=的)", "自己", text)
    return re.sub(r"我(?!们)", who, text)


_FILLER: Final = (
    r"(?:你好|您好|嗨|哦|噢|嗯|啊|哎|对了|其实|顺便(?:说一下|说一句|告诉你)?|另外|还有|而且|不过|但是?|所以|因为|告诉你(?:一个好消息)?"
    r"|跟你说|说起来|好消息|坏消息|更新一下|请记住|记住|记一下|记得|是的|没错|谢谢|话说|总之|老实说|说实话|可惜|终于|唉|好吧|说正经的|不好意思"
    r"|更正一下|我跟你说|我告诉你|你知道|自我介绍一下)"
)
_TIME: Final = (
    r"(?:今天|昨天|前天|现在|目前|最近|近来|如今|这几天|平时|平常|周末|早上|上午|中午|下午|晚上|上个?(?:周末?|星期|礼拜|月|学期)[一二三四五六日天]?"
    r"|这个?(?:周末?|星期|月|学期)|去年(?:[春夏秋冬]天)?|今年(?:[春夏秋冬]天)?|前年|[\d一二三四五六七八九十]+月(?:[\d一二三四五六七八九十]+[日号])?(?:份|初|底|中旬)?"
    r"|[\d零一二三四五六七八九]{4}年|(?:[一两二三四五六七八九十几\d]+)个?(?:天|周|星期|月|年)(?:之?前|以前)|从(?:今天|现在|上个月|去年)(?:起|开始))"
)
_SINCE: Final = r"(?:从|自)(?:[\d零一二三四五六七八九十]+[年月][\d零一二三四五六七八九十年月日号初底中旬]{0,6}|去年|今年|上个?月)(?:起|开始|以来)"
_LEAD: Final = re.compile(rf"(?:(?:{_FILLER}|{_TIME})的?[，,。！!：:、\s…—]*)+(?=我|请|叫我)")
_CLAUSE_ENDS: Final = re.compile(
    r"[，,；;：:。！!、]\s*(?=(?:现在|目前|也|还|但是?|不过|所以|而且|因为|从此|后来|今天|昨天|并且|于是|又|已经|终于)*(?:我|在|改|搬|住|换|戒|养|开始|对|不再|担任|叫我|请))"
    r"|\s+(?=我)"
)


def _clauses(sentence: str) -> Iterator[str]:
    subject = False
    for part in _CLAUSE_ENDS.split(sentence.strip().strip('“”"')):
        clause = part.strip(" ，,；;：:")
        if lead := _LEAD.match(clause):
            clause = clause[lead.end() :]
        elif subject and not clause.startswith("我"):
            # 我换工作了，现在在腾讯上班: the subject goes on.
            rest = re.sub(r"^(?:也|还|但是?|不过|所以|而且|因为|从此|后来|并且|于是|又)+", "", clause)
            clause = (
                f"我{rest}"
                if re.match(r"(?:现在|目前|今天|昨天|已经|终于)*(?:在|改|搬|住|换|戒|开始|不再|担任)", rest)
                else rest
            )
        subject = clause.startswith("我") and not re.match(rf"我(?:的|们|家|{_RELATIVES}|朋友|同事|同学)", clause)
        if clause:
            yield clause


_SO: Final = r"(?:现在|目前|如今|一直|平时|平常|通常|经常|常常|总是|真的?|其实|也|还|都|就|已经|刚刚?|终于|最近|非常|特别|很|最|超级?|比较|挺|十分|更|尤其|又|从小就?|每天(?:都)?|确实|早就)*"
_VALUE: Final = r"[^，,。！!；;：:\s（(？?]"
_PLACE: Final = r"(?P<v>(?![^，,。]{0,6}(?:酒店|宾馆|医院|旅馆|朋友|父母|楼|层|附近|隔壁))(?!了|到|的|过|这|那|哪|家|学校|公司|一个|新)[^\W\d]{2,12}?)(?=$|[，,。！!；;\s]|了|的|工作|上班|生活|上学|读书|住)"
_LANGUAGES: Final = (
    r"(?P<lang>中文|英文|英语|法语|法文|德语|德文|日语|日文|韩语|西班牙语|俄语|粤语|普通话|汉语|葡萄牙语|意大利语)"
)
_ENGLISH_NAMES: Final = {
    "中文": "Chinese", "汉语": "Chinese", "普通话": "Chinese", "英文": "English", "英语": "English", "法语": "French", "法文": "French",
    "德语": "German", "德文": "German", "日语": "Japanese", "日文": "Japanese", "韩语": "Korean", "西班牙语": "Spanish",
    "俄语": "Russian", "葡萄牙语": "Portuguese", "意大利语": "Italian",
}  # fmt: skip
_JOBS: Final = (
    r"[^\W\d]{0,8}?(?:老师|教师|医生|护士|工程师|程序员|设计师|厨师|律师|学生|研究生|博士生|作家|记者|建筑师|科学家|研究员|教授|经理|总监|会计"
    r"|顾问|分析师|艺术家|音乐家|演员|飞行员|农民|司机|摄影师|图书管理员|药剂师|牙医|兽医|心理咨询师|咖啡师|翻译|编辑|消防员|警察|军人|自由职业者"
    r"|创业者|公务员|产品经理|销售|导演|教练|社工|运营|面包师|开发者|数据科学家)"
)
_RELATIVES: Final = r"(?:妻子|老婆|丈夫|老公|女朋友|男朋友|女友|男友|儿子|女儿|姐姐|妹妹|哥哥|弟弟|妈妈|爸爸|母亲|父亲|奶奶|爷爷|外婆|外公|老板|上司|室友|闺蜜|猫|狗|宝宝|兔子|鹦鹉)"
_FIRM: Final = r"(?P<v>(?!家|外地|哪|一家|一个|这|那|早|晚|办公|了)[^，,。\s]{2,14}?)"
_PETS: Final = r"(?:小猫|小狗|猫咪|猫|狗狗|狗|兔子|鹦鹉|仓鼠|乌龟|自行车|摩托车|钢琴)"
_REGION: Final = re.compile(
    r".{1,6}[市省县区州国镇村岛]|北京|上海|天津|重庆|广州|深圳|杭州|南京|苏州|成都|武汉|西安|长沙|郑州|青岛|大连|厦门|宁波|沈阳|济南|合肥|福州|昆明"
    r"|香港|澳门|台北|台湾|日本|东京|新加坡|德国|柏林|巴黎|伦敦|纽约|加拿大|澳大利亚|悉尼|外企|国外|海外"
)
_POINTS_BACK: Final = re.compile(r"这|那|它|你|他|她|您|此")


def _own_words(slot: str = "", *, holds: bool = True, value: str = "", whole: bool = True) -> Build:
    """A claim in the speaker's own words (the whole clause, or what matched), about the person.

    Its value is the group `v`, or `value`, which is the same in whatever words.
    """

    def build(match: re.Match[str], who: str) -> list[Claim]:
        groups = {k: (v or "") for k, v in match.groupdict().items()}
        said = value or groups.get("v", "").strip()
        name = slot.format(**{k: _SAME.get(v, v) for k, v in groups.items()})
        told = match.string if whole else match[0]
        return [Claim(third_person(told, who), match.string, name, said, holds=holds)]

    return build


# One thing, one slot, whichever language it is named in.
_SAME: Final = {
    "妻子": "wife", "老婆": "wife", "丈夫": "husband", "老公": "husband", "女朋友": "girlfriend", "女友": "girlfriend",
    "男朋友": "boyfriend", "男友": "boyfriend", "儿子": "son", "女儿": "daughter", "姐姐": "older sister", "妹妹": "younger sister",
    "哥哥": "older brother", "弟弟": "younger brother", "妈妈": "mother", "母亲": "mother", "爸爸": "father", "父亲": "father",
    "狗": "dog", "小狗": "dog", "狗狗": "dog", "猫": "cat", "小猫": "cat", "猫咪": "cat", "兔子": "rabbit", "鹦鹉": "parrot",
    "自行车": "bike", "车": "car", "钢琴": "piano",
}  # fmt: skip


def _work(match: re.Match[str], who: str) -> list[Claim]:
    groups = match.groupdict()
    found = []
    if place := groups.get("v"):
        # A city is where somebody works, not for whom: changing employers does not end it.
        slot = "" if _REGION.fullmatch(place) else "employer"
        found.append(Claim(f"{who}在{place}工作", match.string, slot, place))
    if job := groups.get("job"):
        found.append(Claim(f"{who}的职业是{job}", match.string, "job", job))
    return found


def _taste(*, holds: bool) -> Build:
    def build(match: re.Match[str], who: str) -> list[Claim]:
        what = re.sub(r"^(?:再|去|喝|吃|抽|玩|看|用|打|做)(?=..)|了$", "", match["v"].strip())
        if _POINTS_BACK.match(what) or not terms(what):
            return []
        return [Claim(third_person(match.string, who), match.string, TASTE, what, holds=holds)]

    return build


def _happened(match: re.Match[str], who: str) -> list[Claim]:
    if _POINTS_BACK.match(match["v"]) or len(match["v"].strip()) < 2:
        return []
    return [Claim(third_person(match.string, who), match.string, "", "", event=True)]


def _compiled(*patterns: tuple[str, Build]) -> tuple[tuple[re.Pattern[str], Build], ...]:
    return tuple((re.compile(pattern), build) for pattern, build in patterns)


_PATTERNS: Final = _compiled(
    (r"(?:我的?名字(?:叫|是)|我(?:的中文名)?叫|(?:大家|朋友们?)?都?叫我|请?叫我)(?P<v>(?![做我你他她它了不过得着来去外车醒上下])[^\W\d]{1,8}?)(?=就|$|[，,。！!；;\s])",
     _own_words("name")),
    # Homes and origins.
    (rf"我{_SO}(?:不住在?|不再住在?){_PLACE}", _own_words("home", holds=False)),
    (rf"我(?:以前|曾经?|过去|之前)(?:一直)?住在{_PLACE}", _own_words("home", holds=False)),
    (rf"我(?:{_SINCE})?{_SO}(?:住在|定居在?|居住在){_PLACE}", _own_words("home")),
    (rf"我{_TIME}?{_SO}(?:从[^，,。]{{2,8}})?(?:搬家?(?:到|去|来|回)了?|移居到?|迁居到?){_PLACE}", _own_words("home")),
    (rf"我{_SO}(?:来自|出生在|出生于|(?:是在|在)?(?=[^\W\d]{{2,8}}(?:长大|出生))){_PLACE[:-1]}|长大|出生)", _own_words("origin")),
    (r"我(?:的老家|老家)(?:是|在)(?P<v>[^\W\d]{2,8})", _own_words("origin")),
    # Work.
    (rf"我{_TIME}?{_SO}(?:从(?P<v>[^，,。\s]{{2,12}}?)(?:辞职|离职)|离开了?(?P<w>[^，,。\s]{{2,12}}?)公司)", _own_words("employer", holds=False)),
    (rf"我{_TIME}?{_SO}(?:辞职|离职|失业|被裁员?)了?(?P<v>)", _own_words("employer", holds=False)),
    (rf"我{_SO}不在(?P<v>[^，,。\s]{{2,14}}?)(?:工作|上班)了?", _own_words("employer", holds=False)),
    (rf"我(?:{_SINCE}|{_TIME})?{_SO}(?:换工作了?[，,]?)?(?:现在|目前)?(?:改?(?:在|去|到)了?)(?:了)?{_FIRM}(?:工作|上班|任职)了?"
     rf"(?:[，,]?(?:当|做|担任|是)(?:一名|一个|个)?(?P<job>{_JOBS}))?(?=$|[，,。！!；;了])", _work),
    (rf"我{_TIME}?{_SO}(?:改?(?:在|去|到)){_FIRM}(?:当|做|担任)(?:一名|一个|个)?(?P<job>{_JOBS})(?=$|[，,。！!；;了])", _work),
    (rf"我{_TIME}?{_SO}(?:加入了?|入职了?|跳槽(?:到|去)了?){_FIRM}(?:了|公司)?(?:[，,]?(?:当|做|担任|是)(?:一名|一个|个)?(?P<job>{_JOBS}))?"
     r"(?=$|[，,。！!；;])(?<!队)(?<!会)(?<!群)(?<!部)(?<!团)(?<!班)(?<!组)", _work),
    (rf"我(?:现在)?担任(?P<job>{_JOBS})", _work),
    (rf"我{_SO}(?:是|当上?了?|做|改行?(?:当|做)|转行(?:当|做)|成为)了?(?:一名|一位|一个|个|名)(?P<job>{_JOBS})(?=$|[，,。！!；;了])", _work),
    (rf"我(?:现在)?(?:是|当了?)(?P<job>{_JOBS})(?=$|[，,。！!；;])", _work),
    (rf"我的(?:职业|工作)是(?P<job>{_JOBS})", _work),
    # Who they are.
    (r"我的?生日(?:是|在)(?:农历)?(?P<v>[\d一二三四五六七八九十年月日号]+)", _own_words("birthday")),
    (r"我(?:是)?(?P<v>[\d一二三四五六七八九零]{4}年[\d一二三四五六七八九十]{1,2}月[\d一二三四五六七八九十]{1,3}[日号])(?:出)?生", _own_words("birthday")),
    (rf"我(?:今年|{_SO})(?:满)?(?P<v>\d{{1,3}}|[一二三四五六七八九十]{{1,3}})(?:周?岁)", _own_words("age")),
    (rf"我{_TIME}?{_SO}(?:结了?婚|是已婚|已婚)了?(?=$|[，,。！!；;])", _own_words("marital", value="married")),
    (rf"我{_TIME}?{_SO}订婚了?(?=$|[，,。！!；;])", _own_words("marital", value="engaged")),
    (rf"我{_TIME}?{_SO}离了?婚了?(?=$|[，,。！!；;])", _own_words("marital", value="divorced")),
    (rf"我{_SO}(?:是单身|单身)(?=$|[，,。！!；;])", _own_words("marital", value="single")),
    (rf"我{_SO}(?:不再|不)(?:是|吃)?(?:纯|全)?(?P<v>素食者|吃素|素)了?", _own_words("diet", holds=False, value="vegetarian")),
    (rf"我{_TIME}?{_SO}(?:是|吃|开始吃|改吃|成了|变成了?|成为)了?(?:一个|一名)?(?P<v>(?:纯|全)?素食?者?|素)(?:了)?(?=$|[，,。！!；;])", _own_words("diet", value="vegetarian")),
    # Allergies.
    (r"我(?:现在)?(?:不再)?对(?P<v>[^，,。！!\s]{1,10}?)(?:不再过敏|已?经?不过敏了?|不过敏了?)", _own_words("allergy:{v}", holds=False)),
    (rf"我{_SO}(?:对(?P<v>[^，,。！!\s]{{1,10}}?)(?:严重|有点|轻微)?过敏)", _own_words("allergy:{v}", whole=False)),
    (rf"我{_SO}(?P<v>乳糖|麸质)不耐受?", _own_words("allergy:{v}")),
    # People, animals and things of theirs.
    (rf"我的?(?P<who>{_RELATIVES})的?(?:名字)?(?:叫做?|是叫|名叫)(?P<v>{_VALUE}{{1,10}})", _own_words("relation:{who}")),
    (rf"我(?:的|家的?)?(?P<v>{_PETS})[^，,。！!]{{0,6}}?(?:去世|死|走丢|被偷|不见)了?", _own_words("own:{v}", holds=False)),
    (rf"我{_TIME}?{_SO}(?:把)(?:我?的?)?(?P<v>[^\W\d]{{1,4}}?)(?:给)?卖(?:掉)?了", _own_words("own:{v}", holds=False)),
    (rf"我{_TIME}?{_SO}(?:养|领养|有|买|收养)了?(?:[一两三四几]|\d)?(?:只|条|辆|架|个)[^，,。！!]{{0,6}}?(?P<v>{_PETS})", _own_words("own:{v}")),
    # Favourites, likes, dislikes and habits.
    (r"我最(?:喜欢|爱)的(?P<what>[^，,。！!是]{1,10}?)(?:现在)?是(?P<v>[^，,。！!；;]+)", _own_words("favourite:{what}")),
    (rf"我(?:{_SINCE}|{_TIME}){_SO}(?:戒了?(?:掉了?)?|不再(?:喜欢|爱)?)(?P<v>[^，,。！!；;]+)", _taste(holds=False)),
    (rf"我(?:{_SINCE})?{_SO}(?:不(?:再|太|怎么|大|是很)?(?:喜欢|爱|想|习惯|碰)|不(?:再|怎么)?(?=[喝吃抽玩看用打跑练学去游唱跳骑爬写画做弹熬])|讨厌|反感|受不了|厌恶|戒了?(?:掉了?)?|从不|从来不|很少|放弃了?|没再|停止了?)(?P<v>[^，,。！!；;]+)",
     _taste(holds=False)),
    (rf"我{_SO}(?:喜欢(?:上了?)?|热爱|爱好是?|爱(?!人)|偏爱|更?喜欢|迷上了?|习惯|享受|偏好|爱上了?)(?P<v>[^，,。！!；;]+)", _taste(holds=True)),
    (r"我的?(?:爱好|兴趣|习惯)是(?P<v>[^，,。！!；;]+)", _taste(holds=True)),
    (r"我(?:平时|平常|通常|经常|常常|总是|一般|每天|每周[一二三四五六日末]?|每个?(?:月|年|周末|早上|晚上|星期[一二三四五六日]?)|周末|每晚|每早)(?:都|会|要|习惯)*(?P<v>[^，,。！!；;]+)",
     _taste(holds=True)),
    (rf"我{_TIME}?{_SO}(?:(?:正?在|开始)(?:学习?|练习?|准备|写|备考)|开始(?=跑|喝|打|做|游|健))(?P<v>[^，,。！!；;]+)", _taste(holds=True)),
    (rf"我{_SO}会(?P<v>(?:说|弹|拉|吹|打|游|写|做|讲)[^，,。！!；;]+)", _taste(holds=True)),
    # What happened.
    (rf"我(?:和[^，,。]{{1,8}}|跟[^，,。]{{1,8}})?{_TIME}?{_SO}(?:一起)?(?:去了|去(?!公司|学校|上班|厕所|超市|睡)(?=[^，,。]{{2,12}}了)|参观了?|买了|参加了?|看了|完成了?|读完了?|看完了?|毕业|通过了?|拿到了?|赢了|"
     r"参与了?|学会了?|开始了?|结束了?|收到了?|见到了?|遇到了?|认识了?|跑完了?|爬了|考过了?|出版了?|做了|去过了?|骨折|受伤|摔|种了|办了|举办了?)(?P<v>[^，,。！!；;]*)",
     _happened),
)  # fmt: skip

_STANDING: Final = re.compile(
    r"以后|今后|从现在(?:起|开始)|总是|一直|始终|永远|每次|都要?|不要再|别再|不用再|不必再|默认|重新|恢复"
)
_WISH: Final = re.compile(
    r"^(?:(?:你好|请|麻烦|拜托|能不能|可以|可不可以|希望|我希望|我想|好的?|对了|另外|还有|顺便|那|不过|你|您)[，,：:\s]*)*"
    r"(?:以后|今后|从现在(?:起|开始)|总是|一直|始终|永远|每次|都|不要再?|别再?|不用再?|不必再?|默认|重新|恢复|请|你|您|还是|就|也|跟我|对我|给我|和我|[，,：:\s])*"
    r"(?:(?:用|使用|改用|说|讲)[^，,。！!]{0,8}(?:回答|回复|交流|说话|跟我|和我|写|对话|沟通|$)|回答|回复|叫我|称呼|提醒|推荐|给出|列出|解释|使用|避免|说话|介绍)"
)
_WISH_ENDS: Final = re.compile(r"不用再|不必再|别再|不要再")
_IN_LANGUAGE: Final = re.compile(_LANGUAGES.replace("?P<lang>", ""))
