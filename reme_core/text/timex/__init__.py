"""Time expressions in queries and statements, in English, Chinese and, through dateparser, other languages."""

from reme_core.text.timex.asked import AskedTime, asked_time
from reme_core.text.timex.bounds import dates_near, resolve_bound
from reme_core.text.timex.find import find_times, has_time
from reme_core.text.timex.joins import resolve
from reme_core.text.timex.mention import TimeMention
from reme_core.text.timex.render import render_date
from reme_core.text.timex.statements import times_of, validity, with_dates

__all__ = [
    "AskedTime",
    "TimeMention",
    "asked_time",
    "dates_near",
    "find_times",
    "has_time",
    "render_date",
    "resolve",
    "resolve_bound",
    "times_of",
    "validity",
    "with_dates",
]
