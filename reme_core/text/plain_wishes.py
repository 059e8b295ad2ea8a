"""What is near certainly a lasting wish of its author, or near certainly none, by its wording in fifteen languages.

The judge by voice (`personal.voice`) knows no words. Of short messages it takes thanks and "no como carne" for wishes,
and is in doubt about some that say "from now on". Here stands only what hardly ever means anything else.
"""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

import re
from typing import Final

from reme_core.text.regex import any_of, regex
from reme_core.text.signs import simplify

_LONGEST: Final = 120
"""Characters of the longest message that is a plain wish, or nothing but thanks."""


def is_plain_wish(text: str) -> bool:
    """Whether a message is a lasting wish and nothing else: what begins now, another name, no more emojis.

    >>> is_plain_wish("Antworte mir ab jetzt auf Deutsch"), is_plain_wish("Chiamami Gigi"), is_plain_wish("Chiamami dopo")
    (True, True, False)
    """
    plain = simplify(text).strip()
    return len(plain) <= _LONGEST and any(pattern.fullmatch(plain) for pattern in (_FROM_NOW_ON, _NAME, _NO_EMOJIS))


def is_no_wish(sentence: str) -> bool:
    """Whether a sentence wishes nothing lasting: thanks, what somebody does not do or like, "make it shorter".

    >>> is_no_wish("Danke dir, das hilft mir sehr."), is_no_wish("No como carne."), is_no_wish("No uses emojis.")
    (True, True, False)
    """
    plain = simplify(sentence).strip()
    if len(plain) > _LONGEST:
        return False
    if _THANKS.search(plain) and not re.search(r"\w", _WORDS_OF_THANKS.sub("", _THANKS.sub("", plain))):
        return True
    return denies(plain) or (bool(_ONCE.fullmatch(plain)) and not _OF_ANSWERS.search(plain))


def denies(sentence: str) -> bool:
    """Whether somebody tells in a short sentence what they do not do, have or like, and nothing of answers."""
    plain = simplify(sentence).strip()
    return len(plain) <= _LONGEST and bool(_DOES_NOT.search(plain)) and not _OF_ANSWERS.search(plain)


_PLEASE: Final = r"(?:(?:please|pls|bitte|por favor|porfa|s'il (?:te|vous) pla[iî]t|stp|svp|per favore|пожалуйста|proszę|lütfen|alsjeblieft|alstublieft|aub|graag|من فضلك|कृपया|请)[,\s]*)"
# A time from which on something holds, and a verb that tells the assistant how to answer; nothing is cited in between.
_STARTS: Final = (
    r"(?:from now on|ab jetzt|ab sofort|ab heute|von nun an|künftig|de ahora en adelante|a partir de (?:ahora|agora|hoy|hoje)|de agora em diante|daqui (?:para|pra) (?:a )?frente"
    r"|à partir de maintenant|désormais|dorénavant|d'ora in (?:poi|avanti)|da (?:adesso|ora) in poi|с этого момента|отныне|впредь|теперь|od teraz|od tej pory|od dzisiaj|od dziś"
    r"|vanaf nu|voortaan)"
)
_TELLS: Final = (
    r"(?:answer|reply|respond|speak|talk|write|antworte|schreib|schreibe|sprich|rede|responde|respóndeme|contesta|contéstame|habla|háblame|escribe|escríbeme|réponds|réponds-moi|parle|parle-moi|écris|écris-moi"
    r"|rispondi|rispondimi|parla|parlami|scrivi|scrivimi|responda|fale|fala|escreva|escreve|отвечай|отвечайте|пиши|пишите|говори|odpowiadaj|pisz|mów|antwoord|antwoorden|schrijf|praat)"
)
_SAID: Final = r"[^.:;!?…\n\"“”„«»'‘’]{0,80}?"
_STARTS_ELSEWHERE: Final = r"(?:これから|今后|以后|이제부터|지금부터|앞으로|오늘부터|bundan (?:sonra|böyle)|şu andan itibaren|अब से|आज से|आगे से|من الآن(?: فصاعدا)?)"
_TELLS_ELSEWHERE: Final = r"(?:(?:答え|返事し|返信し|话し|書い|书い)[てで](?:ください|下さい|くれ|ね|ほしい)*|(?:대답|답|말|얘기|써|답장)\s?해?\s?(?:줘|주세요|줄래|봐)요?|(?:cevap ver|yanıt ver|yaz|konuş)(?:in|iniz)?|(?:जवाब (?:दो|देना|दीजिए)|बात (?:करो|करना|कीजिए)|लिखो))"
_FROM_NOW_ON: Final = any_of(
    rf"{_PLEASE}*{_STARTS},? {_PLEASE}*(?:immer |siempre |toujours |sempre |всегда |zawsze |altijd )?{_TELLS}\b{_SAID}[.!]*",
    rf"{_PLEASE}*{_TELLS} {_SAID}\b{_STARTS}\b{_SAID}[.!]*",
    rf"{_STARTS_ELSEWHERE}{_SAID}{_TELLS_ELSEWHERE}[.!。！।]*",
    rf"{_STARTS_ELSEWHERE},? (?:تحدث|تكلم|أجب|أجبني|جاوب|جاوبني|اكتب)\b{_SAID}[.!]*",
)
# A name has a capital, where there are any: "chiamami domani" gives none. What can begin a sentence is no name, either.
_NEW_NAME: Final = r"(?!(?:Morgen|Später|Bitte|Wenn|Montag|Dienstag|Mittwoch|Donnerstag|Freitag|Samstag|Sonntag|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)\b)[^\W\d_a-zß-ÿа-яё]\w+(?: [^\W\d_a-zß-ÿа-яё]\w+)?"
_NAME: Final = regex(
    rf"(?:[Yy]ou can (?:just )?call me|[Ff]eel free to call me|[Nn]enn(?:e|t)? mich(?: bitte)?|[Dd]u (?:kannst|darfst) mich(?= [\w ]+ nennen)|[Ll]lámame|[Pp]uedes llamarme|[Aa]ppelle-moi|[Tt]u peux m'appeler|[Cc]hiamami"
    rf"|[Pp]uoi chiamarmi|[Mm]e chame(?: de)?|[Mm]e chama de|[Pp]ode me chamar de|[Зз]ови меня|[Мм]ожешь называть меня|[Mm]ów mi|[Mm]ożesz mi mówić|[Nn]oem me(?: maar)?|[Jj]e mag me(?= [\w ]+ noemen)|Bana(?= \w+ (?:de|deyin|diyebilirsin)\b)) {_NEW_NAME}(?: (?:nennen|noemen|de|deyin|diyebilirsin|bitte|please))?[.!]*"
    r"|(?:(?:私|わたし|僕|俺)のことは?)?[^、。\s]{1,12}?(?:と|って)呼んで(?:ください|下さい|くれ|ね|ほしい)*[。！!]*"
    r"|(?:나를|저를|날|나|그냥|앞으로|\s)*[^\s,.]{1,10}?(?:이라고|라고) 불러(?:\s?줘|\s?주세요)?요?[.!]*"
    r"|(?:你|您|以后|之后|就|请)*(?:可以)?[叫喊](?:我)(?![起去来吃做写怎干帮学每叫戴给看别不])[^，。！？,的我很你\s]{1,6}?(?:就[行好]|吧)?[。！]*"
)
_EMOJIS: Final = r"(?:(?:smiley|emoji|emoticon|emote|smajl|émoji|emotikon|emotk|smile)(?:'?s|er|is|cons|ji|i|ów|ami|ek|n)?|смайлик\w*|эмод[жз]и|絵文字|顔文字|颜文字|이모지|이모티콘|表情包?|इमोजी|الإيموجي|ايموجي)"
_NO_EMOJIS: Final = any_of(
    rf"{_PLEASE}*(?:no more|stop (?:using|with)(?: the)?|keine|nie wieder|basta|chega de|no más|plus d'|arrête(?: avec)? les|geen|хватит|больше никаких|koniec z|artık|अब से कोई) {_EMOJIS}(?: (?:mehr|meer|yok|नहीं))?[,\s]*{_PLEASE}*[.!]*",
    rf"(?:もう)?{_EMOJIS}(?:は|を|なんて)*(?:もう)?(?:使わないで|やめて|使うのをやめて|いらない|いりません)(?:ください|下さい|くれ|ね|よ)*[。！!]*",
    rf"(?:이제|더 이상|앞으로)?\s*{_EMOJIS}[는은를을]? ?(?:이제|더 이상)?\s*(?:그만 써|쓰지 마|사용하지 마|빼)(?: ?줘| ?주세요|세요)?요?[.!]*",
    rf"(?:请|以后|今后|能不能|拜托)*(?:别|不要|唔好)再?(?:使?用|发|加|带){_EMOJIS}(?:了|啦|哈|吧|好吗)*[。！!]*",
)

_THANKS: Final = any_of(
    r"\b(?:thanks|thank (?:you|u)|thx|tysm|ty|cheers|danke(?:schön)?|dank (?:dir|je|u)|vielen (?:lieben )?dank|gracias|merci|obrigad[oa]|valeu|grazie|спасибо|спс|благодарю|dzięki|dziękuję|teşekkür(?:ler| ederim| ederiz)|sa[gğ] ?ol|eyvallah|bedankt|dankjewel)\b",
    r"شكرا|شكراً|مشكور|धन्यवाद|शुक्रिया|थैंक्स|थैंक यू|고마워요?|고맙습니다|감사합니다|감사해요|ありがとう(?:ございま(?:す|した))?|助かり?(?:ました|った)|谢谢|谢啦|多谢|感谢",
)
_WORDS_OF_THANKS: Final = any_of(
    r"(?<![^\W_])(?:so|much|a|lot|lots|you|u|ur|you're|that's|that|was|is|big|great|help|helpful|very|really|super|perfect|awesome|this|it|helps|helped|me|mate|pal|legend|the|best|for|your"
    r"|dir|euch|ihnen|sehr|vielmals|das|es|hilft|hat|mir|geholfen|du|hast|toll|klasse|prima|perfekt|ja|ach|echt|richtig|wirklich|bist|beste|ein|schatz"
    r"|eso|esto|ayuda|ayudó|ayudado|mucho|muchísimas|muchas|mil|eres|un|una|sol|crack|genial|perfecto|buenísimo|ha|servido|de|la|mejor"
    r"|ça|cela|c'est|m'aide|m'a|aidé|beaucoup|bcp|t'es|tu|es|top|trop|génial|parfait|vraiment|mille|bien|isso|ajuda|ajudou|muito|demais|bastante|você|é|maravilhos[oa]|ótimo|perfeito"
    r"|mi|è|molto|utile|aiuta|aiutato|tanto|sei|mito|perfetto|большое|огромное|это|мне|очень|помогло|ты|лучший|лучшая|супер|bardzo|to|pomogło|wielkie|jesteś|najlepszy|świetnie"
    r"|çok|yardımcı|oldu|oldun|süpersin|harika|harikasın|heel|erg|veel|heeft|geholpen|dat|bent|helpt|fijn"
    r"|هذا|ساعدني|ساعدتني|كثيرا|جدا|جزيلا|يا|غالي|لك|इससे|मुझे|बहुत|मदद|मिली|हुई|बढ़िया|यार)(?![^\W_]|[\u0900-\u0963])",
    r"정말|진짜|너무|많이|큰|도움이?|됐어요?|되었어요|됩니다|되었습니다|최고(?:야|예요)?|とても|本当に|本当|すごく|ほんと|どうも|に|帮大?忙了?|帮了我?大忙|你|您|太好了|太|了|啦|非常",
)
# "No como carne" and "Не пью кофе": the verb is of the first person. Who forbids something takes another form.
_DOES_NOT: Final = any_of(
    r"^(?:yo )?no (?:(?:me|lo|la|los|las) )?(?!quiero|necesito|deseo|prefiero|acepto|permito|mucho|tanto|solo|poco|demasiado|pero|lo\b)(?:entiendo|comprendo|vendo|\w+o\b(?<!ndo)(?<!ado)(?<!ido)(?<!cho))",
    r"^(?:eu )?não (?:(?:me|o|a|os|as) )?(?!quero|preciso|desejo|prefiro|aceito|permito|muito|tanto|só|pouco)(?:entendo|compreendo|vendo|\w{2,}[oô]\b(?<!ndo)(?<!ado)(?<!ido))",
    r"^(?:io )?non (?:(?:mi|lo|la|li|le|ci) )?(?!voglio|desidero|preferisco|accetto|permetto|molto|troppo|tanto|solo|poco|lo\b)(?:intendo|comprendo|vendo|\w+o\b(?<!ndo)(?<!ato)(?<!ito)(?<!uto))",
    r"^(?:я )?не (?!хочу|прошу|желаю|потерплю)\w{2,}[юу](?:сь)?\b|^(?:я )?(?:ненавижу|терпеть не могу)\b",
    r"^(?:ja )?nie (?!chcę|życzę|proszę|pozwalam)\w{2,}(?:ę|am|em)\b",
    r"^(?:ich )?(?:mag|esse|trinke|rauche|hasse|vertrage) (?:\w+ )?(?:kein\w*|nicht)\b",
    r"^(?:ik )?(?:hou|lust|eet|drink|rook|haat) (?:niet|geen)\b",
    r"^(?!.*\bist[ei]).*\w{2,}(?:m[ae]m|m[ıiuü]yorum)[.!]*$",
    r"(?:안|못) (?:먹|마시|마셔|마신|피[우워]|좋아|믿|타|가|와|자)\S*?[.!]*$",
    r"^(?:i )?(?:can'?t stand|hate|don'?t (?:eat|drink))\b(?! (?:it|when|how|being)\b)",
)
# What is wished of answers or of somebody else is left to the judge, and so is what lasts.
_OF_ANSWERS: Final = any_of(
    rf"{_EMOJIS}|{_STARTS}|{_STARTS_ELSEWHERE}",
    r"\b(?:you|your|u|ur|respuesta|respost|rispost|réponse|antwort|antwoord|answer|repl(?:y|ies)|ответ|odpowied|cevap|yanıt)",
    r"\b(?:list|bullet|markdown|tab[eu]l|viñet|формат|спис[ко])|대답|답변|答え|返事|回答|\b(?:que|che|tus?|tue?i?|seus?|suas?|dein\w*|jouw?|чтобы|ты|твои\w*|żebyś|twoj\w*|always|immer|siempre|toujours|sempre|всегда|zawsze|her zaman|altijd|never|nie wieder)\b|항상|늘|いつも|हमेशा|دائما|دايما|总是|永远",
)
# What is wished of one text: "make it shorter".
_ONCE: Final = any_of(
    rf"{_PLEASE}*(?:make (?:it|this) \w+er|mach(?:e|t)? (?:das|es|den text)(?: bitte)? (?:noch )?\w+er|hazlo (?:un poco )?más \w+|(?:fais|rends)-le (?:un peu )?plus \w+|fallo (?:un po' )?più \w+|rendilo più \w+|(?:faz|faça|deixa|deixe)(?: isso)? mais \w+"
    rf"|(?:сделай|сделайте) (?:это |текст )?(?:по)?(?:короче|длиннее|проще|понятнее)|zrób to \w+(?:iej|ej|sze)|skróć to|(?:bunu )?daha (?:kısa|uzun|basit|sade) yap|maak (?:het|dit) \w+er)[,\s]*{_PLEASE}*[.!]*",
    r"(?:اختصر(?: أكثر)?|اجعله? (?:أقصر|أطول|أبسط))(?: من فضلك)?[.!]*|(?:इसे|इसको) (?:और )?(?:थोड़ा )?(?:छोटा|लंबा|सरल|आसान) (?:करो|कर दो|कीजिए|बनाओ)[।.!]*",
    r"(?:もっと|もう少し)(?:短く|長く|简单に|わかりやすく)して(?:ください|下さい|くれ|ね)*[。！!]*|(?:조금 |좀 )?더 (?:짧게|길게|쉽게|간단하게|간단히) 해 ?(?:줘|주세요)요?[.!]*",
)
