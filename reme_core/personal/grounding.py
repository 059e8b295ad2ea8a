"""Guards against inventions: what in a model's operation is not borne out by the messages that it names.

They only guard. A value has to stand in the evidence, or in the question that this answers, as far as names and numbers
go: by their characters, in any inflection. Words are the model's own; nothing is refused for how it is put.

A wish or a profile, which every conversation is shown, is the person's own: a model can be fooled, so that it calls
something one is not enough. One sentence of the person, in their own name, has to say it (`is_said`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import Final

from reme_core.text.named import figures_in, letters_of, numbers_in, occurs, proper_names
from reme_core.text.regex import any_of
from reme_core.text.stopwords import STOP_WORDS
from reme_core.text.terms import is_latin, language_of, terms
from reme_core.text.timex import dates_near
from reme_core.types import Message

NO_EVIDENCE: Final = "it names no message of a person as evidence"
ALL_MESSAGES: Final = "it names every message as evidence"
ASSISTANTS: Final = "it rests on the assistant's words alone"
VALUE: Final = "its value is not in the messages it names"
STATEMENT: Final = "its statement says more than anybody told; the words that were said took its place"
BORROWED: Final = "its words are another's: cited, pasted, invented, or said by the assistant"
ANOTHERS: Final = "it closes a wish of another person"
NO_MEMORY: Final = "it names no remembered statement"
NO_STATEMENT: Final = "it states nothing"


def inventions(text: str, evidence: Sequence[Message], known: Sequence[str], timezone: str) -> list[str]:
    """The names and numbers of a text that neither its evidence nor what else is known has.

    Args:
        text: A value, or a statement.
        evidence: The messages it rests on; dates may also be counted from when these were sent.
        known: What else may lend it names and numbers: the question that is answered, whom it is about.
        timezone: In which the speakers' days begin.
    """
    said = "\n".join(m.content for m in evidence)
    grounds = "\n".join([said, *known])
    folded = letters_of(grounds)
    # What was said in another script may be named in Latin letters, which share none with it.
    missing = [name for name in proper_names(text) if not occurs(name, folded)] if is_latin(said) else []
    numbers = numbers_in(grounds) | {"0"}  # of "20:00", or of "none"
    for message in evidence:
        numbers |= dates_near(message, timezone)
    numbers |= {str(int(n) + 12) for n in numbers if len(n) < 3 and int(n) < 12}  # four in the afternoon is 16:00
    return missing + sorted(figures_in(text) - numbers)


def invented_value(
    value: str, statement: str, evidence: Sequence[Message], known: Sequence[str], timezone: str
) -> list[str]:
    """`inventions` of a value; its first word is a name if it is one within the statement."""
    named = [name for name in proper_names(statement) if name in value]
    return inventions(f": {', '.join(named)}, {value}" if named else value, evidence, known, timezone)


def is_borrowed(text: str, own: str, heard: str) -> bool:
    """Whether a text mainly repeats what was heard, and nothing of it is in what people said for themselves.

    The model's own words count neither way.

    Args:
        text: A statement.
        own: What people said for themselves, and the questions that they answered.
        heard: All that was said, theirs included.
    """
    words = set(terms(text)) - _PERSON
    repeated = _words_in(heard, words)
    return len(repeated) >= max(1, _REPEATED * len(words)) and not _words_in(own, repeated)


def is_said(statement: str, said: Sequence[str], heard: str) -> bool:
    """Whether one sentence has most of the words of a statement that were heard at all.

    From the words of several sentences almost anything can be put together. The model's own words count neither way.
    """
    return any(_share(statement, sentence, heard) > _MOST for sentence in said)


def is_repeated(statement: str, heard: str) -> bool:
    """Whether some word of a statement was heard; of a statement in another language none was."""
    return bool(_words_in(heard, set(terms(statement)) - _PERSON))


def is_about_author(text: str, asked: str) -> bool:
    """Whether a text names its author ("I", 我), or answers a question to them; in other languages it always may.

    >>> is_about_author("Leeds is where I live", ""), is_about_author("Bo lives in Hull", "")
    (True, False)
    >>> is_about_author("Hull.", "Where do you live?"), is_about_author("Jestem spawaczem w Gdyni", "")
    (True, True)
    """
    # Without any function word of English, what is in Latin letters may be in any language.
    is_english = language_of(text) == "en" and not STOP_WORDS["en"].isdisjoint(re.findall(r"\w+", text.casefold()))
    return not (is_english or language_of(text) == "zh") or bool(_I.search(text) or _YOU.search(asked))


def nearest_to(statement: str, said: Sequence[str]) -> str:
    """Of some sentences the one that has most of a statement's words; empty where none has some."""
    best = max(said, key=lambda sentence: _share(statement, sentence, statement), default="")
    return best if _share(statement, best, statement) > _SOME else ""


def _share(text: str, own: str, heard: str) -> float:
    """How many of the words of a text that were heard at all stand in `own`, 0 to 1; 1 where none was heard."""
    repeated = _words_in(heard, set(terms(text)) - _PERSON)
    return len(_words_in(own, repeated)) / len(repeated) if repeated else 1.0


def _words_in(text: str, words: Set[str]) -> set[str]:
    letters = letters_of(text)
    return {word for word in words if occurs(word, letters)}


_I: Final = any_of(r"\b(?:I|im|ive|me|my|mine|myself|we|us|our)\b", r"[我咱]")
_YOU: Final = any_of(r"\b(?:you|your|yours|u|ur)\b", r"[你您]")
_PERSON: Final = frozenset((*terms("the user"), *terms("用户")))  # whom statements are about
_REPEATED: Final = 2 / 3  # the share of words heard from which on a statement may be another's
_MOST: Final = 1 / 2
_SOME: Final = 1 / 4
