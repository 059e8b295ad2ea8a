"""The inspector in a real browser: what a reader looks for is found, changed and undone, by mouse and by keyboard."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.conftest import Stage
from tests.browser.story import ANSWER, LONG

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGES = ["overview", "recalls", "ask?q=Where+does+she+live", "memories", "people", "conversations", "times", "jobs",
         "tasks", "tools", "models", "conversation?s=today", "memories?q=none"]  # fmt: skip


def address(page: str, workspace: str = "alice") -> str:
    path, _, query = page.partition("?")
    return f"/inspector/{path}?w={workspace}" + (f"&{query}" if query else "")


def the_memory(page: Page, words: str) -> None:
    """Open a memory by its words."""
    page.goto(address("memories?status=any"))
    page.get_by_label("Holds the words").fill(words)
    page.get_by_role("button", name="Show").click()
    page.locator("li.row > a").first.click()


def change(page: Page, action: str, button: str, **fields: str) -> None:
    """Fill one of the forms of a memory's page and send it."""
    page.locator("summary", has_text=action).click()
    form = page.locator("details[open] form")
    for label, value in {"Reason": "a test", **fields}.items():
        form.get_by_label(label.replace("_", " ")).fill(value)
    form.get_by_role("button", name=button).click()
    page.wait_for_load_state()  # else half of the next page is looked at


def test_why_an_agent_said_something_is_seen_in_four_clicks(page: Page) -> None:
    page.goto("/inspector")
    page.get_by_role("link", name="alice").click()
    page.get_by_role("link", name="Where can I have dinner without getting sick?").first.click()
    answer = page.locator("li.said.assistant", has_text=ANSWER)
    answer.get_by_role("link", name="Why did it say that?").click()
    given = page.locator("section", has_text="In the note that the agent was given")
    assert ANSWER in page.locator(".answer blockquote").inner_text()
    assert page.get_by_text(re.compile("Left out: ")).count() > 0
    given.get_by_role("link", name="I live in Lisbon, and I am allergic to peanuts.").first.click()
    evidence = page.locator("section", has=page.get_by_role("heading", name="Evidence"))
    assert "monday" in evidence.inner_text()
    assert (
        "Where can I have dinner without getting sick?" in page.locator("section", has_text="When it was").inner_text()
    )
    # And from there to the very message, which stands out among the others.
    evidence.get_by_role("link").click()
    assert "allergic to peanuts" in page.locator(".said.named").inner_text()


def test_pages_are_usable_by_everybody_on_every_screen(page: Page, axe: str) -> None:
    page.goto(address("memories?q=Donau"))
    memory = str(page.locator("li.row > a").first.get_attribute("href"))
    page.goto(address("recalls"))
    recall = str(page.locator("li.row > a").first.get_attribute("href"))
    found: dict[str, Any] = {}
    for scheme, width, language in (("light", 1200, "en"), ("dark", 390, "zh")):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(f"/inspector?lang={language}")  # and it stays so
        for path in ("/inspector", "/inspector/sign-in", memory, recall, *map(address, PAGES)):
            page.goto(path)
            page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            page.evaluate(axe)
            problems = page.evaluate("axe.run().then((run) => run.violations.map((v) => [v.id, v.nodes[0].html]))")
            widest = page.evaluate("document.documentElement.scrollWidth")
            if problems or widest > width:
                found[f"{path} {scheme} {width}"] = (problems, widest)
    assert found == {}


def test_a_memory_is_edited_superseded_and_expired_and_each_is_undone(page: Page, stage: Stage) -> None:
    former = "I work as a nurse at the Santo António hospital."
    the_memory(page, "nurse")
    heading = page.get_by_role("heading", level=1)
    change(page, "Edit", "Save", Content="I work as a surgeon at the Santo António hospital.")
    assert "surgeon" in heading.inner_text()
    assert (page.locator("del").first.inner_text(), page.locator("ins").first.inner_text()) == ("nurse", "surgeon")
    page.get_by_role("button", name="Undo").click()
    assert heading.inner_text() == former

    change(page, "Supersede", "Supersede", What_holds_instead="I am retired.", Since="2026-01-01")
    assert page.locator(".chip", has_text="superseded").is_visible()
    page.get_by_role("link", name="I am retired.").click()
    assert heading.inner_text() == "I am retired."
    assert former in page.locator("section", has_text="It replaced").inner_text()
    page.go_back()
    page.get_by_role("button", name="Undo").click()
    assert page.locator(".chip", has_text="superseded").count() == 0
    (successor,) = stage.run(
        stage.reme.database.fetch("alice", "select status from reme.memory where content ~ 'retired'")
    )
    assert successor == ("deleted",)

    change(page, "Expire", "Expire")
    assert page.locator(".chip", has_text="expired").is_visible()
    page.get_by_role("button", name="Undo").click()
    assert page.locator(".chip", has_text="expired").count() == 0
    page.get_by_role("button", name="Restore this state of").last.click()
    assert heading.inner_text() == former


def test_a_memory_is_erased_once_that_was_confirmed(page: Page) -> None:
    page.goto(address("memories", "bob"))
    page.get_by_role("link", name="Bob likes rum.").click()
    change(page, "Erase", "Erase for good")
    assert page.get_by_role("heading", level=1).inner_text() == "Bob likes rum."  # the browser asks for the tick
    page.get_by_label("I know that this cannot be undone").check()
    page.get_by_role("button", name="Erase for good").click()
    assert "no trace of it is left" in page.get_by_role("status").inner_text()
    assert page.get_by_text("Bob likes rum.").count() == 0


def test_a_job_that_failed_is_tried_again(page: Page, stage: Stage) -> None:
    (job,) = stage.run(stage.reme.background.jobs("alice", statuses=["todo"]))
    failed = "update procrastinate_jobs set status = 'failed' where id = %s"
    stage.run(stage.reme.database.execute_anywhere(failed, [job.id]))
    page.goto(address("overview"))
    page.locator("dl.figures a[href*=failed]").click()
    page.get_by_role("button", name=f"Try job {job.id} again").click()
    assert stage.run(stage.reme.background.jobs("alice", ids=[job.id]))[0].status == "todo"


def test_the_keyboard_suffices(page: Page) -> None:
    page.goto(address("memories"))
    page.keyboard.press("/")
    page.keyboard.type("peanuts")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=peanuts**")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/inspector/memory?**")
    assert "peanuts" in page.get_by_role("heading", level=1).inner_text()
    page.keyboard.press("u")
    page.wait_for_url("**/inspector/overview?**")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_one_slider_chooses_the_two_days_that_are_compared(page: Page) -> None:
    page.goto(address("times"))
    assert LONG in page.locator("main").inner_text()
    start, end = page.get_by_role("slider", name="From"), page.get_by_role("slider", name="To")
    assert start.bounding_box() == end.bounding_box()
    first, today = (page.locator(f"input[name={name}]").input_value() for name in ("start", "end"))
    track = start.bounding_box()
    assert track is not None
    middle, week = track["y"] + track["height"] / 2, (track["width"] - 24) * 7 / 365
    page.mouse.move(track["x"] + track["width"] - 12 - week, middle)
    page.mouse.down()
    page.mouse.move(track["x"] + track["width"] / 2, middle)
    page.mouse.up()
    page.wait_for_url("**start=**")
    assert page.locator("input[name=start]").input_value() < first
    with page.expect_navigation():
        end.press("ArrowLeft")
    assert page.locator("input[name=end]").input_value() < today
    page.goto(address("times?start=2001-02-03"))  # a day that was typed, before those that the slider reaches
    with page.expect_navigation():
        end.press("ArrowLeft")
    assert page.locator("input[name=start]").input_value() == "2001-02-03"


def test_the_last_change_of_several_memories_is_undone(page: Page, stage: Stage) -> None:
    added = stage.run(stage.reme.memories.add("loaded", ["One thing.", "Another thing."]))
    page.goto(address("times", "loaded"))
    page.locator("summary", has_text="Undo the last change").click()
    page.get_by_role("button", name="Undo it").click()
    page.wait_for_load_state()
    assert [stage.run(stage.reme.memories.get("loaded", m.memory_id)).status for m in added] == ["deleted"] * 2


def test_the_language_is_chosen_by_a_link_and_stays(page: Page) -> None:
    page.goto(address("recalls"))
    page.get_by_role("link", name="中文").click()
    page.wait_for_url("**lang=zh**")
    page.goto(address("jobs"))
    assert page.get_by_role("heading", level=1).inner_text() == "后台工作"
    page.get_by_role("link", name="English").click()
    assert page.get_by_role("heading", level=1).inner_text() == "Work in the background"


@pytest.fixture
def key(stage: Stage) -> Any:
    yield stage.run(stage.keys.create("reader", ["alice"]))
    stage.run(stage.keys.clear())


def test_a_reader_signs_in_with_a_key_and_out_again(page: Page, key: str) -> None:
    page.goto(address("memories"))
    page.get_by_label("API key").fill("reme_wrong_key")
    page.get_by_role("button", name="Sign in").click()
    assert "unknown" in page.get_by_role("alert").inner_text()
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/inspector/memories?w=alice")  # where the reader wanted to go
    page.goto(address("memories", "bob"))
    assert "not for the workspace 'bob'" in page.get_by_role("alert").inner_text()
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    page.goto(address("memories"))
    assert page.get_by_label("API key").is_visible()


def test_a_text_that_is_read_from_the_right_begins_there(page: Page, stage: Stage) -> None:
    said = "שלום, קוראים לי Tim."
    (memory,) = stage.run(stage.reme.memories.add("hebrew", [said]))
    ends = """element => {
        const text = document.createTreeWalker(element, NodeFilter.SHOW_TEXT).nextNode(), range = new Range();
        return [0, text.length - 1].map(i => {
            range.setStart(text, i); range.setEnd(text, i + 1); return range.getBoundingClientRect().left;
        });
    }"""
    for where in ("memories", f"memory?id={memory.memory_id}"):
        page.goto(address(where, "hebrew"))
        first, full_stop = page.get_by_text(said, exact=True).first.evaluate(ends)
        assert full_stop < first, f"the full stop is at the left end on {where}"
