"""The terms that lexical recall (BM25) compares: words as stems, CJK text as bigrams, identifiers whole and in parts.

A word gives up to two terms: a *common form* that depends on its alphabet alone (Latin: accents removed, English stem;
Cyrillic: Russian stem; …) and, if it differs, a *precise form*, the stem in the detected language. CJK and other
scripts without spaces give overlapping bigrams.
"""

from __future__ import annotations

import hashlib
import re
import threading
import unicodedata
from collections import Counter, defaultdict
from functools import lru_cache
from typing import Any, Final

import snowballstemmer

from reme_core.text.stopwords import CJK_FUNCTION, CJK_STOP_BIGRAMS, STOP_WORDS, VOTES

MAX_TERM: Final = 64
"""Characters of the longest term; of a longer word the beginning is kept, followed by a digest of the whole."""

# What makes a text another language than English: two different function words of enough weight (`VOTES`), or four.
_MIN_VOTES: Final = 2
_MIN_WEIGHT: Final = 1.25
_ENOUGH_VOTES: Final = 4

_ALGORITHMS: Final = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish", "fr": "french", "ga": "irish",
    "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian",
    "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip

# Alphabets by the last code point of their blocks, each with the language of its common form; "" has none.
_ALPHABETS: Final = (
    (0x02FF, "en"), (0x036F, ""), (0x03FF, "el"), (0x052F, "ru"), (0x058F, "hy"), (0x05FF, "he"), (0x08FF, "ar"),
    (0x097F, "hi"), (0x0B7F, ""), (0x0BFF, "ta"), (0x1DFF, ""), (0x1EFF, "en"), (0x1FFF, "el"),
)  # fmt: skip
# Languages whose words get the common form of another one.
_SHARES_ALPHABET: Final = {"fa": "ar", "ne": "hi", "sr": "ru", "yi": "he"}
# The language of the common form → the languages that can give its words a precise form.
_LANGUAGES_OF_ALPHABET: Final = {
    common: {common, *(other for other, alphabet in _SHARES_ALPHABET.items() if alphabet == common)}
    for _, common in _ALPHABETS
    if common
}
_LANGUAGES_OF_ALPHABET["en"] = _ALGORITHMS.keys() - set().union(
    *(_LANGUAGES_OF_ALPHABET[common] for common in _LANGUAGES_OF_ALPHABET if common != "en")
)
_UNSPACED: Final = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u109f\u1100-\u11ff\u1780-\u17d3"  # Thai, Lao, Burmese, jamo, Khmer
    "\u2e80-\u2fd5\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u318e\u31f0-\u31ff"  # radicals, kana
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7fb\uf900-\ufaff\U00020000-\U0003ffff"  # Han, Hangul
)
_MARKS: Final = "".join(
    mark
    for mark in map(chr, (*range(0x300, 0x1E00), *range(0x20D0, 0x20F1), *range(0xA66F, 0xAC00)))
    if unicodedata.category(mark)[0] == "M" and not re.match(f"[{_UNSPACED}]", mark)
)
_WORD: Final = rf"[^\W{_UNSPACED}]+(?:[{_MARKS}]+[^\W{_UNSPACED}]*)*"
_TOKEN: Final = re.compile(
    rf"[{_UNSPACED}]+"
    r"|https?://[!-~]+"
    r"|[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
    rf"|{_WORD}(?:(?:['’.&‐-]|(?<=\d)[:,/](?=\d)){_WORD})*(?:\+\+|\#(?!\w))?"
)
_LONGEST_KEPT: Final = 100
"""Characters of a token whose terms are kept to be given again; a longer one is pasted."""
_UNSPACED_START: Final = re.compile(f"[{_UNSPACED}]")
_CLUSTER: Final = re.compile(r"\w[^\w]*")
# Parts of an identifier: numbers (2.1 is one), ACRONYMS before a Word, words of camelCase, other letters.
_PIECE: Final = re.compile(
    rf"\d+(?:[.,]\d+)*|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+(?![^\W\dA-Z_])|(?:[^\W\d_]|[{_MARKS}])+"
)
_CAMEL: Final = re.compile(r"[a-z][A-Z]|[A-Z]{2,}[a-z]")
_CONTRACTION: Final = re.compile(r"n't$|'(?:s|m|re|ve|ll|d)$")
# l'école, dell'arte
_ELISION: Final = re.compile(r"^(?:[cdjlmnst]|qu|dell|dall|nell|sull|all|un)'(?=\w{2})")
_SOFT_HYPHEN: Final = re.compile(r"(?<=[^\W\d_])[-‐]|[-‐](?=[^\W\d_])")
_URL_NOISE: Final = frozenset({"www", "com", "html"})
# Letters that Persian has and Arabic has not.
_PERSIAN: Final = re.compile("[پچژگک]")
_KANA: Final = re.compile("[\u3041-\u309f\u30a1-\u30fa]")
_HANGUL: Final = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]")
_THAI: Final = re.compile("[\u0e01-\u0e4e]")

# Letters with strokes and ligatures: Unicode decomposes them into no base letter and mark.
_LETTERS: Final = str.maketrans(
    {"ß": "ss", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"}
)


def terms(text: str, language: str | None = None) -> list[str]:
    """Give the index terms of a text, in order and with repetitions.

    They are case-folded, NFKC-normalised and of 1 to `MAX_TERM` characters, without NUL or white space. Function words
    are left out, unless the text has nothing else. Without a `language` (ISO 639-1) it is detected.

    >>> terms("She visited the museums")
    ['visit', 'museum']
    >>> terms("我喜欢爬山")
    ['我喜', '喜欢', '欢爬', '爬山']
    >>> terms("call get_account_info()")
    ['call', 'get_account_info', 'get', 'account', 'info']
    """
    tokens = _TOKEN.findall(unicodedata.normalize("NFKC", text))
    code = language.lower()[:2] if language else _detect_language(text, tokens)
    found = [term for token in tokens for term in _token_terms(token, code, keep_stops=False)]
    # A text of function words only ("who is it") is better found by these than not at all.
    return found or [term for token in tokens for term in _token_terms(token, code, keep_stops=True)]


@lru_cache(maxsize=64)  # a turn asks for that of its query four times
def language_of(text: str) -> str:
    """The language of most of a text, as an ISO 639-1 code.

    Other scripts than Latin show their language; a text in Latin letters is English, unless at least two different
    function words of another language outweigh the English ones.

    >>> language_of("Wo ist der Bahnhof, und wie komme ich dahin?"), language_of("Hotel"), language_of("你好")
    ('de', 'en', 'zh')
    """
    tokens = _TOKEN.findall(unicodedata.normalize("NFKC", text))
    scripts: Counter[str] = Counter()
    for token in tokens:
        unspaced = _UNSPACED_START.match(token)
        # A character of a script without spaces weighs about half a word.
        scripts["" if unspaced else _alphabet(token)] += len(token) if unspaced else 2
    if not scripts:
        return "en"
    main = scripts.most_common(1)[0][0]
    if main:
        detected = _detect_language(text, tokens)
        return detected if detected in _LANGUAGES_OF_ALPHABET.get(main, ()) else main
    if _THAI.search(text):
        return "th"
    if _HANGUL.search(text):
        return "ko"
    # Japanese has some kana in every sentence; a Japanese name in a Chinese text has few.
    kana = len(_KANA.findall(text))
    return "ja" if kana * 10 >= scripts[""] else "zh"


def is_latin(text: str) -> bool:
    """Whether most of a text is in Latin letters."""
    return language_of(text) in _LANGUAGES_OF_ALPHABET["en"]


def weights_of_languages(text: str) -> dict[str, float]:
    """How much the function words of a text speak for each language."""
    tokens = _TOKEN.findall(unicodedata.normalize("NFKC", text))
    return {language: _total(weights) for language, weights in _votes(tokens).items()}


def _total(weights: list[float]) -> float:
    # Rounded: their order is that of a set, on which the last digit of a sum of sixths depends, and so which are equal.
    return round(sum(weights), 6)


def _votes(tokens: list[str]) -> defaultdict[str, list[float]]:
    """The weights of the function words of each language."""
    votes: defaultdict[str, list[float]] = defaultdict(list)
    # Words with a capital are names ("Li Lei" is not Italian), except the first one, where every sentence has one.
    words = {token for token in tokens if token.islower()} | {token.casefold() for token in tokens[:1]}
    for word in VOTES.keys() & words:
        for language in VOTES[word]:
            votes[language].append(1 / len(VOTES[word]))
    return votes


def _detect_language(text: str, tokens: list[str]) -> str:
    """The language whose stemmer gives a text's precise forms; see `language_of`."""
    votes = _votes(tokens)
    if votes:
        # The name breaks a tie, so that the answer never depends on the order of a set.
        best = max(votes, key=lambda language: (_total(votes[language]), language))
        count, score = len(votes[best]), _total(votes[best])
        if count >= _ENOUGH_VOTES or (count >= _MIN_VOTES and score >= _MIN_WEIGHT):
            contracted = sum(1 for token in set(tokens) if _CONTRACTION.search(token.replace("’", "'")))
            if score > _total(votes["en"]) + contracted:
                return best
    return "fa" if _PERSIAN.search(text) else "en"


def _token_terms(token: str, language: str, *, keep_stops: bool) -> tuple[str, ...]:
    is_kept = len(token) <= _LONGEST_KEPT
    if _UNSPACED_START.match(token):
        return (_bigrams if is_kept else _bigrams.__wrapped__)(token, keep_stops)
    return (_word_or_name if is_kept else _word_or_name.__wrapped__)(token, language, keep_stops)


# Cached, because texts are many and their vocabulary is small.
@lru_cache(maxsize=200_000)
def _word_or_name(token: str, language: str, keep_stops: bool, /) -> tuple[str, ...]:
    if "://" in token:
        address = token.partition("://")[2].rstrip(".,;:!?'\")]}>/")
        return tuple(term for term in _compound_terms(address.casefold(), address, language) if term not in _URL_NOISE)
    if token.isalpha() and not _CAMEL.search(token):
        return _word_terms(token, language, keep_stops=keep_stops)
    plain = token.replace("’", "'").strip("_")
    bare = _ELISION.sub("", _CONTRACTION.sub("", plain.casefold()))
    if bare.isalpha() and not _CAMEL.search(plain):
        # "don't" goes with its "do", "l'école" with "école", "Caroline's" with "Caroline".
        return _word_terms(bare, language, keep_stops=keep_stops)
    if plain and all(unicodedata.category(letter)[0] in "LM" for letter in plain) and not _CAMEL.search(plain):
        return _word_terms(plain, language, keep_stops=keep_stops)
    # A hyphen comes and goes (e-mail, email); an underscore or a dot belongs to the name.
    return _compound_terms(_SOFT_HYPHEN.sub("", plain.casefold()).replace(",", ""), plain, language)


def _word_terms(word: str, language: str, *, keep_stops: bool) -> tuple[str, ...]:
    # The Turkish İ becomes an "i" with a dot above it.
    word = unicodedata.normalize("NFKC", word.casefold().replace("i\u0307", "i"))
    common = _alphabet(word)
    precise = language if language in _LANGUAGES_OF_ALPHABET.get(common, ()) else common
    if not keep_stops and word in STOP_WORDS.get(precise, ()):
        return ()
    # A query of three words is too short to detect its language reliably, and still has to match its documents:
    # "Häuser" in a German text gives `hauser` and `haus`; the query "Häuser", taken for English, `hauser` and `häuser`.
    forms = (_stem(_fold(word) if common == "en" else word, common), _stem(word, precise))
    return tuple(dict.fromkeys(_shorten(form) for form in forms if form))


def _compound_terms(whole: str, token: str, language: str) -> tuple[str, ...]:
    found = [_shorten(whole)] if whole else []
    for piece in _PIECE.findall(token):
        if piece[0].isdigit():
            found.append(_shorten(piece.replace(",", "")))
        elif len(piece) > 1:
            found.extend(_word_terms(piece, language, keep_stops=False))
    return tuple(dict.fromkeys(found))


# A run is a clause, and hardly comes again but with its text: of more of them the memory of a process would grow.
@lru_cache(maxsize=1_000)
def _bigrams(run: str, keep_stops: bool, /) -> tuple[str, ...]:
    # Bigrams need no dictionary. A base character and the marks on it (Thai vowels, tones) are one unit.
    units = list(run.casefold()) if run.isalpha() else _CLUSTER.findall(run.casefold()) or [run]
    if len(units) == 1:
        return () if units[0] in CJK_FUNCTION and not keep_stops else (_shorten(units[0]),)
    function = [unit in CJK_FUNCTION for unit in units]
    found = []
    for at in range(len(units)):
        # A content character between function characters (我的*猫*很可爱): queries of one character find it so.
        if not function[at] and (at == 0 or function[at - 1]) and (at + 1 == len(units) or function[at + 1]):
            found.append(_shorten(units[at]))
        if at + 1 < len(units):
            pair = units[at] + units[at + 1]
            if keep_stops or not ((function[at] and function[at + 1]) or pair in CJK_STOP_BIGRAMS):
                found.append(_shorten(pair))
    return tuple(found)


def _alphabet(word: str) -> str:
    code = ord(word[0])
    return next((language for end, language in _ALPHABETS if code <= end), "xx")


def _fold(word: str) -> str:
    decomposed = unicodedata.normalize("NFD", word.translate(_LETTERS))
    return "".join(letter for letter in decomposed if not "\u0300" <= letter <= "\u036f")


def _shorten(term: str) -> str:
    if len(term) <= MAX_TERM:
        return term
    digest = hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{term[: MAX_TERM - 17]}~{digest}"


_stemmers: dict[str, Any] = {}
_stemmers_lock = threading.Lock()


@lru_cache(maxsize=200_000)
def _stem(word: str, language: str) -> str:
    algorithm = _ALGORITHMS.get(language)
    if algorithm is None or len(word) > MAX_TERM:
        return word
    with _stemmers_lock:  # a Snowball stemmer keeps its word in itself, and terms are made in several threads
        if language not in _stemmers:
            _stemmers[language] = snowballstemmer.stemmer(algorithm)
        return str(_stemmers[language].stemWord(word)) or word
