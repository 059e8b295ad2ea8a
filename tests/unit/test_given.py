"""Values that callers give: time zones also where the machine knows none."""

from __future__ import annotations

import sys
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from reme_core.errors import InputError
from reme_core.given import zone_of
from reme_core.prompts.note import render
from reme_core.text.timex.statements import times_of


@pytest.fixture
def without_zones(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without a time zone database, as in small containers."""
    for name in [name for name in sys.modules if name.startswith("tzdata.")]:  # an earlier test may have read a zone
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tzdata", None)
    zoneinfo.reset_tzpath([])
    zoneinfo.ZoneInfo.clear_cache()
    yield
    zoneinfo.reset_tzpath()
    zoneinfo.ZoneInfo.clear_cache()


@pytest.mark.usefixtures("without_zones")
def test_utc_needs_no_time_zone_database() -> None:
    said = datetime(2024, 3, 6, 19, tzinfo=UTC)
    with pytest.raises(zoneinfo.ZoneInfoNotFoundError):
        zoneinfo.ZoneInfo("UTC")
    assert zone_of("UTC") is UTC
    assert times_of("I moved to Lisbon last week.", said, timezone="UTC")
    assert render([], 100, "en", standing=[], timezone="UTC").hits == ()
    with pytest.raises(InputError, match="unknown time zone 'Europe/Berlin'"):
        zone_of("Europe/Berlin")
