"""Not a test: takes the pictures of docs/images. `python docs/make_images.py` runs it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER = Path(__file__).parents[2] / "docs" / "images"


def test_take_pictures(page: Page) -> None:
    page.set_viewport_size({"width": 1000, "height": 620})
    page.goto("/inspector/conversation?w=alice&s=today")
    page.get_by_role("link", name="Why did it say that?").click()
    page.wait_for_load_state()
    page.locator("details").first.evaluate("one => { one.open = true; }")
    page.screenshot(path=FOLDER / "inspector-recall.png")
    page.get_by_role("link", name="I live in Lisbon, and I am allergic to peanuts.").first.click()
    page.wait_for_load_state()
    page.screenshot(path=FOLDER / "inspector-memory.png")
    page.set_viewport_size({"width": 390, "height": 700})
    page.emulate_media(color_scheme="dark")
    page.goto("/inspector/overview?w=alice")
    page.screenshot(path=FOLDER / "inspector-phone.png")
