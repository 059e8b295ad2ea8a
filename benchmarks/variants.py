"""Further questions and workspaces, made of those of a set: asked in keywords, misspelt, and of workspaces just begun.

The questions of sets are whole sentences to large workspaces. People also type "dog name" or "wich medecine", and the
first workspace that anybody has holds a few messages. Everything is drawn from a given generator.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from benchmarks.people import Person
from benchmarks.sets import Asked, Conversation
from reme_core import Memory
from reme_core.text.stopwords import STOP_WORDS
from reme_core.text.terms import language_of

SIZES = (2, 3, 3, 4, 4, 5, 6, 8, 10, 12)
"""Messages of the workspaces that were begun just now."""
MADE_OF = "-begun-"
"""Stands in the name of a made workspace, behind that of its conversation."""
FACTS = 7
"""How many facts a made workspace of facts holds."""
NEIGHBOURS = 2
"""How far from one of its messages another one may have been said, where it is of the same talk."""

_WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
_ASKING_ZH = re.compile(
    r"什么时候|什么|多少|几点|哪里|哪儿|哪个|哪些|哪家|哪|谁|怎么样|怎么|如何|为什么|是不是|有没有|吗|呢|了|的|是|在|有|我|你|他|她|过|会|要|想|和|跟|都|也|不"
)


def in_keywords(query: str, draw: Random) -> str:
    """The query as somebody types it who thinks of a search box: up to three of its words, or of its Chinese pieces."""
    if language_of(query) == "zh":
        pieces = [piece for piece in _ASKING_ZH.sub(" ", query).split() if re.search(r"\w", piece)]
        return draw.choice([p for p in pieces if len(p) > 1] or pieces or [query]).strip("？?。，,")
    words = [word for word in _WORD.findall(query) if word.lower() not in STOP_WORDS["en"]]
    start = draw.randrange(max(1, len(words) - 1))
    return " ".join(words[start : start + draw.choice((1, 2, 2, 3))]).lower() or query


def keywords_of(text: str, others: Sequence[str], draw: Random) -> str:
    """One or two neighbouring words of a text that are in few others; of a Chinese text a piece of it."""
    if language_of(text) == "zh":
        pieces = [piece for piece in re.findall(r"[㐀-鿿]{2,}", _ASKING_ZH.sub(" ", text)) if piece]
        piece = draw.choice(pieces) if pieces else text[:4]
        start = draw.randrange(max(1, len(piece) - 3))
        return piece[start : start + 4]
    words = [word for word in _WORD.findall(text) if word.lower() not in STOP_WORDS["en"] and len(word) > 2]
    if not words:
        return text
    holding = {word: sum(word.lower() in other.lower() for other in others) for word in words}
    rare = min(words, key=lambda word: (holding[word], draw.random()))
    place = words.index(rare)
    return " ".join(words[place : place + draw.choice((1, 1, 2))]).lower()


def misspell(query: str, draw: Random) -> str:
    """The query with a slip of the finger in one or two longer words, in lower case and without its full stop."""
    words = query.lower().rstrip("?.!？。").split()
    places = [place for place, word in enumerate(words) if len(word) > 3 and word.isascii()]
    for place in draw.sample(places, min(len(places), draw.choice((1, 2)))):
        word, at = words[place], draw.randrange(1, len(words[place]) - 1)
        before, letter, after = word[:at], word[at], word[at + 1 :]
        slips = (before + after, before + after[0] + letter + after[1:], before + letter + letter + after)
        words[place] = draw.choice(slips)
    return " ".join(words)


def further_questions(conversation: Conversation, most: int, draw: Random) -> list[Asked]:
    """Up to `most` questions of a conversation, each in keywords, in words of its answer, or misspelt."""
    texts = {message.message_id: message.content for message in conversation.messages}
    asked = []
    for question in draw.sample(list(conversation.questions), min(most, len(conversation.questions))):
        said = [texts[name] for name in sorted(question.evidence) if texts.get(name, "").strip()]
        if not said:
            continue
        chosen = draw.choice(said)
        of_message = keywords_of(chosen, list(texts.values()), draw)
        evidence = {name for name, text in texts.items() if of_message in text.lower()} or question.evidence
        variants = (
            replace(question, text=in_keywords(question.text, draw), category="keywords"),
            replace(question, text=of_message, category="keywords", evidence=frozenset(evidence)),
            replace(question, text=misspell(question.text, draw), category="misspelt"),
        )
        asked.append(draw.choice(variants))
    return asked


def begun_just_now(conversation: Conversation, count: int, draw: Random) -> list[Conversation]:
    """Workspaces of 2 to 12 messages of a conversation, each with all of its questions that these messages answer."""
    messages = [message for message in conversation.messages if message.content.strip()]
    places = {message.message_id: place for place, message in enumerate(messages)}
    answered = [q for q in conversation.questions if len(q.evidence) <= min(SIZES) and q.evidence <= places.keys()]
    made = []
    for number in range(count if answered else 0):
        held = {places[name] for name in draw.choice(answered).evidence}
        size, together = draw.choice(SIZES), draw.random() < 0.5
        while len(held) < min(size, len(messages)):
            near = draw.choice(sorted(held)) + draw.randint(-NEIGHBOURS, NEIGHBOURS) if together else None
            place = draw.randrange(len(messages)) if near is None else min(max(near, 0), len(messages) - 1)
            together = (together and place not in held) or draw.random() < 0.5
            held.add(place)
        docs = [messages[place] for place in sorted(held)]
        names = {message.message_id for message in docs}
        asked = [question for question in answered if question.evidence <= names]
        name = f"{conversation.workspace}{MADE_OF}{number}"
        made.append(replace(conversation, set=f"{conversation.set}, begun", workspace=name, docs=docs, questions=asked))
    return made


def facts_as_memories(path: Path) -> list[Conversation]:
    """The facts of a person's key, which a model would write down so, as memories: of all facts, and of a few each."""
    person = Person.read(path)
    facts = list(person.facts.values())
    made = []
    for number, held in enumerate([facts, *(facts[place : place + FACTS] for place in range(0, len(facts), FACTS))]):
        names = {fact.id for fact in held}
        asked = [Asked(q.text, "personal", frozenset(q.facts)) for q in person.queries if names.issuperset(q.facts)]
        docs = [Memory(memory_id=fact.id, content=fact.statement) for fact in held]
        made.append(Conversation("people, facts", f"{person.name}{MADE_OF}facts {number}", docs, asked))
    return made
