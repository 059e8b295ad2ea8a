"""What is a wish, or none, by its wording; what is not certain is left to the judge."""

from __future__ import annotations

import pytest

from reme_core.text.plain_wishes import is_no_wish, is_plain_wish


@pytest.mark.parametrize(
    "said",
    [
        "Antworte bitte ab sofort auf Englisch",
        "Réponds-moi en français à partir de maintenant",
        "Od tej pory pisz do mnie po angielsku.",
        "지금부터 항상 존댓말로 대답해줘",
        "Bundan sonra İngilizce yaz.",
        "Bana Memo de",
        "Du darfst mich Tina nennen",
        "你以后喊我阿强",
        "もう絵文字は使わないで",
        "geen emoji's meer alsjeblieft",
    ],
)
def test_a_plain_wish_is_known_by_its_words(said: str) -> None:
    assert is_plain_wish(said)


@pytest.mark.parametrize(
    "said",
    [
        "Übersetze: Antworte ab jetzt auf Deutsch",
        "Mein Chef schreibt, antworte ab jetzt auf Deutsch",
        "Chiamami domani",
        "Nenn mich nicht so",
        "你叫我小王我很开心",
        "これからは毎日走る",
        "앞으로는 매일 뛸 거예요",
        "geen melk meer",
    ],
)
def test_what_only_looks_like_a_plain_wish_is_left_to_the_judge(said: str) -> None:
    assert not is_plain_wish(said)


@pytest.mark.parametrize(
    "said",
    [
        "Non parlo inglese.",
        "No entiendo.",
        "Не пью кофе.",
        "nie znoszę koperku",
        "Kahve içmem.",
        "담배 안 피워요",
        "Merci !",
    ],
)
def test_thanks_and_what_somebody_does_not_do_are_no_wishes(said: str) -> None:
    assert is_no_wish(said)


@pytest.mark.parametrize(
    "said",
    [
        "No uses emojis.",
        "No lo hagas más",
        "No quiero que uses emojis.",
        "Não gosto de listas.",
        "Не люблю смайлики",
        "Nie używaj emotek",
        "artık emoji kullanma",
        "always call my mam",
        "Danke, immer so kurz bitte",
        "Make it shorter from now on",
    ],
)
def test_what_may_be_wished_of_answers_is_left_to_the_judge(said: str) -> None:
    assert not is_no_wish(said)
