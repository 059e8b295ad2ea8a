"""What the lexical leg indexes, and that queries and documents meet in it."""

import ast
import os
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core.text.stopwords import STOP_WORDS
from reme_core.text.terms import MAX_TERM, _bigrams, language_of, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She visited the museums in Paris", ["visit", "museum", "pari"]),
        ("Caroline’s friends don't and it's l'école", ["carolin", "friend", "ecol", "école"]),
        ("get_account_info", ["get_account_info", "get", "account", "info"]),
        ("getAccountInfos", ["getaccountinfos", "get", "account", "info"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("COVID-19", ["covid19", "covid", "19"]),
        ("v2.1", ["v2.1", "2.1"]),
        ("in 2023: 3,000 at 10:30", ["2023", "3000", "10:30", "10", "30"]),
        ("2023-05-07", ["2023-05-07", "2023", "05", "07"]),
        ("jo.doe@mail.org", ["jo.doe@mail.org", "jo", "doe", "mail", "org"]),
        ("https://docs.python.org/a.html).", ["docs.python.org/a.html", "doc", "python", "org"]),
        ("C++ and C#", ["c++", "c#"]),
        ("我喜欢爬山", ["我喜", "喜欢", "欢爬", "爬山"]),
        ("我的猫很可爱", ["的猫", "猫", "猫很", "很可", "可爱"]),
        ("猫", ["猫"]),
        ("用Python写代码", ["用", "python", "写代", "代码"]),
        ("한국어", ["한국", "국어"]),
        ("Я читал книги", ["чита", "книг"]),
        ("ＦＵＬＬ　ｗｉｄｔｈ", ["full", "width"]),
        ("___ … 🎉", []),
        ("", []),
    ],
)
def test_terms_are_stems_bigrams_and_identifiers_with_their_parts(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("query", "document"),
    [
        ("Häuser", "Die Häuser sind in der Stadt und ich habe keine gesehen"),
        ("hauser", "Die Häuser sind in der Stadt und ich habe keine gesehen"),
        ("Straße", "STRASSE"),
        ("cafe\u0301s", "two cafés"),
        ("ecole", "Elle est à l'école avec les autres enfants"),
        ("email", "my e-mail address"),
        ("covid 19", "COVID-19"),
        ("account", "call getAccountInfo first"),
        ("istanbul", "İstanbul"),
        ("猫", "我的猫很可爱"),
        ("他喜欢什么运动？", "李雷最喜欢的运动是羽毛球"),
        ("книга", "Я читал книги"),
    ],
)
def test_a_query_meets_its_document_though_its_language_is_unsure(query: str, document: str) -> None:
    assert set(terms(query)) & set(terms(document))


@pytest.mark.parametrize(("one", "other"), [("运动", "什么"), ("爬山", "上山"), ("home", "house")])
def test_what_has_nothing_in_common_does_not_meet(one: str, other: str) -> None:
    assert not set(terms(one)) & set(terms(other))


def test_function_words_stay_when_there_is_nothing_else() -> None:
    assert terms("to be or not to be") == ["to", "be", "or", "not", "to", "be"]
    assert terms("是的") == ["是的"]


def test_a_given_language_decides_the_stem() -> None:
    assert terms("laufenden Häusern", "de") == ["laufenden", "laufend", "hausern", "haus"]
    assert terms("houses", "zh") == terms("houses") == ["hous"]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("", "en"),
        ("12 34", "en"),
        ("Hotel", "en"),
        ("Die Hard in Rome", "en"),
        ("Yesterday I met Li Lei, whom I’d last seen in May 2019.", "en"),
        ("I had crème brûlée à la carte with Müller de la Cruz", "en"),
        ("Wo ist der Bahnhof und wie komme ich dahin?", "de"),
        ("Où est la gare, et comment y aller avec les enfants ?", "fr"),
        ("¿Dónde está la estación y cómo llego hasta allí?", "es"),
        ("Non so dove sono gli amici della ragazza", "it"),
        ("Eu não sei onde você está com os meus livros", "pt"),
        ("Ik weet niet waar het station is en hoe we daar komen", "nl"),
        ("Где находится вокзал?", "ru"),
        ("我在Google工作了三年", "zh"),
        ("My friend 李雷 lives in Beijing now", "en"),
        ("東京に行きました", "ja"),
        ("서울에 갔어요", "ko"),
        ("สวัสดีครับ", "th"),
        ("من کتاب را گرفتم", "fa"),
        ("قرأت الكتاب", "ar"),
    ],
)
def test_the_language_needs_real_evidence(text: str, language: str) -> None:
    assert language_of(text) == language


@pytest.mark.parametrize("seed", ["1", "11"])
def test_languages_for_which_as_much_speaks_are_equal_in_whatever_order_it_is_added(seed: str) -> None:
    # Before Python 3.12, the sum of a half, a third and a sixth depended on their order, which is that of a set.
    text = "Mês que vem eu me mudo"
    code = f"from reme_core.text.terms import weights_of_languages; print(weights_of_languages({text!r}))"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    weights = ast.literal_eval(done.stdout)
    assert weights["pt"] == weights["fr"] == weights["sv"] == 1


def test_every_list_of_function_words_is_found_to_be_its_own_language() -> None:
    found = {language: language_of(" ".join(sorted(words))) for language, words in STOP_WORDS.items()}
    assert found == {language: language for language in STOP_WORDS}


def test_a_long_term_keeps_its_beginning_and_stays_distinct() -> None:
    first, second = terms("x" * 300 + "a"), terms("x" * 300 + "b")
    assert first != second
    assert [len(term) for term in first + second] == [MAX_TERM, MAX_TERM]
    assert first[0].startswith("xxxx")


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=120))
def test_any_text_gives_clean_bounded_terms(text: str) -> None:
    found = terms(text)
    assert found == terms(text)
    assert language_of(text)
    for term in found:
        assert 0 < len(term) <= MAX_TERM
        assert "\0" not in term
        assert not any(letter.isspace() for letter in term)
        term.encode("utf-8")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["v2", "_", ".", "-", "'", "://", "http", "@", "a", "Ab", "1", ",", "爱", "\0", " "])))
def test_odd_joins_never_break_it(pieces: list[str]) -> None:
    assert all(0 < len(term) <= MAX_TERM for term in terms("".join(pieces)))


def test_what_was_read_of_texts_without_spaces_does_not_fill_the_memory() -> None:
    _bigrams.cache_clear()
    tracemalloc.start()
    try:
        for letter in map(chr, range(0x4E00, 0x5E00)):
            terms(letter * (20 if ord(letter) % 50 else 500))
        assert tracemalloc.get_traced_memory()[0] < 4_000_000
    finally:
        tracemalloc.stop()


def test_threads_share_the_stemmers_safely() -> None:
    words = [f"{stem}{end}" for stem in ("walk", "talk", "jump", "play") for end in ("ing", "ed", "s")] * 20
    with ThreadPoolExecutor(8) as pool:
        stems = list(pool.map(lambda word: terms(word)[0], words))
    assert stems == [word.removesuffix("ing").removesuffix("ed").removesuffix("s") for word in words]
