"""Dates for readers of notes: they can be sorted, and their weekday makes "last Tuesday" plain."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from reme_core.text.named import WEEKDAYS

_WEEKDAYS: Final = {
    "en": WEEKDAYS,
    "zh": ("星期一", "星期二", "星期三", "星期四", "星期五", "星期六", "星期日"),
}


def render_date(moment: datetime, language: str = "en") -> str:
    """Write a date with its weekday; in English unless the language is Chinese.

    The date is the one in the moment's own time zone.

    >>> render_date(datetime(2023, 5, 7)), render_date(datetime(2023, 5, 7), "zh")
    ('2023-05-07 Sunday', '2023-05-07 星期日')
    """
    names = _WEEKDAYS["zh" if language.lower().startswith("zh") else "en"]
    return f"{moment:%Y-%m-%d} {names[moment.weekday()]}"
