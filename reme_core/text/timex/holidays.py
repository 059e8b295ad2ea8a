"""The holidays that people date their lives by, as days of a year."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from reme_core.text.timex.calendar import date, day, weekday_of_month
from reme_core.text.timex.mention import Span

# Spring Festival, Dragon Boat and Mid-Autumn of each year, as MMDD. They follow the moon and its leap months, so they
# are tabled rather than computed.
_LUNAR_FROM: Final = 1995
_LUNAR: Final = """
    0131-0602-0909 0219-0620-0927 0207-0609-0916 0128-0530-1005 0216-0618-0924 0205-0606-0912
    0124-0625-1001 0212-0615-0921 0201-0604-0911 0122-0622-0928 0209-0611-0918 0129-0531-1006
    0218-0619-0925 0207-0608-0914 0126-0528-1003 0214-0616-0922 0203-0606-0912 0123-0623-0930
    0210-0612-0919 0131-0602-0908 0219-0620-0927 0208-0609-0915 0128-0530-1004 0216-0618-0924
    0205-0607-0913 0125-0625-1001 0212-0614-0921 0201-0603-0910 0122-0622-0929 0210-0610-0917
    0129-0531-1006 0217-0619-0925 0206-0609-0915 0126-0528-1003 0213-0616-0922 0203-0605-0912
    0123-0624-1001 0211-0612-0919 0131-0601-0908 0219-0620-0927 0208-0610-0916 0128-0530-1004
    0215-0618-0924 0204-0607-0913 0124-0527-1002 0212-0614-0920 0201-0603-0910 0122-0622-0928
    0210-0611-0917 0130-0531-1005 0217-0619-0925
""".split()  # noqa: SIM905 - a table reads better as text


def _lunar(which: int, count: int = 1, shift: int = 0) -> Callable[[int], Span]:
    def of_year(year: int) -> Span:
        if not 0 <= year - _LUNAR_FROM < len(_LUNAR):
            raise ValueError(f"the lunar calendar of {year} is not tabled")
        digits = _LUNAR[year - _LUNAR_FROM].split("-")[which]
        return day(datetime(year, int(digits[:2]), int(digits[2:])) + timedelta(days=shift), count)

    return of_year


def _solar(month: int, first: int, count: int = 1) -> Callable[[int], Span]:
    return lambda year: day(datetime(year, month, first), count)


def _nth_weekday(month: int, weekday: int, nth: int) -> Callable[[int], Span]:
    return lambda year: weekday_of_month(year, month, weekday, nth - 1)


def _easter(year: int) -> Span:
    """Easter Sunday, by the anonymous Gregorian algorithm (Meeus, Astronomical Algorithms, ch. 8)."""
    century, in_century = divmod(year, 100)
    golden = year % 19
    epact = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    weekday = (32 + 2 * (century % 4) + 2 * (in_century // 4) - epact - in_century % 4) % 7
    month, index = divmod(epact + weekday - 7 * ((golden + 11 * epact + 22 * weekday) // 451) + 114, 31)
    return date(year, month, index + 1)


ENGLISH: Final[dict[str, Callable[[int], Span]]] = {
    "christmas eve": _solar(12, 24), "christmas day": _solar(12, 25), "christmas": _solar(12, 24, 3),
    "xmas": _solar(12, 24, 3), "new year's eve": _solar(12, 31), "new year's day": _solar(1, 1),
    "new year's": _solar(1, 1), "valentine's day": _solar(2, 14), "halloween": _solar(10, 31), "easter": _easter,
    "thanksgiving": _nth_weekday(11, 3, 4), "independence day": _solar(7, 4), "labor day": _nth_weekday(9, 0, 1),
    "chinese new year": _lunar(0, 7), "spring festival": _lunar(0, 7), "mid-autumn festival": _lunar(2),
}  # fmt: skip

CHINESE: Final[dict[str, Callable[[int], Span]]] = {
    "元旦": _solar(1, 1), "春节": _lunar(0, 7), "除夕": _lunar(0, 1, -1), "大年三十": _lunar(0, 1, -1),
    "大年初一": _lunar(0), "元宵节": _lunar(0, 1, 14), "元宵": _lunar(0, 1, 14), "情人节": _solar(2, 14),
    "妇女节": _solar(3, 8), "清明节": _solar(4, 4, 3), "清明": _solar(4, 4, 3), "五一": _solar(5, 1, 5),
    "劳动节": _solar(5, 1, 5), "儿童节": _solar(6, 1), "六一": _solar(6, 1), "端午节": _lunar(1), "端午": _lunar(1),
    "中秋节": _lunar(2), "中秋": _lunar(2), "国庆节": _solar(10, 1, 7), "国庆": _solar(10, 1, 7),
    "十一": _solar(10, 1, 7), "双十一": _solar(11, 11), "平安夜": _solar(12, 24), "圣诞节": _solar(12, 25),
    "圣诞": _solar(12, 25), "暑假": lambda year: Span(datetime(year, 7, 1), datetime(year, 9, 1), "month"),
    "寒假": lambda year: Span(datetime(year, 1, 15), datetime(year, 2, 20), "month"),
}  # fmt: skip
