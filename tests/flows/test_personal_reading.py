"""Personal memory with a chat model, over real HTTP: one reading a window, operations with evidence, and guards."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from reme_core.engine import Engine
from reme_core.errors import ConflictError, ModelUnavailableError
from reme_core.prompts import fence
from reme_core.types import Kind, Memory, Status
from tests.flows.personal_turns import answering, contents, everything, operation, summarise, turn
from tests.loopback import Loopback

Json = dict[str, Any]
Flow = Any


def asked(loopback: Loopback) -> list[str]:
    return [body["messages"][1]["content"] for body in loopback.bodies("/chat/completions")]


def naming(*words: str, then: Callable[[int], Json]) -> Callable[[Json], Json]:
    """Answer with what `then` makes of the number of the remembered statement that holds the words."""

    def answer(body: Json) -> Json:
        shown = re.findall(r"^m(\d+) (.*)$", body["messages"][1]["content"], re.MULTILINE)
        return then(next(int(number) for number, text in shown if all(word in text for word in words)))

    return answer


async def test_a_session_is_read_once_with_its_dates_its_speakers_and_the_assistants_questions(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    loopback.chat(
        answering(
            operation("add", "Ines swims on Wednesdays at 7", (3,), value="wednesdays at 7", thing="swimming"),
            operation("nothing", evidence=()),
        )
    )
    await summarise(
        reme_with_chat,
        turn("haha i joined the club lol", name="Ines"),
        turn("Great! Which days do you swim?", role="assistant"),
        turn("yep wednesdays at 7", name="Ines"),
    )
    [shown] = asked(loopback)
    assert "2024-05-06 Monday" in shown
    assert "[1] Ines: haha i joined the club lol\n[2] assistant: Great! Which days do you swim?\n[3] Ines: yep" in shown
    [memory] = await everything(reme_with_chat)
    assert (memory.content, memory.subject, memory.author) == ("Ines swims on Wednesdays at 7", "Ines", "loop-chat")
    assert memory.metadata["mode"] == "read"
    assert [s.quote for s in memory.sources] == ["yep wednesdays at 7"]
    assert loopback.bodies("/chat/completions")[0]["max_tokens"] > 0, "an answer without a bound may cost anything"


async def test_a_long_session_is_read_in_windows_that_overlap(reme_with_chat: Engine, loopback: Loopback) -> None:
    loopback.chat(answering())
    await summarise(reme_with_chat, *(turn(f"line number {n}") for n in range(30)))
    first, second = asked(loopback)
    assert "[24] The user: line number 23" in first
    assert "\nThe user: line number 23\n[1] The user: line number 24" in second, "read before, it only explains"
    assert "line number 17" not in second
    await summarise(reme_with_chat, turn("line number 0"))
    waiting = await reme_with_chat.execute("read_message", workspace_id="w")
    assert waiting.metadata["messages"] == []


async def test_what_waits_is_read_behind_what_was_said_right_before_it(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    loopback.chat(answering())
    said = [turn(f"line number {n}", id=f"m{n}", session_id="s") for n in range(20)]
    await summarise(reme_with_chat, *said)
    edited = [{**said[n], "content": f"line {n} edited"} for n in (3, 12)]
    await summarise(reme_with_chat, *edited, turn("line number 20", session_id="s"))
    for read, new, before in zip(asked(loopback)[1:], ("3 edited", "12 edited", "number 20"), (2, 11, 19), strict=True):
        assert f"\nThe user: line number {before}\n[1] The user: line {new}\n</conversation>" in read


async def test_what_is_edited_while_a_model_reads_it_is_not_asked_about_in_vain(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    loop, first = asyncio.get_running_loop(), turn("I live in York.", id="m1", session_id="s")

    def edit_and_answer(body: Json) -> Json:
        changed = reme_with_chat.record("w", {**first, "content": "I live in Hull."})
        asyncio.run_coroutine_threadsafe(changed, loop).result(30)
        return answering(operation("add", "Ines lives in York", value="York"))

    loopback.chat(edit_and_answer, answering(operation("add", "Ines lives in Hull", value="Hull")))
    with pytest.raises(ConflictError, match="edited while they were read, and to be read again: m1"):
        await summarise(reme_with_chat, first)
    assert len(asked(loopback)) == 1
    await reme_with_chat.summarise("w")
    assert (await contents(reme_with_chat), len(asked(loopback))) == (["Ines lives in Hull"], 2)


async def test_what_is_read_again_of_an_edited_message_is_remembered_once(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    for words in ("I live in rome", "I live in Rome", "I live in Oslo", "I live in Rome"):
        city = words[10:].title()
        loopback.chat(answering(operation("add", f"The user lives in {city}", value=city)))
        await summarise(reme_with_chat, turn(words, message_id="m1"))
    assert sorted(await contents(reme_with_chat)) == ["The user lives in Oslo", "The user lives in Rome"]


async def test_days_are_those_of_the_speakers(
    reme_with_chat: Engine, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reme_with_chat.settings, "timezone", "Asia/Shanghai")
    moved = operation("add", "Ines moved to Hull on 2024-05-07", value="Hull", since="2024-05-07", thing="home")
    loopback.chat(answering(moved))
    early = {**turn("I moved to Hull today!"), "time_created": "2024-05-06T23:00:00Z"}  # seven in the morning in China
    await summarise(reme_with_chat, early)
    [memory] = await everything(reme_with_chat)
    assert (memory.content, f"{memory.valid_from}") == (moved["statement"], "2024-05-06 16:00:00+00:00")
    await summarise(reme_with_chat, turn("And I like it there."))
    first, second = asked(loopback)
    assert "— 2024-05-07 Tuesday\n" in first and "2024-05-06" not in first
    assert "m1 (2024-05-07) Ines moved to Hull" in second


async def test_what_one_answer_adds_and_changes_to_the_same_is_there_once(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    told = {"value": "Lisbon", "thing": "home"}
    same = [operation(op, "Ines lives in Lisbon", **told) for op in ("add", "change")]
    loopback.chat(answering(*same))
    await summarise(reme_with_chat, turn("I live in Lisbon now.", name="Ines"))
    [memory] = await everything(reme_with_chat)
    assert (memory.content, memory.status, memory.superseded_by) == ("Ines lives in Lisbon", "active", None)


async def test_a_change_closes_the_older_on_both_axes_from_when_it_was(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    loopback.chat(answering(operation("add", "Ines lives in Hull", value="Hull", thing="home", kind="profile")))
    await summarise(reme_with_chat, turn("I live in Hull"))
    moved = operation("change", "Ines moved to Lisbon last week", value="Lisbon", since="last week", thing="home")
    loopback.chat(naming("Hull", then=lambda number: answering({**moved, "memory": number})))
    await summarise(reme_with_chat, turn("moved to Lisbon last week!!", "2024-07-10"))
    hull, lisbon = await everything(reme_with_chat)
    assert (hull.status, hull.superseded_by) == (Status.SUPERSEDED, lisbon.memory_id)
    assert hull.valid_until == lisbon.valid_from == datetime(2024, 7, 1, tzinfo=UTC)
    assert lisbon.content == "Ines moved to Lisbon last week (2024-07-01–2024-07-07)"
    assert hull.kind == Kind.PROFILE


async def test_what_ends_ends_without_a_listed_word_and_what_is_said_again_is_confirmed(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    loopback.chat(
        answering(
            operation("add", "Ines has driving lessons", value="driving lessons"),
            operation("add", "Ines likes tea", value="tea"),
        )
    )
    await summarise(reme_with_chat, turn("driving lessons and tea, thats me"))
    loopback.chat(naming("lessons", then=lambda number: answering(operation("end", memory=number))))
    await summarise(reme_with_chat, turn("PASSED!!! first time", "2024-08-14"))
    loopback.chat(naming("tea", then=lambda number: answering(operation("confirm", memory=number))))
    await summarise(reme_with_chat, turn("tea again", "2024-09-01"))
    found = {m.content: m for m in await everything(reme_with_chat)}
    assert found["Ines has driving lessons"].status == Status.EXPIRED
    assert found["Ines has driving lessons"].valid_until == datetime(2024, 8, 14, 9, tzinfo=UTC)
    assert (found["Ines likes tea"].status, found["Ines likes tea"].seen_count) == (Status.ACTIVE, 2)


async def test_what_one_conversation_says_and_then_corrects_is_history_at_once(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    rod = {"thing": "rod", "about": "user"}
    loopback.chat(
        answering(
            operation("add", "Ines fetches the rod on Saturday", (1,), value="saturday", **rod),
            operation("change", "Ines fetches the rod on Sunday", (2,), value="sunday", **rod),
            operation("add", "Ines has a boat", (1,), value="boat", thing="boat"),
            operation("forget", evidence=(2,), thing="boat"),
        )
    )
    await summarise(reme_with_chat, turn("getting a rod saturday, for the boat"), turn("no, sunday. scrap the boat"))
    assert [(m.content.split(" (")[0], str(m.status)) for m in await everything(reme_with_chat)] == [
        ("Ines fetches the rod on Saturday", "superseded"),
        ("Ines fetches the rod on Sunday", "active"),
    ]


async def test_what_one_person_says_changes_nothing_of_another_in_the_same_conversation(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    def said(content: str, name: str) -> Json:
        return {"role": "user", "content": content, "author": name, "user_id": name}

    home = operation("add", "Ann lives in Porto", value="Porto", thing="home")
    loopback.chat(answering(home))
    await reme_with_chat.record("w", said("I live in Porto", "Ann"), session_id="s")
    await reme_with_chat.summarise("w")
    moved = operation("change", "Bob lives in Lisbon", (2,), value="Lisbon", thing="home")
    kept = operation("add", "Ann is in Faro for work", value="Faro", thing="place")
    went = operation("change", "Bob is in Rome for work", (2,), value="Rome", thing="place")
    loopback.chat(answering({**moved, "memory": 1}, kept, went))
    both = [said("I am in Faro for work", "Ann"), said("I moved to Lisbon, and am in Rome for work", "Bob")]
    await reme_with_chat.record("w", both, session_id="s")
    await reme_with_chat.summarise("w")
    assert "m1 Ann lives in Porto" in re.sub(r" \([\d-]+\)", "", asked(loopback)[-1])
    told = {(m.user_id, m.content, m.status) for m in await everything(reme_with_chat)}
    statements = [("Ann", home), ("Ann", kept), ("Bob", moved), ("Bob", went)]
    assert told == {(name, one["statement"], Status.ACTIVE) for name, one in statements}


async def test_what_is_told_late_is_history_and_does_not_undo_the_present(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    loopback.chat(answering(operation("add", "Ines lives in Leipzig", value="Leipzig")))
    await summarise(reme_with_chat, turn("I live in Leipzig", "2024-07-08"))
    late = operation("change", "Ines lives in Hamburg", value="Hamburg")
    loopback.chat(naming("Leipzig", then=lambda number: answering({**late, "memory": number})))
    await summarise(reme_with_chat, turn("I live in Hamburg", "2024-02-01"))
    hamburg, leipzig = await everything(reme_with_chat)
    assert (hamburg.status, leipzig.status) == ("superseded", "active")
    assert (hamburg.superseded_by, hamburg.valid_until) == (leipzig.memory_id, leipzig.observed_at)


@pytest.mark.parametrize(
    ("said", "since", "until", "kind", "wanted"),
    [
        ("running a marathon on October 5", "October 5", "", "event", ("2024-10-05", "2024-10-06")),
        ("running a marathon on October 5", "2024-10-05", "", "event", ("2024-10-05", "2024-10-06")),
        ("ran a marathon on October 5", "October 5", "", "event", ("2023-10-05", "2023-10-06")),
        ("takes Jardiance since Friday", "since Friday", "", "fact", ("2024-05-03", None)),
        ("parking permit until the end of August", "", "the end of August", "fact", (None, "2024-09-01")),
        ("parking permit until the end of August", "", "", "fact", (None, "2024-09-01")),
        ("away from 3 to 10 June", "", "", "fact", ("2024-06-03", "2024-06-11")),
        ("likes tea, said so the other day", "the other day", "", "fact", (None, None)),
        ("likes tea", "2019-01-01", "", "fact", (None, None)),
        ("从周五开始吃药", "从周五开始", "", "fact", ("2024-05-03", None)),
    ],
)
async def test_times_are_those_of_the_messages_and_what_lies_ahead_stays_ahead(
    reme_with_chat: Engine, loopback: Loopback, said: str, since: str, until: str, kind: str, wanted: tuple[str, str]
) -> None:
    loopback.chat(answering(operation("add", said, since=since, until=until, kind=kind)))
    await summarise(reme_with_chat, turn(said))
    [memory] = await everything(reme_with_chat)
    days = tuple(moment and f"{moment:%Y-%m-%d}" for moment in (memory.valid_from, memory.valid_until))
    assert days == wanted


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (operation("add", "Ines likes tea", (7,)), "names no message"),
        (operation("add", "Ines likes tea", ()), "names no message"),
        (operation("add", "Ines has a cat", (2,), value="cat"), "the assistant's words"),
        (operation("add", "Ines drinks 7 cups", (1,), value="7 cups"), "value is not in"),
        (operation("add", "Ines drinks tea with Anna", (1,), value="with Anna"), "value is not in"),
        (operation("add", "", (1,)), "states nothing"),
        (operation("end", "", (1,), memory=9), "no remembered statement"),
    ],
)
async def test_what_the_evidence_does_not_bear_out_is_refused_with_its_reason(
    reme_with_chat: Engine, loopback: Loopback, told: Json, reason: str
) -> None:
    loopback.chat(answering(told, operation("add", "Ines likes tea", (1,), value="tea")))
    response = await summarise(
        reme_with_chat, turn("I like tea."), turn("You have a cat, Anna told me 5 times.", role="assistant")
    )
    assert await contents(reme_with_chat) == ["Ines likes tea"]
    [refused] = response.metadata["refused"]
    assert reason in refused["reason"]


@pytest.mark.parametrize(
    ("said", "question", "value"),
    [
        ("我才26", "", "26岁"),
        ("jordans 21 on the 14th", "", "Jordan 21"),
        ("yes, both", "Is your sister Anna in Rome?", "Anna Rome"),
        ("we have two cats", "", "2 cats"),
        ("早上都是一百二十五上下", "", "125"),
        ("i work at shear delight", "", "Shear Delight"),
        ("我住在里斯本", "", "Lisbon"),
    ],
)
async def test_a_value_is_found_in_any_inflection_script_or_spelling(
    reme_with_chat: Engine, loopback: Loopback, said: str, question: str, value: str
) -> None:
    evidence = 2 if question else 1
    loopback.chat(answering(operation("add", f"noted: {value}", (evidence,), value=value)))
    before = [turn(question, role="assistant")] if question else []
    response = await summarise(reme_with_chat, *before, turn(said))
    assert response.metadata["refused"] == []
    assert await contents(reme_with_chat) == [f"noted: {value}"]


async def test_a_statement_that_says_more_than_was_told_gives_way_to_the_words(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    loopback.chat(answering(operation("add", "Ines lives in Rome with Anna", (2,), value="Rome")))
    response = await summarise(
        reme_with_chat, turn("Where do you live?", role="assistant"), turn("in Rome with my sister")
    )
    assert await contents(reme_with_chat) == ["(asked: “Where do you live?”) in Rome with my sister"]
    assert "says more" in response.metadata["refused"][0]["reason"]


async def test_a_note_of_ours_is_never_shown_to_the_model(reme_with_chat: Engine, loopback: Loopback) -> None:
    loopback.chat(answering(operation("add", "Ines lives in Rome", (1,), value="Rome")))
    said = fence.note("- I live in Rome.", "en") + " what now"
    response = await summarise(reme_with_chat, turn(said), turn("I live in Rome", metadata={"reme_note": True}))
    assert "Rome" not in asked(loopback)[0]
    assert await contents(reme_with_chat) == []
    assert len(response.metadata["refused"]) == 1


async def test_to_forget_closes_what_is_named_and_to_delete_erases_it(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    names = ("Jordan", "Kim")
    loopback.chat(answering(*(operation("add", f"Ines knows {name}", value=name) for name in names)))
    await summarise(reme_with_chat, turn("I know Jordan and Kim"))
    loopback.chat(naming("Jordan", then=lambda number: answering(operation("forget", memory=number))))
    await summarise(reme_with_chat, turn("forget jordan please", "2024-06-01"))
    assert await contents(reme_with_chat, "expired") == ["Ines knows Jordan"]
    note = (await reme_with_chat.retrieve("w", "Jordan")).answer
    assert "Jordan" not in note and "jordan" not in note
    loopback.chat(naming("Kim", then=lambda number: answering(operation("forget", memory=number))))
    await summarise(reme_with_chat, turn("delete Kim", "2024-06-02"))
    assert [m.content for m in await everything(reme_with_chat) if "Kim" in m.content] == []


async def test_a_second_call_is_made_only_to_end_what_was_shown_briefly(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    told = [Memory(content=f"The user has thing number {n} on the shelf", subject="user") for n in range(40)]
    await reme_with_chat.memories.add("w", told)

    def answer(body: Json) -> Json:
        text = body["messages"][1]["content"]
        if "<operations>" in text:
            return {"holds": [2]}
        brief = [int(n) for n in re.findall(r"^m(\d+) .*…", text, re.MULTILINE)]
        return answering(*(operation("end", memory=number) for number in brief[:2]))

    loopback.chat(answer)
    await summarise(reme_with_chat, turn("I gave two of my things away"))
    calls = [body["messages"][1]["content"] for body in loopback.bodies("/chat/completions")]
    assert len(calls) == 2
    ended = await contents(reme_with_chat, "expired")
    assert len(ended) == 1
    assert f"[2] end: {ended[0]}" in calls[1], "what was ended was shown in full"


async def test_quotes_from_before_there_was_a_model_give_way_to_what_it_reads(
    reme: Engine, reme_with_chat: Engine, loopback: Loopback
) -> None:
    await summarise(reme, turn("my sister Ada lives in Hull"), turn("From now on answer in French."))
    assert {m.metadata["mode"] for m in await reme.memories.list("w")} == {"quoted"}
    loopback.chat(answering(operation("add", "The user's sister Ada lives in Hull", (1,), value="Ada Hull")))
    await reme_with_chat.background.catch_up()
    await reme_with_chat.background.drain()
    quoted, read = sorted(await everything(reme), key=lambda m: m.metadata["mode"])[::2]
    found = {m.content: m for m in await everything(reme)}
    old, new = found["my sister Ada lives in Hull"], found["The user's sister Ada lives in Hull"]
    assert (old.status, old.superseded_by) == (Status.SUPERSEDED, new.memory_id)
    assert found["From now on answer in French."].status == Status.ACTIVE
    assert quoted.metadata["mode"] == "quoted" and read.metadata["mode"] == "read"
    before = len(loopback.bodies("/chat/completions"))
    await reme_with_chat.background.catch_up()
    await reme_with_chat.background.drain()
    assert len(loopback.bodies("/chat/completions")) == before, "what was read is not read again"


async def test_what_is_read_once_more_and_says_the_same_is_stored_once(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    loopback.chat(answering(operation("add", "The user moved to Porto", value="Porto", thing="home")))
    await reme_with_chat.record("w", {"role": "user", "content": "I moved to porto", "id": "m"}, session_id="s")
    await reme_with_chat.summarise("w")
    before = await everything(reme_with_chat)
    await reme_with_chat.record("w", {"role": "user", "content": "I moved to Porto.", "id": "m"}, session_id="s")
    asked_before = len(asked(loopback))
    assert [job.status for job in (await reme_with_chat.summarise("w")).done] == ["succeeded"]
    assert len(asked(loopback)) == asked_before + 1
    assert await everything(reme_with_chat) == before


async def test_what_a_later_reading_of_the_same_words_finds_to_be_over_ends(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    home = operation("add", "The user lives in Porto", value="Porto", thing="home")
    loopback.chat(answering(home))
    await reme_with_chat.record("w", {"role": "user", "content": "I live in porto", "id": "m"}, session_id="s")
    await reme_with_chat.summarise("w")
    moved = operation("change", "The user lives in Lisbon", (2,), value="Lisbon", thing="home")
    loopback.chat(answering(home, moved))
    edited = {"role": "user", "content": "I live in Porto.", "id": "m"}
    await reme_with_chat.record("w", [edited, {"role": "user", "content": "I moved to Lisbon."}], session_id="s")
    await reme_with_chat.summarise("w")
    old, new = await everything(reme_with_chat)
    assert (old.content, old.status, old.superseded_by) == (home["statement"], Status.SUPERSEDED, new.memory_id)
    assert (new.content, new.status) == (moved["statement"], Status.ACTIVE)


@pytest.mark.parametrize("again", ["the flow", "summarise"])
async def test_a_model_outage_delays_memories_and_loses_none(
    reme_with_chat: Engine, loopback: Loopback, again: str
) -> None:
    loopback.fail(503, times=10)
    with pytest.raises(ModelUnavailableError):
        await summarise(reme_with_chat, turn("I like tea."))
    assert await everything(reme_with_chat) == []
    loopback.reset()
    loopback.chat(answering(operation("add", "The user likes tea", value="tea")))
    if again == "the flow":
        await reme_with_chat.execute("summary_personal_memory", workspace_id="w")
    else:
        assert (await reme_with_chat.summarise("w")).done
    assert await contents(reme_with_chat) == ["The user likes tea"]


async def test_a_callers_metadata_does_not_stop_a_reflection(reme_with_chat: Engine, loopback: Loopback) -> None:
    """`attribute` is where an insight has the side of the person that it is about; callers may keep anything there."""
    told = ["roasting coffee", "strong coffee", "coffee with friends", "iced coffee", "jam", "maps"]
    likes = [Memory(kind=Kind.OBSERVATION, content=f"The user likes {what}", subject="user") for what in told]
    own = Memory(kind=Kind.INSIGHT, content="The user likes trains", subject="user", metadata={"attribute": 7})
    await reme_with_chat.memories.add("w", [*likes, own])

    def answer(body: Json) -> Json:
        if "<known>" in body["messages"][1]["content"]:
            return {"subjects": ["drinks"]}
        is_new = "The side: <subject>\ndrinks" in body["messages"][1]["content"]
        return {"content": "The user likes coffee" if is_new else own.content, "evidence": [1, 2]}

    loopback.chat(answer)
    await reme_with_chat.execute("reflect", workspace_id="w")
    insights = [m for m in await everything(reme_with_chat) if m.kind == Kind.INSIGHT]
    assert {(m.content, m.metadata["attribute"]) for m in insights} == {
        (own.content, 7), ("The user likes coffee", "drinks"),
    }  # fmt: skip


async def test_retrieval_waits_for_no_chat_model(reme_with_chat: Engine, loopback: Loopback, flow: Flow) -> None:
    for query in ("What did I eat yesterday?", "What do I eat?", "What is an easy dish?"):
        await flow(reme_with_chat, "retrieve_personal_memory", workspace_id="w", query=query)
    assert loopback.bodies("/chat/completions") == []


async def test_a_caller_may_keep_anything_where_a_statement_has_its_thing(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    known = Memory(content="The user lives in Hull", subject="user", metadata={"thing": 3, "about": ["home"]})
    await reme_with_chat.memories.add("w", [known])
    again = naming("Hull", then=lambda n: operation("change", "The user lives in Hull", memory=n, value="Hull"))
    moved = operation("end", "It is over", value="Hull", thing="home")
    loopback.chat(lambda body: {"operations": [again(body), moved]})
    await summarise(reme_with_chat, turn("I live in Hull"))
    assert await contents(reme_with_chat) == ["The user lives in Hull"]
