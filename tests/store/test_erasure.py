"""Erasure: afterwards no column of any table holds the text, and everything else is still there and found."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest

from reme_core.engine import Engine
from reme_core.errors import NotFoundError
from reme_core.postgres import session
from reme_core.store.artifacts import Artifact, Artifacts
from reme_core.store.change import Change, Erase
from reme_core.store.wordings import remover_of
from reme_core.types import Kind, Memory, Message, Source, ToolCall
from reme_core.types import now as present
from tests.store.erased import KNOWN, RARE, SAID, SESSION, remember, traces
from tests.store.recount import POSTINGS, consistent


async def test_no_column_of_any_table_holds_what_was_erased(words: Engine) -> None:
    stored = await remember(words, "alice")
    before = await traces(words.database, *RARE)
    assert set(before) >= {
        "reme.memory", "reme.memory_history", "reme.memory_source", "reme.message", "reme.episode", "reme.retrieval",
        "reme.posting", "reme.model_call",
    }  # fmt: skip

    for ids, named in (([stored["dog"].memory_id, "none"], "'none'"), ("none", "'none'")):
        with pytest.raises(NotFoundError, match=f"nothing was erased: workspace 'alice' has no memory {named}"):
            await words.memories.delete("alice", ids, erase=True)
    assert await words.memories.delete("alice", stored["dog"].memory_id, erase=True) == 1
    await words.log_writer.flush()

    assert await traces(words.database, *RARE) == {}
    assert [m.content for m in await words.memories.list("alice")] == ["Ann prefers ferrets"]
    for name in ("dog", "insight", "beyond", "twin"):
        with pytest.raises(NotFoundError):
            await words.memories.history("alice", stored[name].memory_id)
    ferrets = await words.memories.get("alice", stored["ferrets"].memory_id)
    assert ferrets.sources == [Source(kind="message", id="m2")]
    assert ferrets.metadata == {"beside": [""]}
    assert await consistent(words.database, "alice")


async def test_somebody_with_long_documents_is_erased(words: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [" ".join(f"w{page}x{word}" for word in range(12_000)) for page in range(10)]
    await words.memories.add("alice", pages, user_id="ann")
    monkeypatch.setattr(session, "_IDLE_SECONDS", 0.3)  # in which not all of them are weighed
    async with Engine(words.settings) as engine:
        assert await engine.workspaces.clear("alice", user_id="ann") == 10
    assert await traces(words.database, "w7x11999") == {}


async def test_what_is_left_is_found_as_before(words: Engine) -> None:
    stored = await remember(words, "alice")
    await words.memories.delete("alice", [stored["dog"].memory_id], erase=True)
    left = await words.database.fetch("alice", "select message_id, content from message where session_id = 's'")
    assert dict(left) == {i: "" if i == "m2" else text for i, _, text in SESSION}
    assert (await words.recall("alice", "ferrets bite", kind="conversation")).hits[0].memory.memory_id == "m4"
    assert (await words.recall("alice", "who prefers ferrets")).hits[0].content == "Ann prefers ferrets"
    (quoting,) = await words.database.fetch("alice", "select content, embedded_at from message where message_id = 'm9'")
    assert quoting == ("As you wrote:  - is that so?", None)


async def test_what_its_client_sends_once_more_has_no_erased_words_again(words: Engine) -> None:
    said = [
        Message(message_id="m1", session_id="s", content=f"As I said: {KNOWN} - and I swim."),
        Message(message_id="m2", session_id="s", content=KNOWN),
    ]
    await words.record("w", said)
    (memory,) = await words.memories.add("w", KNOWN)
    await words.memories.delete("w", memory.memory_id, erase=True)
    left = await words.messages("w", "s")
    assert [message.content for message in left] == ["As I said:  - and I swim."]
    assert await words.record("w", said) == []
    assert await words.messages("w", "s") == left
    assert await traces(words.database, *RARE) == {}


async def test_neighbours_are_indexed_as_if_nothing_had_been_said(words: Engine) -> None:
    moment = datetime(2023, 5, 7, tzinfo=UTC)
    for workspace, texts in (
        ("said", [t for _, _, t in SESSION]),
        ("never", [t if t != SAID else "" for *_, t in SESSION]),
    ):
        messages = [
            Message(message_id=f"m{n}", content=text, session_id="s", sent_at=moment, author="Tom" if text else "")
            for n, text in enumerate(texts)
        ]
        await words.record(workspace, messages, wait=True)
    assert await words.erase_messages("said", ["m1", "m1", "none"]) == 1
    for ids in (["m1"], ["none"], "m1"):
        with pytest.raises(NotFoundError, match="nothing was erased: no message '"):
            await words.erase_messages("said", ids)
    assert await words.erase_messages("said", []) == 0
    asked = (
        f"select m.message_id, p.term, p.from_neighbour from (select * from {POSTINGS}) p"
        " join message m using (workspace_id, document_id) order by 1, 2"
    )
    assert await words.database.fetch("said", asked) == await words.database.fetch("never", asked)
    assert await consistent(words.database, "said") and await consistent(words.database, "never")


async def test_recording_an_erased_message_again_adds_nothing(words: Engine) -> None:
    stored = await remember(words, "alice")
    await words.memories.delete("alice", [stored["dog"].memory_id], erase=True)
    assert await words.record("alice", [Message(message_id="m2", content=SAID, session_id="s")], wait=True) == []
    assert await traces(words.database, *RARE) == {}


async def test_erasing_a_message_takes_along_what_rests_on_it(words: Engine) -> None:
    await remember(words, "alice")
    assert await words.erase_messages("alice", ["m2"]) == 1
    await words.log_writer.flush()
    assert await words.memories.list("alice") == []
    assert await traces(words.database, *RARE) == {}
    assert await consistent(words.database, "alice")


async def test_evidence_is_emptied_though_another_message_says_the_same(words: Engine) -> None:
    said = "I live in Porto and my locker code is quokka77"
    twice = [Message(message_id=name, content=said, session_id=name) for name in ("told", "repeated")]
    await words.record("w", twice, wait=True)
    evidence = Source(kind="message", id="told", quote=said)
    code = Memory(content="my locker code is quokka77", sources=[evidence])
    [code] = await words.memories.add("w", [code])
    await words.memories.delete("w", code.memory_id, erase=True)
    assert await words.messages("w", "told") == []
    [repeated] = await words.messages("w", "repeated")
    assert repeated.content.strip() == "I live in Porto and"


@pytest.mark.parametrize("named", ["memory", "message", "person"])
async def test_what_a_load_removed_is_erased_from_the_history(
    words: Engine, tmp_path: Path, named: Literal["memory", "message", "person"]
) -> None:
    await words.record("alice", [Message(message_id="m1", content=SAID, user_id="tom")], wait=True)
    dog = Memory(memory_id="dog", content=KNOWN, user_id="tom", sources=[Source(kind="message", id="m1")])
    spoilt = Memory(content="Tom spoils Zyxxo", sources=[Source(kind="memory", id="dog")])
    await words.memories.add("alice", [dog, spoilt, Memory(content="Ann prefers ferrets")])
    (tmp_path / "new.jsonl").write_text('{"content": "The sun shines."}\n')
    await words.workspaces.load("alice", tmp_path / "new.jsonl", replace=True)
    if named == "memory":
        assert await words.memories.delete("alice", "dog", erase=True) == 1
    elif named == "message":
        assert await words.erase_messages("alice", "m1") == 1
    else:
        assert await words.workspaces.clear("alice", user_id="tom") == 0  # memories that are there
    assert await traces(words.database, *RARE) == {}
    assert (await traces(words.database, "ferrets", "shines"))["reme.memory_history"] == 3  # added, removed, loaded
    assert await consistent(words.database, "alice")


@pytest.mark.parametrize("person", ["", "tom"])
async def test_what_a_message_said_before_it_was_edited_is_erased_with_it(words: Engine, person: str) -> None:
    for text in (SAID, "My dog is nobody's business"):
        edited = Message(
            message_id="m1", session_id="s", content=text, user_id=person, metadata={"former": ["x", {"content": None}]}
        )
        await words.record("alice", edited, wait=True)
        await words.recall("alice", text, kind="rule", current_session="s")  # which logs the query
        turns = Artifact(f"turns {text[-3:]}", "turns", "Tom", f"Tom said: {text}")
        await Artifacts(words.database).put("alice", "s", [turns])
    await words.log_writer.flush()
    assert (await traces(words.database, *RARE)).keys() == {"reme.message", "reme.artifact", "reme.retrieval"}
    if person:
        await words.workspaces.clear("alice", user_id=person)
    else:
        await words.erase_messages("alice", "m1")
    assert await traces(words.database, *RARE, "business") == {}


async def test_other_workspaces_are_left_alone(words: Engine) -> None:
    stored = await remember(words, "alice")
    await remember(words, "bob")
    await words.memories.delete("alice", [stored["dog"].memory_id], erase=True)
    assert len(await words.memories.list("bob")) == 5
    assert (await words.database.fetch("bob", "select content from message where message_id = 'm2'")) == [(SAID,)]
    assert await consistent(words.database, "bob")


async def test_a_word_that_others_use_too_stays_in_what_they_said(words: Engine) -> None:
    home = Memory(kind=Kind.PROFILE, content="New York")
    travel = Memory(content="She flew to New York in May")
    tool = Memory(kind=Kind.TOOL, when_to_use="get_account_info", content="Give it the id.")
    await words.memories.add("w", [home, travel, tool])
    await words.record("w", [Message(message_id="m1", content="New York is loud; get_account_info fails")], wait=True)
    assert await words.memories.delete("w", [home.memory_id, tool.memory_id], erase=True) == 2
    assert [m.content for m in await words.memories.list("w")] == ["She flew to New York in May"]
    assert await words.database.fetch("w", "select content from message") == [
        ("New York is loud; get_account_info fails",)
    ]
    await words.memories.add("w", [home])
    await words.record("w", [Message(message_id="m2", content="new york")], wait=True)
    await words.memories.delete("w", [home.memory_id], erase=True)
    assert await words.database.fetch("w", "select content from message where message_id = 'm2'") == [("",)]


async def test_chinese_is_erased_like_anything_else(words: Engine) -> None:
    memory = Memory(content="他每天早上喝黑咖啡再去跑步", sources=[Source(kind="message", id="m1")])
    await words.record(
        "w", [Message(message_id="m1", content="我每天早上喝黑咖啡，再去跑步"), Message(content="真健康")]
    )
    await words.memories.add("w", memory)
    await words.recall("w", "他早上喝什么咖啡？")
    await words.memories.delete("w", [memory.memory_id], erase=True)
    await words.log_writer.flush()
    assert await traces(words.database, "黑咖啡", "咖啡", "跑步") == {}
    assert await consistent(words.database, "w")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
async def test_a_letter_and_its_accent_are_erased_as_one_character_and_as_two(
    words: Engine, form: Literal["NFC", "NFD"]
) -> None:
    told = "Élise owns a château"
    said = [f"{normalize(other, told)}{more}" for other in ("NFC", "NFD") for more in ("", " in Tours")]
    await words.record("w", [Message(content=text, session_id="s") for text in said])
    (memory,) = await words.memories.add("w", normalize(form, told))
    await words.memories.delete("w", memory.memory_id, erase=True)
    assert [message.content for message in await words.messages("w", "s")] == [" in Tours", " in Tours"]
    # Nor does anybody lose words that others say in the other form.
    stored = [
        Memory(content=normalize(form, told), subject="Ann"),
        Memory(content=normalize("NFD" if form == "NFC" else "NFC", f"{told} in Tours"), subject="Bob"),
    ]
    ann, bob = await words.memories.add("w", stored)
    erase = Erase([ann.memory_id], subject="Ann", author="Ann", scope={})
    await words.memories.apply("w", Change(erase=[erase]))
    assert [memory.content for memory in await words.memories.list("w")] == [bob.content]


@pytest.mark.parametrize(
    "told",
    [
        "我女儿的保险柜密码是八三七二一九零号",
        'Ann calls it "the red house" of 100% luck',
        "Ann's door code is quokka.\nShe lives at the end\tof the lane.",
        'Élise said "open\\close sesame"\nto the wombat',
        "İstanbul'da kapı şifresi benim doğum günüm",
        "ÄPFEL UND ΟΔΟΣ stehen im Keller",
    ],
)
async def test_words_within_json_are_erased_in_all_their_forms(words: Engine, told: str) -> None:
    calls = [
        ToolCall(name="add_memory", arguments=json.dumps({"content": told}, ensure_ascii=a)) for a in (True, False)
    ]
    answers = [
        json.dumps(value, ensure_ascii=a)
        for a in (True, False)
        for value in ({"stored": told}, {"body": json.dumps({"stored": told}, ensure_ascii=a)})
    ]
    said = [Message(role="assistant", content="Noted.", tool_calls=calls, message_id="call", session_id="s")]
    said += [
        Message(role="tool", content=answer, metadata={"raw": answer}, session_id="s", message_id=f"answer{n}")
        for n, answer in enumerate(answers)
    ]
    await words.record("w", [*said, Message(content=f"x: {told} !", session_id="s", message_id="plain")])
    await words.episodes.record("w", {"task_id": "t", "score": 0.5, "mistakes": [f"forgot: {told}", *answers]})
    left = [Artifact(f"h{n}", "output", "tool", f"first {answer} last") for n, answer in enumerate(answers)]
    await Artifacts(words.database).put("w", "s", left)
    other = await words.memories.add("w", Memory(content="Somebody was here", metadata={"why": answers}), reason=told)
    (memory,) = await words.memories.add("w", told)
    await words.recall("w", f"is it so: {told}?")
    await words.log_writer.flush()
    await words.memories.delete("w", memory.memory_id, erase=True)
    async with words.database.owner_connection() as connection:
        for table in ("message", "episode", "memory", "memory_history", "retrieval", "artifact"):
            rows = await (await connection.execute(f"select t::text from reme.{table} t")).fetchall()
            bare = str(rows).replace("\\", "")
            for form in (told, json.dumps(told), json.dumps(told, ensure_ascii=False)):
                assert form.strip('"').replace("\\", "")[4:24] not in bare, (table, form)
    messages = {m.message_id: m for m in await words.messages("w", "s")}
    assert messages["plain"].content == "x:  !"
    assert [call.arguments for call in messages["call"].tool_calls] == ['{"content": ""}'] * 2
    assert {m.content for name, m in messages.items() if name.startswith("answer")} == {
        '{"stored": ""}', '{"body": "{\\"stored\\": \\"\\"}"}',
    }  # fmt: skip
    assert [m.memory_id for m in await words.memories.list("w")] == [other[0].memory_id]


async def test_a_memory_that_quoted_what_is_erased_keeps_its_history_without_it(words: Engine) -> None:
    fond = Memory(content="Tom is fond of animals", metadata={"because": KNOWN})
    dog, fond = await words.memories.add("w", [Memory(content=KNOWN), fond])
    await words.memories.update("w", fond.memory_id, content="Tom loves animals", reason=f"since {KNOWN}")
    await words.memories.delete("w", dog.memory_id, erase=True)
    assert await traces(words.database, *RARE) == {}
    told = await words.memories.history("w", fond.memory_id)
    assert [(entry.after or {})["content"] for entry in told] == ["Tom is fond of animals", "Tom loves animals"]
    assert [m.content for m in await words.memories.as_of("w", present())] == ["Tom loves animals"]


async def test_no_situation_subject_or_keyword_of_another_memory_keeps_what_is_erased(words: Engine) -> None:
    others = [
        Memory(kind=Kind.TASK, content="Buy more", when_to_use=f"When asked whether {KNOWN}"),
        Memory(content="He has a pet", keywords=["pet", KNOWN]),
        Memory(content="It is a pet", subject=KNOWN),
    ]
    dog, *_ = await words.memories.add("w", [Memory(content=KNOWN), *others])
    await words.memories.delete("w", dog.memory_id, erase=True)
    assert await traces(words.database, *RARE) == {}
    left = {m.content: (m.when_to_use, m.keywords, m.subject) for m in await words.memories.list("w")}
    assert left == {
        "Buy more": ("When asked whether ", [], ""),
        "He has a pet": ("", ["pet"], ""),
        "It is a pet": ("", [], ""),
    }
    assert await consistent(words.database, "w")


async def test_a_lesson_keeps_the_situation_that_it_shares_with_one_that_is_erased(words: Engine) -> None:
    situation = "When a flight is to be booked online"
    told = [Memory(kind=Kind.TASK, when_to_use=situation, content=f"{verb} it") for verb in ("Compare", "Pay", "Print")]
    (compare, pay, _) = await words.memories.add("w", told)
    await words.memories.delete("w", compare.memory_id, erase=True)
    assert [m.when_to_use for m in await words.memories.list("w")] == [situation, situation]
    assert (await words.memories.history("w", pay.memory_id))[0].after["when_to_use"] == situation  # type: ignore[index]
    await words.memories.delete("w", [m.memory_id for m in await words.memories.list("w")], erase=True)
    assert await traces(words.database, "flight") == {}


def test_of_a_long_text_the_beginning_is_a_pattern_and_all_of_it_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """To compile a text of a megabyte takes longer than Postgres waits for a transaction."""
    compile_pattern, lengths = re.compile, list[int]()

    def measure(pattern: str, flags: int = 0) -> re.Pattern[str]:
        lengths.append(len(pattern))
        return compile_pattern(pattern, flags)

    report = " ".join(f"Line {n} of her diary: {n * 7919} steps, “Straße” and café." for n in range(2_000))
    monkeypatch.setattr("reme_core.store.wordings.re.compile", measure)
    remove = remover_of([report, "Her dog is called Rex."])
    monkeypatch.undo()
    assert max(lengths) < 5_000
    for form in (
        report,
        report.upper().replace("STRASSE", "STRAßE"),
        normalize("NFD", report),
        json.dumps(report)[1:-1],
    ):
        assert remove(f"So: {form} And {form}! HER DOG IS CALLED REX. I swim.") == "So:  And !  I swim."
    begun = report[:-20]
    assert remove(f"{begun} {report}{begun}") == f"{begun} {begun}"


async def test_erasing_leaves_its_time_and_no_history(words: Engine) -> None:
    begun = present()
    (memory,) = await words.memories.add("w", "Short lived sentence here")
    await words.memories.delete("w", [memory.memory_id], erase=True)
    ((erased_at,),) = await words.database.fetch("w", "select erased_at from workspace")
    assert begun < erased_at <= present()
    assert await words.database.fetch("w", "select from memory_history") == []
    assert await words.memories.as_of("w", present()) == []
