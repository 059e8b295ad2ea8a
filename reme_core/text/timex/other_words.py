"""The words of time expressions in other languages than English and Chinese, and verbs that tell of the past."""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Words:
    """The words of a language. Behind `=` stands what dateparser reads in the place of a word, which may be English."""

    near: str
    """Words such as "yesterday", separated by spaces."""
    months: str
    units: str
    numbers: str
    """Number words with their values, as `word=value`."""
    ago: tuple[str, str]
    """The words before and after "two weeks" that make it "two weeks ago"; one of the two is empty."""
    spans: str
    """Words such as "last week", separated by bars."""
    past: str
    """What tells of the past, as the alternatives of a pattern: verbs that are nothing else."""
    of: str = ""
    """The word between day, month and year (Spanish "5 de mayo"), as a pattern."""
    tomorrow: str = ""
    """A pattern of the word for "tomorrow", if it means "morning" as well."""
    alone: str = ""
    """A pattern of a month without day and year ("im Juli"), with `{}` in the place of its name."""
    cases: str = ""
    """The names of months there, where they differ."""
    date: str = ""
    """A pattern of dates and months, where the day does not come first."""
    gap: str = " "
    """A pattern of what stands between a number and its unit."""
    edges: tuple[str, str] = (r"\b", r"\b")
    """Patterns of what stands before and behind a time; a word may have endings, or no blank beside it."""


WORDS: Final = {
    "de": Words(
        "vorgestern gestern heute übermorgen",
        "januar februar märz april mai juni juli august september oktober november dezember",
        "tag tagen woche wochen monat monaten jahr jahren stunde stunden",
        "ein=1 einem=1 einer=1 zwei=2 drei=3 vier=4 fünf=5 sechs=6 zehn=10",
        ("vor", ""),
        "letzte woche|letzten monat|letztes jahr|nächste woche|nächsten monat|nächstes jahr|"
        "letzter woche=letzte woche|nächster woche=nächste woche|letztem monat=letzten monat|"
        "nächstem monat=nächsten monat|letztem jahr=letztes jahr|nächstem jahr=nächstes jahr",
        r"war|waren|warst|hatten?|hattest|wurden?|ging|kam|fuhr|flog|geboren|gewesen|"
        r"(?:habe?|hast|haben|hat)\b.*\b(?:(?:ab|an|auf|aus|ein|hin|mit|um|vor|weg|zu)?ge\w{2,}(?:t|en)|\w+iert|"
        r"bekommen|besucht|verkauft|verloren)(?=\s*(?:[.,;!?]|$|und\b))",
        tomorrow=r"(?<!guten )(?<!heute )(?<!gestern )(?<!am )(?<!jeden )(?<!diesen )(?<!der )(?<!den )(?<!einen )(?<!eines )"
        r"(?<!schönen )(?<!zum )(?<!tag )(?<!woch )morgen(?!\s*[!,]|\s(?:zusammen|allerseits|alle|leute)\b)",
        alone="(?:im|ab|seit|bis|anfang|mitte|ende) {}",
    ),
    "fr": Words(
        "avant-hier hier aujourd'hui demain",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "jour jours semaine semaines mois an ans année années heure heures",
        "un=1 une=1 deux=2 trois=3 quatre=4 cinq=5 six=6 dix=10",
        ("il y a", ""),
        "la semaine dernière|le mois dernier|l'année dernière|l'an dernier=l'année dernière|"
        "la semaine prochaine|le mois prochain|l'année prochaine|l'an prochain=l'année prochaine|"
        "après-demain",
        r"étais|était|étions|étiez|étaient|avais|avait|avions|avaient|j'ai (?:été|eu|fait|vu|pris|mis|perdu|couru|reçu|lu|appris|ouvert|vendu|vécu)|"
        r"(?:ai|as|avons|avez|ont|a) été|suis née?|"
        r"(?:suis|est|sommes|sont) (?:all|arriv|tomb|rentr|rest)ée?s?|"
        r"(?:suis|est|sommes|sont) (?:part|ven|reven)[iu]e?s?|(?:j'ai|avons|ont) (?!congé)\w+é",
        alone="en {}",
    ),
    "es": Words(
        "anteayer ayer hoy",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "día días semana semanas mes meses año años hora horas",
        "un=1 una=1 dos=2 tres=3 cuatro=4 cinco=5 seis=6 diez=10",
        ("hace", ""),
        "la semana pasada|el mes pasado|el año pasado|la próxima semana|el próximo mes|el próximo año|"
        "la semana que viene=la próxima semana|el mes que viene=el próximo mes|"
        "el año que viene=el próximo año|pasado mañana=en 2 días",
        r"estuv[eio]\w*|fui|fue|fuimos|fueron|era|éramos|tuv[eio]\w*|hice|hizo|hicimos|había|nac[ií]|"
        r"(?!bebé|café|josé)\w{2,}(?<![aei]r)é|\w{2,}[iao]ó|\w{2,}[^aeiou\W]ó|\w{2,}(?:aron|ieron)",
        "del? ",
        tomorrow=r"(?<!la )(?<!esta )(?<!una )(?<!cada )(?<!toda )(?<!misma )(?<!buena )(?<!de )(?<!media )mañana",
        alone="(?:en|desde|hasta) {}",
    ),
    "it": Words(
        "ieri oggi domani",
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        "giorno giorni settimana settimane mese mesi anno anni ora ore",
        "un=1 una=1 due=2 tre=3 quattro=4 cinque=5 sei=6 dieci=10",
        ("", "fa"),
        "settimana scorsa|mese scorso|anno scorso|scorsa settimana=settimana scorsa|"
        "scorso mese=mese scorso|scorso anno=anno scorso|settimana prossima|mese prossimo|anno prossimo|"
        "prossima settimana=settimana prossima|prossimo mese=mese prossimo|prossimo anno=anno prossimo|"
        "dopodomani=tra 2 giorni",
        r"er[oa]|eravamo|avev[oa]|stat[oaie]|nat[oaie]|(?:ho|hai|abbiamo|hanno) \w+[aui]to|"
        r"(?:ho|abbiamo|hanno) (?:fatto|preso|visto|perso|rotto)|"
        r"(?:sono|è|siamo) (?:andat|partit|arrivat|tornat|venut|cadut)[oaie]",
        alone="(?:in|a|ad) {}",
    ),
    "pt": Words(
        "anteontem ontem hoje amanhã",
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "dia dias semana semanas mês meses ano anos hora horas",
        "um=1 uma=1 dois=2 duas=2 três=3 quatro=4 cinco=5 seis=6 dez=10",
        ("há", ""),
        "semana passada|mês passado|ano passado|próxima semana|próximo mês|próximo ano|"
        "semana que vem=próxima semana|mês que vem=próximo mês|ano que vem=próximo ano|"
        "depois de amanhã=em 2 dias",
        r"estiv[eé]\w*|estava|fui|foi|fomos|foram|tinha|tive|teve|tivemos|fiz|fez|fizemos|nasc[ie]u?|caí|"
        r"(?!vou|sou|dou|estou)\w{3,}ou|\w{3,}(?:aram|iram)|\w{2,}(?<![aei]r)ei",
        "de ",
        alone="(?:em|desde|até) {}",
    ),
    "nl": Words(
        "eergisteren gisteren vandaag",
        "januari februari maart april mei juni juli augustus september oktober november december",
        "dag dagen week weken maand maanden jaar uur",
        "een=1 twee=2 drie=3 vier=4 vijf=5 zes=6 tien=10",
        ("", "geleden"),
        "vorige week|vorige maand|vorig jaar|volgende week|volgende maand|volgend jaar|overmorgen",
        r"was|waren|had|hadden|werd|werden|ging|kwam|geweest|geboren",
        tomorrow=r"(?<!goede )(?<!goeie )(?<!goeden )(?<!de )(?<!elke )(?<!iedere )(?<!deze )(?<!een )(?<!'s )(?<!dag )morgen"
        r"(?!\s*[!,]|\s(?:allemaal|iedereen)\b)",
        alone="(?:in|sinds|vanaf|eind|begin) {}",
    ),
    "ru": Words(
        "позавчера вчера сегодня завтра",
        "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
        "день дня дней неделю недели недель месяц месяца месяцев год года лет час часа часов",
        "один=1 одну=1 два=2 две=2 три=3 четыре=4 пять=5 шесть=6 десять=10",
        ("", "назад"),
        "на прошлой неделе|в прошлом месяце|в прошлом году|на следующей неделе|в следующем месяце|"
        "в следующем году|послезавтра",
        r"был[аои]?|родил\w*|"
        r"(?:я|мы|он|она|они|мне|меня|нас)\b.*\b(?!если|или|фина)\w{2,}[аеиоуыя](?:л|ла|ли|лось|лся|лась|лись)",
        alone="во? {}",
        cases="январе=января феврале=февраля марте=марта апреле=апреля мае=мая июне=июня июле=июля августе=августа "
        "сентябре=сентября октябре=октября ноябре=ноября декабре=декабря",
    ),
    "pl": Words(
        "przedwczoraj wczoraj dzisiaj dziś jutro pojutrze",
        "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
        "dzień dni tydzień tygodnie tygodni miesiąc miesiące miesięcy rok lata lat godzinę godziny godzin",
        "jeden=1 dwa=2 dwie=2 trzy=3 cztery=4 pięć=5 sześć=6 dziesięć=10",
        ("", "temu"),
        "w zeszłym tygodniu|w zeszłym miesiącu|w zeszłym roku|"
        "w przyszłym tygodniu|w przyszłym miesiącu|w przyszłym roku",
        r"był[aoy]?|byli|był[ae]m|byliśmy|\w{2,}[ai]ł[ae]m|\w{2,}(?:liśmy|łyśmy)|miał[ae]?m?|urodził\w*",
        alone="we? {}",
        cases="styczniu lutym marcu kwietniu maju czerwcu lipcu sierpniu wrześniu październiku listopadzie grudniu",
    ),
    "tr": Words(
        "dün bugün yarın",
        "ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık",
        "gün=days hafta=weeks ay=months yıl=years sene=years saat=hours",
        "bir=1 iki=2 i̇ki=2 üç=3 dört=4 beş=5 altı=6 on=10",
        ("", "önce"),
        "evvelsi gün=2 days ago|önceki gün=2 days ago|öbür gün=in 2 days|"
        "geçen hafta=last week|geçen ay=last month|geçen yıl=last year|geçen sene=last year|gelecek hafta=next week|"
        "önümüzdeki hafta=next week|haftaya=next week|gelecek ay=next month|önümüzdeki ay=next month|"
        "gelecek yıl=next year|gelecek sene=next year|seneye=next year",
        r"\w{2,}[dt][ıiuü](?:m|k|lar|ler|nız|niz)?(?=\s*(?:[.,;!?]|$))|\w{2,}m[ıiuü]ş(?:t[ıiuü])?m?(?=\s*(?:[.,;!?]|$))",
        alone="{}(?:'?[dt][ae]| ayında)",
        cases="şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık",  # "ocakta" is on the stove, too
    ),
    "ko": Words(
        "",
        "",
        "일=days 주=weeks 주일=weeks 달=months 개월=months 년=years 시간=hours",
        "한=1 하루=1 두=2 세=3 네=4 다섯=5 일주=1 이=2 삼=3",
        ("", "전"),
        "어제=yesterday|오늘=today|내일=tomorrow|모레=in 2 days|내일모레=in 2 days|그저께=2 days ago|그제=2 days ago|"
        "엊그제=2 days ago|지난주=last week|지난 주=last week|저번 주=last week|저번주=last week|다음 주=next week|"
        "다음주=next week|지난달=last month|지난 달=last month|저번 달=last month|다음 달=next month|다음달=next month|"
        "작년=last year|지난해=last year|내년=next year|일주일 전=1 week ago",
        r"\w*[았었였했갔왔됐봤샀났졌랐렀탔잤썼켰셨]\w*",
        date=r"(?:(?:19|20)\d\d년 ?)?(?<!\d)\d{1,2}월(?: ?\d{1,2}일)?(?![가-힣]*마다)",
        gap=" ?",
        edges=(r"(?<![가-힣])", r"(?!날|야|서야|의 집)"),
    ),
    # Simplified characters, as in all that is read. Days and months are as in Chinese.
    "ja": Words(
        "",
        "",
        "日=days 周间=weeks か月=months ヶ月=months ヵ月=months カ月=months ケ月=months 年=years 时间=hours",
        "一=1 二=2 三=3 四=4 五=5 六=6 十=10 数=3",
        ("", "前"),
        "きのう=yesterday|きょう=today|あした=tomorrow|昨日=yesterday|今日=today|明日=tomorrow|明后日=in 2 days|"
        "あさって=in 2 days|一昨日=2 days ago|おととい=2 days ago|先周=last week|来周=next week|再来周=in 2 weeks|"
        "先月=last month|来月=next month|再来月=in 2 months|昨年=last year|来年=next year|再来年=in 2 years",
        r"(?:した|でした|[っいきしちりみにび]た|んだ|かった)(?:よ|ね|んです|の)*(?:[、。！!]|\s*$)",
        gap="",
        edges=("", "(?![香子美])"),  # 明日香 is a name
    ),
    "ar": Words(
        "",
        "يناير فبراير مارس أبريل=april ابريل=april إبريل=april مايو يونيو يونيه=june يوليو يوليه=july أغسطس اغسطس=august سبتمبر "
        "أكتوبر اكتوبر=october نوفمبر ديسمبر شباط=february آذار=march نيسان=april أيار=may حزيران=june تموز=july آب=august "
        "أيلول=september",
        "يوم=days أيام=days ايام=days أسبوع=weeks أسابيع=weeks شهر=months أشهر=months شهور=months سنة=years سنوات=years سنين=years عام=years "
        "أعوام=years ساعة=hours ساعات=hours",
        "ثلاثة=3 ثلاث=3 أربعة=4 أربع=4 خمسة=5 خمس=5 ستة=6 ست=6 عشرة=10 عشر=10",
        ("(?:قبل|منذ|من)", ""),
        "أمس=yesterday|امس=yesterday|البارحة=yesterday|مبارح=yesterday|امبارح=yesterday|اليوم=today|غدا=tomorrow|غداً=tomorrow|"
        "بكرة=tomorrow|بكرا=tomorrow|بعد غد=in 2 days|أول أمس=2 days ago|اول امس=2 days ago|"
        "الأسبوع الماضي=last week|الاسبوع الماضي=last week|الأسبوع القادم=next week|الاسبوع القادم=next week|"
        "الأسبوع المقبل=next week|الشهر الماضي=last month|الشهر القادم=next month|الشهر المقبل=next month|"
        "السنة الماضية=last year|العام الماضي=last year|السنة القادمة=next year|العام القادم=next year|العام المقبل=next year|"
        "قبل يومين=2 days ago|منذ يومين=2 days ago|قبل أسبوع=1 week ago|منذ أسبوع=1 week ago|قبل أسبوعين=2 weeks ago|"
        "منذ أسبوعين=2 weeks ago|قبل شهر=1 month ago|منذ شهر=1 month ago|قبل شهرين=2 months ago|منذ شهرين=2 months ago|"
        "قبل سنة=1 year ago|منذ سنة=1 year ago|قبل سنتين=2 years ago|منذ سنتين=2 years ago|منذ عامين=2 years ago",
        "كنت|كان|كانت|كنا|ذهبت|ذهبنا|سافرت|سافرنا|بدأت|اشتريت|انتقلت|زرت|رأيت|قابلت|تزوجت|ولدت|ركضت|عملت|درست|تخرجت|أكلت|التقيت|"
        "تركت|وصلت|رجعت|حصلت|فزت|رحت|شفت",
        alone="(?:في|منذ)(?: شهر)? {}",
        edges=(r"(?:(?<![ء-ي])|(?<=\b[وفب]))", "(?![ء-ي])"),
    ),
    "hi": Words(
        "",
        "जनवरी फरवरी फ़रवरी=february मार्च अप्रैल मई जून जुलाई अगस्त सितंबर=september सितम्बर=september अक्टूबर अक्तूबर=october "
        "नवंबर=november नवम्बर=november दिसंबर=december दिसम्बर=december",
        "दिन=days दिनों=days हफ्ते=weeks हफ़्ते=weeks सप्ताह=weeks महीने=months साल=years वर्ष=years घंटे=hours",
        "एक=1 दो=2 तीन=3 चार=4 पांच=5 पाँच=5 छह=6 छः=6 दस=10",
        ("", "पहले"),
        # The same words for the day before and the day after; the verb tells which.
        "कल=yesterday/tomorrow|परसों=2 days ago/in 2 days|आज=today|पिछले हफ्ते=last week|पिछले हफ़्ते=last week|"
        "पिछले सप्ताह=last week|अगले हफ्ते=next week|अगले हफ़्ते=next week|अगले सप्ताह=next week|पिछले महीने=last month|"
        "अगले महीने=next month|पिछले साल=last year|अगले साल=next year",
        "(?:मैं|हम|उस|उन्हों|[\u0900-\u0963]+ )ने|था|थी|थे|गया|गई|गयी|गए|हुआ|हुई|हुए|किया|आया|आई|मिला|मिली|दिया|लिया|देखा|खाया|पहुँचा|पहुंची",
        alone="{}(?: के महीने)? (?:में|से)",
        edges=(r"(?<![\u0900-\u0963])", r"(?![\u0900-\u0963])"),
    ),
}

# What of such a text lies ahead all the same, nearer or farther: who has bought tickets tells when the concert is.
PLANS: Final = (
    r"gebucht|vereinbart|ausgemacht|reserviert|eingeladen|angemeldet|(?:eintritts)?karten|termin\w*|tickets?|"
    r"réserv\w+|billets?|inscri\w+|rendez-vous|"
    r"invit\w+|entradas?|reserv\w+|boletos?|cita|billetes?|ingressos?|passage[mn]s?|bigliett[oi]|prenot\w+|"
    r"iscritt[oa]|appuntamento|afspraak|"
    r"kaartjes|gereserveerd|билет\w*|заброниро\w+|записал\w*|bilet\w*|zarezerwowa\w+|umówi\w+|"
    r"werden?|wird|will|wollen|voy|vamos|vais|iremos|vou|vai|vão|буд\w+|собира\w+|będ\w+|zamierza\w*|"
    r"\w*(?:예[약매]|티켓|予約|チケット|申し込|予定|つもり|誘われ|招待)\w*|تذكرة|تذاكر|حجزت|टिकट|rezervasyon\w*"
)
