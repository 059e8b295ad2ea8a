"""The inspector without a browser: who may see what, and that nothing of what is remembered runs."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from reme_core import AsyncReMe, Episode, Memory, Message
from reme_core.engine import Engine
from reme_core.server import inspector
from reme_core.server.auth import ApiKeys
from reme_core.server.inspector.look import difference
from reme_core.server.inspector.page import day_of
from reme_core.server.inspector.pages import _end_of
from reme_core.turn.memory import TurnMemory
from tests.server.conftest import Process

FOLDER = Path(inspector.__file__).parent
PAGES = [
    "overview",
    "recalls",
    "ask",
    "memories",
    "people",
    "conversations",
    "times",
    "jobs",
    "tasks",
    "tools",
    "models",
]
OURS = {"Origin": "http://localhost"}
HOSTILE = "<script>alert(1)</script> \"' onmouseover=x"


class Attributes(HTMLParser):
    """The tags of a page with the names of their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, set[str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name for name, _ in attrs}))


async def remember(reme: Engine, workspace: str, text: str, **fields: object) -> Memory:
    (memory,) = await reme.memories.add(workspace, [Memory(content=text, **fields)])
    return memory


@pytest.mark.parametrize("name", PAGES)
async def test_each_page_shows_hostile_texts_as_texts(client: httpx.AsyncClient, reme: Engine, name: str) -> None:
    workspace = f"a/b {HOSTILE}"
    await remember(reme, workspace, HOSTILE, subject=HOSTILE, valid_from="2024-01-01")
    await reme.record(workspace, [Message(content=HOSTILE, session_id=HOSTILE)], wait=True)
    await reme.episodes.record(workspace, Episode(task_id=HOSTILE, score=0.5))
    await reme.tools.record(workspace, [{"tool_name": HOSTILE, "input": {}, "output": HOSTILE}])
    await reme.recall(workspace, HOSTILE, flow="test")
    await reme.log_writer.flush()
    page = await client.get(f"/inspector/{name}", params={"w": workspace, "q": HOSTILE})
    assert page.status_code == 200, page.text
    assert "&lt;script&gt;alert(1)" in page.text
    read = Attributes(page.text)
    assert [values for tag, values in read.found if tag == "script"] == [{"src", "defer"}]
    assert {name for _, names in read.found for name in names if name.startswith("on") or name == "style"} == set()
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert (page.headers["referrer-policy"], page.headers["cache-control"]) == ("same-origin", "no-store")


async def test_of_files_only_the_pages_own_are_served(client: httpx.AsyncClient) -> None:
    for name, kind in (("inspector.css", "text/css"), ("inspector.js", "javascript")):
        assert kind in (await client.get(f"/inspector/static/{name}")).headers["content-type"]
    for name in ("..%2Fpage.py", "..%2F..%2Fauth.py", "none.js"):
        assert (await client.get(f"/inspector/static/{name}")).status_code == 404


async def test_an_empty_workspace_says_what_to_do(client: httpx.AsyncClient, reme: Engine) -> None:
    for first in ("/inspector", "/inspector/"):
        assert "<code>reme add</code>" in (await client.get(first)).text
    await reme.workspaces.schedule("empty", reflect_every_hours=0)
    for name in set(PAGES) - {"overview"}:
        page = (await client.get(f"/inspector/{name}", params={"w": "empty"})).text
        assert 'class="notice"' in page and "`" not in page, name


async def test_when_a_memory_holds_is_shown_where_it_is_known(client: httpx.AsyncClient, reme: Engine) -> None:
    memories = [
        await remember(reme, "a", "She likes tea."),
        await remember(reme, "a", "It rains.", valid_from="2024-05-01"),
    ]
    for memory, shown in zip(memories, (False, True), strict=True):
        page = (await client.get("/inspector/memory", params={"w": "a", "id": memory.memory_id})).text
        assert ("<dt>Holds</dt><dd>2024-05-01 – …</dd>" in page, "<dt>Holds</dt>" in page) == (shown, shown)


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/inspector/memories", 422, "choose one on the first page"),
        ("/inspector/memories?w=nobody", 404, "the first page lists"),
        ("/inspector/memories?w=a&p=0", 422, "look at the address"),
        ("/inspector/memories?w=a&q=%00", 422, "a value does not fit"),
        ("/inspector/memory?w=a&id=none", 404, "none"),
        ("/inspector/memorys?w=a", 404, "there is no page"),
        ("/inspector/recall?w=a&id=none", 404, "older than the log"),
        ("/inspector/conversation?w=a&s=none", 404, "nothing was recorded"),
        ("/inspector/times?w=a&start=soon", 422, "is no day"),
        ("/inspector/times?w=a&start=2026-01-02&end=2026-01-01", 422, "comes after the last"),
        ("/inspector/ask?w=a&q=x&kind=odd", 422, "odd"),
    ],
)
async def test_a_wrong_address_is_a_page_that_says_what_to_do(
    client: httpx.AsyncClient, reme: Engine, path: str, status: int, told: str
) -> None:
    await remember(reme, "a", "She likes tea.")
    page = await client.get(path)
    assert page.status_code == status
    assert page.headers["content-type"].startswith("text/html")
    assert told in page.text


@pytest.mark.parametrize(
    "address", ["times?w=a&end=9999-12-31", "times?w=a&end=0001-01-01", "ask?w=a&q=x&as_of=9999-12-31T23:59-15:00"]
)
async def test_a_day_at_the_edge_of_the_calendar_is_a_day(
    client: httpx.AsyncClient, reme: Engine, address: str
) -> None:
    await remember(reme, "a", "She likes tea.")
    page = await client.get(f"/inspector/{address}")
    assert page.status_code == 200 and "</h1>" in page.text


def test_a_day_is_asked_about_with_its_end_and_a_moment_as_it_is() -> None:
    assert _end_of("2024-05-31") == datetime(2024, 5, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert _end_of("2024-05-31T18:00") == datetime(2024, 5, 31, 18, tzinfo=UTC)
    assert _end_of("") is None


def test_a_moment_with_an_offset_keeps_it() -> None:
    assert day_of("2026-11-23T10:00+08:00") == day_of("2026-11-23T02:00")
    assert day_of("") is None


async def test_a_key_opens_its_own_workspaces_alone(client: httpx.AsyncClient, reme: Engine) -> None:
    mine, theirs = await remember(reme, "mine", "I like tea."), await remember(reme, "theirs", "They like rum.")
    key = await ApiKeys(reme.database).create("me", ["mine"])
    refused = await client.get("/inspector/memories", params={"w": "mine"})
    assert refused.status_code == 303
    assert refused.headers["location"] == "/inspector/sign-in?next=%2Finspector%2Fmemories%3Fw%3Dmine"
    wrong = await client.post("/inspector/sign-in", data={"key": "reme_x_y"}, headers=OURS)
    assert (wrong.status_code, wrong.headers.get("set-cookie")) == (401, None)
    signed_in = await client.post("/inspector/sign-in", data={"key": key, "next": "//evil.example"}, headers=OURS)
    assert signed_in.headers["location"] == "/inspector"
    cookie = signed_in.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/inspector"))
    listed = (await client.get("/inspector")).text
    assert "mine" in listed and "theirs" not in listed
    assert "I like tea." in (await client.get("/inspector/memories", params={"w": "mine"})).text
    for path in [*PAGES, "memory"]:
        closed = await client.get(f"/inspector/{path}", params={"id": theirs.memory_id, "w": "theirs"})
        assert closed.status_code == 403, path
        assert "rum" not in closed.text
    form = {"id": theirs.memory_id, "reason": "mischief", "content": "They like water."}
    for action in ("edit", "supersede", "expire", "erase", "restore"):
        answer = await client.post(f"/inspector/memory/{action}", params={"w": "theirs"}, data=form, headers=OURS)
        assert answer.status_code == 403, action
    assert [m.content for m in await reme.memories.list("theirs")] == ["They like rum."]
    # A proxy with a password of its own sends it on in every request.
    behind = await client.get("/inspector/memories?w=mine", headers={"Authorization": "Basic YTpi"})
    assert behind.status_code == 200, behind.text
    # The cookie is of the inspector alone: the API takes keys in headers.
    assert (await client.get(f"/v1/workspaces/mine/memories/{mine.memory_id}")).status_code == 401
    out = await client.post("/inspector/sign-out", headers=OURS)
    assert 'reme_key=""' in out.headers["set-cookie"]


@pytest.mark.parametrize("name", ["", "overview", "memory", "sign-in", "none"])
async def test_behind_a_proxy_under_a_path_all_links_lead_below_it(app: FastAPI, reme: Engine, name: str) -> None:
    memory = await remember(reme, "w", "Ann wears size 44.")
    key = await ApiKeys(reme.database).create()
    asked = f"/inspector/{name}?w=w&id={memory.memory_id}"
    transport = httpx.ASGITransport(app, root_path="/ours")
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost/ours", headers=OURS) as client,
    ):
        if name != "sign-in":
            to_sign_in = (await client.get(asked)).headers["location"]
            assert to_sign_in.startswith("/ours/inspector/sign-in?next=%2Fours%2Finspector")
        signed_in = await client.post("/inspector/sign-in", data={"key": key, "next": f"/ours{asked}"})
        assert signed_in.headers["location"] == f"/ours{asked}"
        assert "Path=/ours/inspector" in signed_in.headers["set-cookie"]
        page = await client.get(asked)
        style = await client.get("/inspector/static/inspector.css")
    assert (page.status_code, style.status_code) == (404 if name == "none" else 200, 200)
    links = re.findall(r'(?:href|src|action)="([^"]+)"', page.text)
    assert len(links) > 4
    assert not [link for link in links if not link.startswith(("/ours/inspector", "?", "#"))]


async def test_the_service_is_told_under_which_path_it_is(start: Callable[..., Process], free_port: int) -> None:
    process = start("serve", "--port", str(free_port), "--set", "http.root_path=/ours")
    await asyncio.to_thread(process.wait_until_healthy)
    async with httpx.AsyncClient(base_url=process.url) as client:
        assert 'href="/ours/inspector"' in (await client.get("/inspector")).text
        assert (await client.get("/openapi.json")).json()["servers"] == [{"url": "/ours"}]
        assert (await client.get("/helth")).json()["message"] == "there is no /helth here; did you mean '/health'?"
        assert (await client.post("/metrics")).headers["allow"] == "GET"


async def test_where_there_are_no_keys_any_text_signs_in_and_none_is_kept(client: httpx.AsyncClient) -> None:
    signed_in = await client.post("/inspector/sign-in", data={"key": "密码"}, headers=OURS)
    assert (signed_in.status_code, signed_in.headers.get("set-cookie")) == (303, None)


@pytest.mark.parametrize(
    "origin", [None, "null", "http://localhost:3000", "https://evil.example", "http://evil.example"]
)
async def test_forms_of_other_pages_change_nothing(client: httpx.AsyncClient, reme: Engine, origin: str | None) -> None:
    memory = await remember(reme, "a", "She likes tea.")
    for path in (
        "memory/edit",
        "memory/supersede",
        "memory/expire",
        "memory/erase",
        "memory/restore",
        "undo",
        "sign-in",
    ):
        answer = await client.post(
            f"/inspector/{path}",
            params={"w": "a"},
            data={"id": memory.memory_id, "reason": "mischief", "content": "She likes rum.", "key": ""},
            headers={"Origin": origin} if origin else {},
        )
        assert answer.status_code == 403, path
    assert [m.content for m in await reme.memories.list("a")] == ["She likes tea."]
    assert len(await reme.memories.history("a", memory.memory_id)) == 1


async def test_a_change_needs_a_reason_which_stays_in_the_history(client: httpx.AsyncClient, reme: Engine) -> None:
    memory = await remember(reme, "a", "She likes tea.")
    form = {"id": memory.memory_id, "content": "She likes green tea.", "valid_from": "2024-05-01", "valid_until": ""}
    refused = await client.post("/inspector/memory/edit", params={"w": "a"}, data=form, headers=OURS)
    assert (refused.status_code, len(await reme.memories.history("a", memory.memory_id))) == (422, 1)
    form["reason"] = "a <b>typo</b>"
    answer = await client.post("/inspector/memory/edit", params={"w": "a"}, data=form, headers=OURS)
    page = await client.get(answer.headers["location"])
    assert "a &lt;b&gt;typo&lt;/b&gt;" in page.text
    assert "<ins>green " in page.text
    changed = await reme.memories.get("a", memory.memory_id)
    assert (changed.content, str(changed.valid_from)[:10]) == ("She likes green tea.", "2024-05-01")


async def test_an_edit_changes_what_was_edited_alone(client: httpx.AsyncClient, reme: Engine) -> None:
    span = {"valid_from": datetime(2024, 5, 1, 9, 30, tzinfo=UTC), "valid_until": datetime(2024, 5, 1, 17, tzinfo=UTC)}
    memory = await remember(reme, "a", "The offis is open.", **span)
    page = (await client.get("/inspector/memory", params={"w": "a", "id": memory.memory_id})).text
    form = dict(re.findall(r'name="(shown_\w+)" value="([^"]*)"', page))
    assert len(form) == 4 and form["shown_valid_from"] == "2024-05-01"
    form |= {name.removeprefix("shown_"): value for name, value in form.items()}
    await reme.memories.update("a", memory.memory_id, subject="Anna")  # by somebody else, meanwhile
    form |= {"id": memory.memory_id, "content": "The office is open.", "reason": "a typo"}
    await client.post("/inspector/memory/edit?w=a", data=form, headers=OURS)
    changed = await reme.memories.get("a", memory.memory_id)
    assert changed == memory.model_copy(
        update={"content": "The office is open.", "subject": "Anna", "updated_at": changed.updated_at}
    )
    untouched = form | {"content": form["shown_content"]}
    refused = await client.post("/inspector/memory/edit?w=a", data=untouched, headers=OURS)
    assert refused.status_code == 422 and "nothing was changed" in refused.text
    await client.post("/inspector/memory/edit?w=a", data=form | {"valid_until": "2024-06-01"}, headers=OURS)
    assert (await reme.memories.get("a", memory.memory_id)).valid_until == datetime(2024, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize("what", ["edit", "supersede", "expire"])
async def test_undo_takes_back_what_was_done_here_whatever_others_did(
    client: httpx.AsyncClient, reme: Engine, what: str
) -> None:
    memory = await remember(reme, "a", "She likes tea.")
    form = {"id": memory.memory_id, "content": "She likes coffee.", "reason": "she said so"}
    answer = await client.post(f"/inspector/memory/{what}?w=a", data=form, headers=OURS)
    notice = (await client.get(answer.headers["location"])).text.partition('role="status">')[2].partition("</div>")[0]
    await reme.memories.update("a", memory.memory_id, content="She likes cocoa.")  # by somebody else, meanwhile
    undo = dict(re.findall(r'name="(\w+)" value="([^"]*)"', notice))
    await client.post("/inspector/memory/restore?w=a", data=undo, headers=OURS)
    assert [m.content for m in await reme.memories.list("a")] == ["She likes tea."]


async def test_from_a_message_one_gets_to_all_pages_of_its_conversation(
    client: httpx.AsyncClient, reme: Engine
) -> None:
    await reme.record("a", [Message(message_id=f"m{n}", content=f"Message {n}.", session_id="s") for n in range(120)])
    address, pages = "/inspector/conversation?w=a&s=s&m=m70", []
    for rel in ("next", "prev", "prev", ""):
        page = (await client.get(address)).text
        pages.append(re.search(r"Page (\d)", page)[1])  # type: ignore[index]  # it is there
        address = html.unescape(re.search(rf'rel="{rel}" href="([^"]+)"', page)[1]) if rel else ""  # type: ignore[index]
    assert pages == ["2", "3", "2", "1"]
    await reme.record("a", [Message(content="Elsewhere.", session_id="t")])
    assert "Elsewhere." in (await client.get("/inspector/conversation?w=a&s=t&m=m70")).text


async def test_what_replaced_a_memory_stands_until_that_is_restored(client: httpx.AsyncClient, reme: Engine) -> None:
    memory = await remember(reme, "a", "She likes tea.")
    form = {"id": memory.memory_id, "reason": "she said so", "content": "She likes rum."}
    await client.post("/inspector/memory/supersede?w=a", data=form, headers=OURS)
    (successor,) = await reme.memories.list("a")
    form = {"id": memory.memory_id, "successor": successor.memory_id}
    refused = await client.post("/inspector/memory/restore?w=a", data={**form, "number": "999"}, headers=OURS)
    assert refused.status_code == 404
    assert [m.content for m in await reme.memories.list("a")] == ["She likes rum."]
    await client.post("/inspector/memory/restore?w=a", data=form, headers=OURS)
    assert [m.content for m in await reme.memories.list("a")] == ["She likes tea."]


async def test_only_jobs_of_the_own_workspace_are_tried_again(client: httpx.AsyncClient, reme: Engine) -> None:
    await reme.record("theirs", [Message(content="I like rum.", session_id="s")])
    await remember(reme, "mine", "I like tea.")
    (job,) = await reme.background.jobs("theirs")
    await reme.database.execute_anywhere("update procrastinate_jobs set status = 'failed'")
    path = "/inspector/jobs/retry"
    refused = await client.post(path, params={"w": "mine"}, data={"id": str(job.id)}, headers=OURS)
    assert (refused.status_code, (await reme.background.jobs("theirs"))[0].status) == (404, "failed")
    for number in ("", "x", "9" * 30, "9" * 5_000):
        unknown = await client.post(path, params={"w": "theirs"}, data={"id": number}, headers=OURS)
        assert unknown.status_code == 404, number[:40]
    await client.post(path, params={"w": "theirs"}, data={"id": str(job.id)}, headers=OURS)
    assert (await reme.background.jobs("theirs"))[0].status == "todo"


async def test_a_workspace_shows_its_junk_and_its_spend(client: httpx.AsyncClient, reme: Engine) -> None:
    await remember(reme, "a", "Never mind the errors.", kind="task", freq=5, utility=2)
    for freq, utility in ((5, 3), (4, 0)):
        await remember(reme, "a", f"It helped in {utility} of {freq}.", kind="task", freq=freq, utility=utility)
    calls = """
        insert into reme.model_call (workspace_id, purpose, provider, model, prompt_tokens, completion_tokens, milliseconds, ok)
        values ('a', 'read', 'openai', 'big', 1000000, 500000, 9, true), ('a', 'rerank', 'cohere', 'small', 7, 0, 9, true)
    """  # noqa: E501
    await reme.database.execute("a", calls)
    pages = {
        "/inspector": "1,500,007 tokens",
        "/inspector/overview": "<dd>1,500,007</dd>",
        "/inspector/models": "1,000,007",
    }
    for path, told in pages.items():
        assert told in (await client.get(path, params={"w": "a"})).text, path
    reme.settings.prices = {"big": (2.0, 10.0)}
    for path in pages:
        assert "7.00" in (await client.get(path, params={"w": "a"})).text, path
    assert '<td class="n" data-label="Junk">1</td>' in (await client.get("/inspector")).text
    junk = (await client.get("/inspector/memories", params={"w": "a", "status": "junk"})).text
    assert "Never mind the errors." in junk and "It helped" not in junk


async def test_of_what_a_note_has_no_more_is_shown_than_was_found(client: httpx.AsyncClient, reme: Engine) -> None:
    for kind, text in {
        "instruction": "Answer in rhyme.",
        "profile": "Her name is Ann.",
        "custom": "She likes tea.",
    }.items():
        await remember(reme, "a", text, kind=kind)
    memory = TurnMemory(AsyncReMe.of(reme), "a", write="off")
    assert "rhyme" in (await memory.begin("What does she like?")).text
    await reme.log_writer.flush()
    assert "3 of 3 in the note" in (await client.get("/inspector/recalls", params={"w": "a"})).text


async def test_words_are_found_in_any_case_of_any_script(client: httpx.AsyncClient, reme: Engine) -> None:
    await remember(reme, "a", "Она любит ЧАЙ и Earl Grey.")
    for words in ("чай", "EARL"):
        assert "Earl Grey" in (await client.get("/inspector/memories", params={"w": "a", "q": words})).text


async def test_pages_are_in_the_language_of_the_reader(client: httpx.AsyncClient) -> None:
    assert "<h1>Workspaces</h1>" in (await client.get("/inspector")).text
    chinese = await client.get("/inspector", headers={"Accept-Language": "zh-CN,zh;q=0.9"})
    assert '<html lang="zh">' in chinese.text and "<h1>工作区</h1>" in chinese.text
    await client.get("/inspector", params={"lang": "zh"})  # and it stays so
    assert "<h1>工作区</h1>" in (await client.get("/inspector")).text


def test_every_text_of_the_templates_is_there_in_chinese_with_the_same_places() -> None:
    chinese, english = (json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in ("zh", "en"))
    templates = "".join(path.read_text(encoding="utf-8") for path in (FOLDER / "templates").glob("*.html"))
    used = {a or b for a, b in re.findall(r"""\bt\((?:"([^"]*)"|'([^']*)')[,)]""", templates)} | set(english)
    assert len(used) > 100
    assert used - set(chinese) == set()
    places = {text: (re.findall(r"{\w+}", text), re.findall(r"{\w+}", chinese[text])) for text in used}
    assert {text: found for text, found in places.items() if sorted(found[0]) != sorted(found[1])} == {}


def test_a_difference_shows_what_went_and_what_came_in_any_script() -> None:
    assert difference("She likes tea.", "She likes green tea.") == "She likes <ins>green </ins>tea."
    assert difference("喜欢绿茶", "喜欢红茶") == "喜欢<del>绿</del><ins>红</ins>茶"
    assert difference("<b>", "") == "<del>&lt;b&gt;</del>"
    assert difference("tea tea", "tea") == "tea<del> tea</del>" and difference("tea", "tea") == "tea"


def test_the_difference_of_long_texts_is_told_without_comparing_each_word_with_each() -> None:
    words = [f"word{number % 700}" for number in range(20_000)]
    one = [*words[:9_000], "tea", *words[9_001:]]
    assert "".join(re.findall("<(?:del|ins)>.*?</(?:del|ins)>", difference(" ".join(words), " ".join(one)))) == (
        f"<del>{words[9_000]}</del><ins>tea</ins>"
    )
    many = ["tea" if number % 20 == 7 else word for number, word in enumerate(words)]
    shown = difference(" ".join(words), " ".join(many))  # by words it would take hours
    assert shown.startswith(f"{' '.join(words[:7])} <del>") and shown.count("<ins>") == 1
    assert re.sub("<del>.*?</del>|</?ins>", "", shown) == " ".join(many)


async def test_learning_curves_come_by_task(client: httpx.AsyncClient, reme: Engine) -> None:
    for number, score in enumerate((0.2, 0.8)):
        await reme.episodes.record("alice", Episode(episode_id=f"e{number}", task_id="t", score=score))
    await reme.episodes.record("alice", Episode(task_id="other", score=1))
    points = (await client.get("/v1/workspaces/alice/curve", params={"task_id": "t"})).json()["points"]
    assert [(p["attempt"], p["score"], p["mean_of_last_10"]) for p in points] == [(1, 0.2, 0.2), (2, 0.8, 0.5)]
    assert len((await client.get("/v1/workspaces/alice/curve")).json()["points"]) == 3
    assert (await client.get("/v1/workspaces/bob/curve")).json() == {"points": []}
