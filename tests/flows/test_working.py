"""Working memory: long tasks stay within the window, what leaves it is read back, and models are asked once."""

from __future__ import annotations

import asyncio
import json
import random
import re
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from reme_core import ReMe
from reme_core.engine import Engine
from reme_core.errors import DatabaseUnavailableError, InputError, NotFoundError
from reme_core.given import storable
from reme_core.settings import Settings, WorkingSettings
from reme_core.store import artifacts
from reme_core.testing import Gate
from reme_core.types import Message, ToolCall
from reme_core.working.offload import handle_in, handles_in
from reme_core.working.window import cuts
from tests.loopback import Loopback


def log_of(number: int, lines: int = 400) -> str:
    return "\n".join(
        f"2026-11-23T10:{n % 60:02d}:00Z INFO run {number} step {n} code {number * 7919 + n}" for n in range(lines)
    )


def step(number: int, output: str = "ok") -> list[Message]:
    call = ToolCall(id=f"c{number}", name="run", arguments=json.dumps({"job": number}))
    return [
        Message(role="assistant", content=f"Running job {number} now.", tool_calls=[call]),
        Message(role="tool", tool_call_id=f"c{number}", content=output),
    ]


def talk(turns: int) -> list[Message]:
    said = [
        Message(role="system", content="You deploy services."),
        Message(content="Please migrate src/billing.py to the new API by 2026-12-01."),
        Message(
            role="assistant", content="We will use port 8443 instead of 8080. I still need to update deploy/prod.yaml."
        ),
    ]
    for number in range(turns):
        filler = "It went as it always does and nothing about it was in any way remarkable. " * 8
        said += [*step(number), Message(role="assistant", content=filler), Message(content="Go on, then.")]
    return said


async def fit(reme: Engine, messages: list[Message], *, window: int = 4_000, session: str = "s", **more: Any) -> Any:
    return await reme.working.fit("acme", messages, session_id=session, window=window, **more)


async def grow_older(reme: Engine, by: str) -> None:
    older = "select workspace_id, artifact_id, used_at - %(by)s::interval as moment from reme.artifact"
    update = "update reme.artifact a set used_at = moment from older o"
    key = "a.workspace_id = o.workspace_id and a.artifact_id = o.artifact_id"
    await reme.database.execute("acme", f"with older as materialized ({older}) {update} where {key}", {"by": by})


async def expire(reme: Engine) -> None:
    """Delete what has expired, as a worker does."""
    reme.background._forgot_at = float("-inf")
    await reme.background._keep_up()


async def test_a_short_conversation_stays_as_it_is_and_nothing_is_stored(reme: Engine) -> None:
    said = talk(1)
    fitted = await fit(reme, said, window=16_000)
    assert fitted.messages == said and fitted.places == list(range(len(said)))
    assert (fitted.offloaded, fitted.compacted, fitted.made) == ([], "", "")
    assert await reme.working.artifacts("acme", "s") == [] and await reme.workspaces.list() == []


async def test_a_long_output_is_read_back_in_full_and_found_by_its_words(reme: Engine) -> None:
    text = log_of(1)
    fitted = await fit(reme, [Message(content="Run it."), *step(1, text)], window=16_000)
    [handle] = fitted.offloaded
    assert handle_in(fitted.messages[-1].content) == handle and fitted.use.tokens < 700 < 10_000 < fitted.before.tokens
    read = ""
    while len(read) < len(text):
        piece = await reme.working.read("acme", handle, offset=len(read))
        read += piece.text
        if piece.offset + 6_000 >= piece.length:
            break
    assert read == text
    [found] = await reme.working.grep("acme", "STEP 217 code", session_id="s")
    assert found.line == "2026-11-23T10:37:00Z INFO run 1 step 217 code 8136" and found.source == "run(job=1)"
    assert (await reme.working.read("acme", handle, offset=found.offset, size=20)).text == found.line[:20]
    again = await fit(reme, [Message(content="Run it."), *step(1, text)], window=16_000)
    assert again.offloaded == [handle] and len(await reme.working.artifacts("acme", "s")) == 1


async def test_an_output_of_bytes_is_read_on_from_where_an_answer_ended(reme: Engine) -> None:
    text = "".join(f"{n:05d}\x00\x10\udcff" for n in range(5_000))
    [handle] = (await fit(reme, step(1, text), window=16_000)).offloaded
    read = ""
    while True:
        told = (await reme.execute("read_working_memory", workspace_id="acme", handle=handle, offset=len(read))).answer
        head, _, rest = told.partition(":\n")
        read += rest.removesuffix("\n</memory_note>")
        if "goes on with" not in head:
            break
        assert head.endswith(f'goes on with read_working_memory("{handle}", {len(read)})')
    assert read == storable(text)
    excerpt = (await fit(reme, step(1, text), window=16_000)).messages[-1].content
    left = int(re.findall(r"up to offset (\d+)", excerpt)[0])
    assert f"{len(read):,} characters" in excerpt and read[left:] in excerpt


async def test_the_same_output_of_two_calls_is_kept_once(reme: Engine) -> None:
    fitted = await fit(reme, [*step(1, log_of(1)), *step(2, log_of(1))], window=16_000)
    assert len(set(fitted.offloaded)) == len(await reme.working.artifacts("acme", "s")) == 1
    assert "run(job=1)" in fitted.messages[1].content and "run(job=2)" in fitted.messages[3].content


async def test_a_pattern_finds_every_place_in_one_long_line(reme: Engine) -> None:
    text = json.dumps([{"id": n, "name": f"item-{n}"} for n in range(3_000)])
    [handle] = (await fit(reme, step(1, text), window=16_000)).offloaded
    found = await reme.working.grep("acme", r'"item-(17|1800|2999)"', handle=handle)
    assert [text[one.offset :].startswith(one.line[:20]) for one in found] == [True] * 3
    assert [name in one.line for name, one in zip(("item-17", "item-1800", "item-2999"), found, strict=True)] == [
        True
    ] * 3
    assert len(await reme.working.grep("acme", "item", handle=handle, limit=7)) == 7


async def test_a_word_s_edge_is_written_as_in_most_languages(reme: Engine) -> None:
    [handle] = (await fit(reme, step(1, log_of(1)), window=16_000)).offloaded
    for pattern, matches in ((r"\bstep 21\b", 1), (r"step 21\B", 10), (r"\bep 21\b", 0), (r"step 21\\b", 0)):
        assert len(await reme.working.grep("acme", pattern, handle=handle)) == matches, pattern


async def test_a_bad_pattern_is_explained(reme: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    await fit(reme, step(1, "".join(random.Random(1).choices("abd", k=40_000))), window=16_000)
    for pattern, why in (("", "is empty"), ("(", "no regular expression")):
        with pytest.raises(InputError, match=why):
            await reme.working.grep("acme", pattern, session_id="s")
    with monkeypatch.context() as patch:
        patch.setitem(artifacts._GREP, "statement_timeout", "300")
        for pattern, why in (
            (r"(.+)\1\1\1", "takes too long"), ("(a{1,200}){1,200}x", "no regular expression|takes too long")
        ):  # fmt: skip
            with pytest.raises(InputError, match=why):
                await reme.working.grep("acme", pattern, session_id="s")
    with pytest.raises(InputError, match=r"^'\(x{150}.{,200}$"):  # a model reads it in a window that is full already
        await reme.working.grep("acme", "(" + "x" * 2_000, session_id="s")
    for nothing in ({"session_id": "of nobody"}, {"handle": "beef"}):
        with pytest.raises(InputError, match=r"no regular expression to use: .*brackets"):
            await reme.working.grep("acme", "[", **nothing)
    assert await reme.working.grep("acme", "x*", session_id="of nobody") == []


async def test_arguments_that_do_not_fit_are_explained(reme: Engine) -> None:
    with pytest.raises(InputError, match=r"keep_recent is how many messages .* not -1"):
        await fit(reme, talk(20), keep_recent=-1)
    with pytest.raises(InputError, match=r"count_tokens is a function .* not 'gpt'"):
        await fit(reme, talk(20), count_tokens="gpt")
    with pytest.raises(InputError, match=r"count_tokens is a function .* not 'gpt'"):
        await reme.working.check_context(talk(1), window=100, count_tokens="gpt")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^limit is how many lines to give at most, 0 or more; not -1"):
        await reme.working.grep("acme", "x", limit=-1)
    await fit(reme, step(1, log_of(1)))
    assert len(await reme.working.grep("acme", "step", session_id="s", limit=10**30)) == 400


async def test_what_its_excerpt_would_make_longer_stays_whole(reme: Engine) -> None:
    """Of a full window ever smaller limits are tried: at the last ones a handle takes more room than the text."""
    asked = Message(content="Run the six jobs of this morning again, and tell me which of them was slower. " * 4)
    calls = [ToolCall(id=f"c{number}", name="run", arguments="{}") for number in range(6)]
    outputs = [Message(role="tool", tool_call_id=call.id, content=log_of(n, 2)) for n, call in enumerate(calls)]
    said = [asked, Message(role="assistant", tool_calls=calls), *outputs]
    fitted = await fit(reme, said, window=512)
    assert fitted.before.share > 0.7
    assert (fitted.messages, fitted.use, fitted.offloaded) == (said, fitted.before, [])
    longer = [*said[:-1], outputs[-1].model_copy(update={"content": log_of(6)})]
    assert (fitted := await fit(reme, longer, window=600)).messages[:-1] == said[:-1]
    assert len(fitted.offloaded) == 1


async def test_an_output_is_of_the_call_before_it_also_where_ids_are_used_again(reme: Engine) -> None:
    """Gateways number calls anew in each answer of a model, or give no ids at all."""

    def call(*names: str) -> Message:
        calls = [ToolCall(id="1", name=name, arguments="{}") for name in names]
        return Message(role="assistant", tool_calls=calls)

    def output(number: int) -> Message:
        return Message(role="tool", tool_call_id="1", content=log_of(number))

    said = [Message(content="Go."), call("first"), output(1), call("left", "right"), output(2), output(3)]
    shown = (await fit(reme, said, window=16_000)).messages
    for place, name in ((2, "first"), (4, "left"), (5, "right")):
        assert shown[place].content.startswith(f"[{name}() gave")
    answer = Message(role="tool", tool_call_id="1", content="Nothing matches.")
    grown = [*said, call("grep_working_memory"), answer, call("last"), output(4)]
    fitted = await fit(reme, grown, window=16_000)
    assert [message.content for message in fitted.messages[:6]] == [message.content for message in shown]
    assert fitted.messages[7] == answer and fitted.messages[9].content.startswith("[last() gave")
    summed = (await fit(reme, grown, window=16_000, mode="compress", keep_recent=2)).messages[0].content
    assert re.findall(r"- \w+: (\w+)\(\)", summed) == ["first", "left", "right"]
    stored = await reme.working.artifacts("acme", "s")
    assert [one.source for one in stored if one.kind == "output"] == ["first()", "left()", "right()", "last()"]


async def test_what_is_not_there_is_told(reme: Engine) -> None:
    [handle] = (await fit(reme, step(1, log_of(1)), window=16_000)).offloaded
    with pytest.raises(NotFoundError, match="no artifact 'beef'"):
        await reme.working.read("acme", "beef")
    with pytest.raises(NotFoundError, match="no artifact 'beef'"):
        await reme.working.grep("acme", "x", handle="beef")
    with pytest.raises(InputError, match="offset is a character"):
        await reme.working.read("acme", handle, offset=10**7)
    with pytest.raises(InputError, match="offset is a character"):
        await reme.working.read("acme", handle, offset=10**30)
    await artifacts.Artifacts(reme.database).put("acme", "s", [artifacts.Artifact("empty", "output", "last()", "")])
    with pytest.raises(InputError, match="0 to 0; not 1"):
        await reme.working.read("acme", "empty", offset=1)
    with pytest.raises(InputError, match=r"^'\*' cannot name a workspace"):
        await reme.working.grep("*", "x", handle=handle)
    assert await reme.working.grep("acme", "nowhere", handle=handle) == []


async def test_names_that_postgres_cannot_store_are_refused(reme: Engine) -> None:
    for name in ("a\x00b", "\ud800"):
        with pytest.raises(InputError, match="session_id"):
            await fit(reme, step(1, log_of(1)), session=name, window=16_000)
        with pytest.raises(InputError, match="handle"):
            await reme.working.read("acme", name)
        with pytest.raises(InputError, match="pattern"):
            await reme.working.grep("acme", name)


async def test_old_turns_give_way_to_sentences_of_theirs_word_for_word(reme: Engine) -> None:
    said = talk(20)
    fitted = await fit(reme, said)
    assert fitted.before.share > 1 and fitted.use.share < 0.5 and fitted.made == "rules"
    assert fitted.messages[0] == said[0] and fitted.messages[-1] == said[-1]
    summary = fitted.messages[fitted.places.index(-1)]
    assert summary.metadata == {"reme_note": True} and summary.content.startswith("<memory_note>")
    for kept in (
        "- Please migrate src/billing.py to the new API by 2026-12-01.",
        "- We will use port 8443 instead of 8080.",
        "- I still need to update deploy/prod.yaml.",
        "since no chat model is set",
    ):
        assert kept in summary.content
    whole = (await reme.working.read("acme", fitted.compacted, size=10**6)).text
    gone = [message for place, message in enumerate(said) if place not in fitted.places]
    assert gone and all(message.content in whole for message in gone)
    assert all(call.arguments in whole for message in gone for call in message.tool_calls)


async def test_the_same_conversation_is_summarised_once_and_again_when_it_has_grown(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    def choose(body: dict[str, Any]) -> dict[str, Any]:
        record = body["messages"][-1]["content"]
        task, decision = (
            [int(number) for number in re.findall(rf"\[(\d+)\] \w+: {words}", record)]
            for words in ("I still need", "We will use")
        )
        story = f"It went on. It broke 99 times in x.py. {'o' * 5_000}"
        return {"tasks": task, "decisions": [*decision, 999], "story": story}

    loopback.chat(choose)
    said = talk(15)
    first = await fit(reme_with_chat, said)
    assert first.made == "loop-chat" and len(loopback.bodies("/chat/completions")) == 1
    summary = first.messages[first.places.index(-1)].content
    assert "Open tasks:\n- I still need to update deploy/prod.yaml." in summary
    assert "Decisions:\n- We will use port 8443 instead of 8080." in summary
    assert f"What happened: It went on. {'o' * 599}…\n" in summary and "99" not in summary  # nobody named it
    assert "chosen and written by loop-chat" in summary
    more = [*said, *step(90), Message(content="And now?")]
    again = await fit(reme_with_chat, more)
    assert again.made == "" and again.compacted == first.compacted and len(loopback.bodies("/chat/completions")) == 1
    assert again.messages[:2] == [*first.messages[:1], again.messages[1]] and again.messages[-1] == more[-1]
    grown = await fit(reme_with_chat, [*said, *talk(20)[3:]])
    assert grown.compacted != first.compacted and len(loopback.bodies("/chat/completions")) == 2
    assert "deploy/prod.yaml" in str(loopback.bodies("/chat/completions")[1]["messages"])  # of the first summary


async def test_what_was_fitted_may_be_given_back(reme: Engine) -> None:
    said: list[Message] = talk(0)
    for number in range(40):
        said += [Message(content=f"Turn {number}: " + "and so on " * 40), *step(number, log_of(number, 100))]
        fitted = await fit(reme, said)
        assert fitted.use.share <= 0.7
        said = [message.model_copy(update={"metadata": {}}) for message in fitted.messages]  # as frameworks lose it
        calls = [call.id for message in said for call in message.tool_calls]
        assert calls == [message.tool_call_id for message in said if message.role == "tool"]
    assert "src/billing.py" in str(said) and "8443" in str(said)
    assert len(await reme.working.grep("acme", r"run 3 step 42 code", session_id="s")) == 1
    turns = [one for one in await reme.working.artifacts("acme", "s") if one.kind == "turns"]
    whole = "".join([(await reme.working.read("acme", one.artifact_id, size=10**6)).text for one in turns])
    assert all(f"Turn {number}: and so on" in whole or f"Turn {number}:" in str(said) for number in range(40))


@pytest.mark.parametrize("fault", ["refuses", "rubbish", "late"])
async def test_rules_choose_where_the_model_fails(
    reme_with_chat: Engine, loopback: Loopback, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    if fault == "refuses":
        loopback.fail(500, times=9)
    elif fault == "late":
        loopback.slow(60)
        reme_with_chat.settings.working.patience = 3  # time enough to ask, on a busy machine too
    loopback.chat("I would rather not." if fault == "rubbish" else {"story": "Fine."})
    fitted = await fit(reme_with_chat, talk(20))
    summary = fitted.messages[fitted.places.index(-1)].content
    assert fitted.made == "rules" and "since the chat model failed" in summary and "8443" in summary
    assert ("since the chat model failed: no answer within 3 s" in caplog.text) == (fault == "late")
    assert len(loopback.bodies("/chat/completions")) == 1


async def test_a_model_may_choose_nothing_and_a_choice_of_another_form_is_told_in_one_line(
    reme_with_chat: Engine, loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    loopback.chat({"tasks": None, "decisions": [1], "story": None})
    assert (await fit(reme_with_chat, talk(20))).made not in ("", "rules")
    assert caplog.text == ""
    loopback.chat({"tasks": "none", "facts": "all"})
    assert (await fit(reme_with_chat, talk(20), session="t")).made == "rules"
    [told] = [record.getMessage() for record in caplog.records]
    assert "tasks: Input should be a valid list; facts: Input should be a valid list" in told


async def test_modes_and_what_is_kept(reme: Engine) -> None:
    said = talk(20)
    only = await fit(reme, [*said, *step(99, log_of(9))], mode="compact")
    assert only.compacted == "" and len(only.messages) == len(said) + 2 and len(only.offloaded) == 1
    always = await fit(reme, said, window=100_000, session="t", mode="compress", keep_recent=30)
    assert always.compacted and len(always.messages) == 32  # the system prompt, the summary, and those
    with pytest.raises(InputError, match="mode is"):
        await fit(reme, said, mode="both")  # type: ignore[arg-type]


async def test_one_turn_that_is_too_much_is_shortened_and_stays_whole_in_store(reme: Engine) -> None:
    pasted = "Look at this. " + "The value of the parameter is not what it should be. " * 2_000
    many = [Message(role="assistant", tool_calls=[ToolCall(id=f"m{n}", name="f", arguments="{}") for n in range(12)])]
    many += [Message(role="tool", tool_call_id=f"m{n}", content=log_of(n, 12)) for n in range(12)]
    fitted = await fit(reme, [Message(content=pasted), *many])
    assert fitted.use.share <= 0.7 and len(fitted.messages) == 14
    handle = handle_in(fitted.messages[0].content)
    assert (await reme.working.read("acme", handle, size=10**6)).text == pasted


@pytest.mark.parametrize("asked", ["Find all.", "全部找出来。"])
async def test_of_many_outputs_of_one_turn_the_handles_stay(reme: Engine, asked: str) -> None:
    many = [Message(role="assistant", tool_calls=[ToolCall(id=f"m{n}", name="f", arguments="{}") for n in range(40)])]
    many += [Message(role="tool", tool_call_id=f"m{n}", content=log_of(n, 12)) for n in range(40)]
    fitted = await fit(reme, [Message(content=asked), *many])
    assert fitted.use.share <= 0.7 and len(fitted.messages) == 42
    for shown, whole in zip(fitted.messages[2:], many[1:], strict=True):
        assert (await reme.working.read("acme", handle_in(shown.content), size=10**6)).text == whole.content
    again = await fit(reme, fitted.messages, session="other")
    assert again.messages == fitted.messages and again.offloaded == []


async def test_however_short_an_excerpt_gets_its_handle_gives_the_whole_text(reme: Engine) -> None:
    prompt = Message(role="system", content=" ".join(f"rule{n}" for n in range(1_250)))
    pasted = "Sum up this report:\n" + "\n".join(f"line {n} of the report" for n in range(3_000))
    fitted = await fit(reme, [prompt, Message(content=pasted)])
    [handle] = fitted.offloaded
    assert handle_in(fitted.messages[1].content) == handle
    assert (await reme.working.read("acme", handle, size=10**6)).text == pasted
    # Given back and summarised, it is still named.
    more = [Message(role="assistant", content="I will."), Message(content=log_of(1))]
    again = await fit(reme, [*fitted.messages, *more])
    assert again.made == "rules" and handle in handles_in(again.messages)
    assert len(await reme.working.artifacts("acme", "s")) == 3  # both texts, and the turns


async def test_erasing_a_conversation_or_a_workspace_erases_what_left_its_window(reme: Engine) -> None:
    for session in ("s", "t"):
        await fit(reme, step(1, log_of(1)), session=session, window=16_000)
    assert await reme.working.erase("acme", "s") == 1
    assert await reme.working.artifacts("acme", "s") == [] and len(await reme.working.artifacts("acme", "t")) == 1
    await reme.workspaces.clear("acme")
    assert await reme.working.artifacts("acme", "t") == []


async def test_a_neighbour_sees_nothing(reme: Engine) -> None:
    [handle] = (await fit(reme, step(1, log_of(1)), window=16_000)).offloaded
    with pytest.raises(NotFoundError):
        await reme.working.read("neighbour", handle)
    assert await reme.working.grep("neighbour", "step", session_id="s") == []
    rows = await reme.database.fetch("neighbour", "select count(*) from reme.artifact")
    assert rows == [(0,)]


@pytest.mark.parametrize("odd", ["", "\x00", "\ud83d"])
async def test_an_erased_message_is_gone_from_what_left_the_window_too(reme: Engine, odd: str) -> None:
    told = f"My neighbour at number {odd}twelve keeps a tiger in the cellar."
    secret, said = storable(told), talk(20)  # an adapter records what Postgres can store
    fitted = await fit(reme, [*said[:3], Message(content=told), *said[3:]])
    said.insert(3, Message(message_id="m", content=secret))
    await reme.record("acme", said, session_id="s", wait=True)
    assert secret in (await reme.working.read("acme", fitted.compacted, size=10**6)).text
    await reme.erase_messages("acme", "m")
    rows = await reme.database.fetch("acme", "select content, summary from reme.artifact")
    assert rows and "tiger" not in str(rows) and "src/billing.py" in str(rows)


async def test_who_makes_a_conversation_fit_leaves_what_has_expired_to_a_worker(
    reme: Engine, settings: Settings
) -> None:
    await fit(reme, step(1, log_of(1)), window=16_000)
    await grow_older(reme, "40 days")
    working = Engine(settings, worker={"embedded": True})
    async with working as later, await psycopg.AsyncConnection.connect(reme.database.url) as reader:
        await reader.execute("select from reme.artifact where workspace_id = 'acme' for update")
        async with asyncio.timeout(10):
            await fit(later, step(2, log_of(2)), session="t", window=16_000)
        assert not later.background.task.done()


async def test_what_no_conversation_refers_to_expires(reme: Engine) -> None:
    old, used = [
        (await fit(reme, step(n, log_of(n)), session=session, window=16_000)).offloaded[0]
        for n, session in enumerate(("old", "used"))
    ]
    await reme.database.execute("acme", "update reme.artifact set used_at = now() - interval '31 days'")
    await fit(reme, step(1, log_of(1)), session="used", window=16_000)
    await expire(reme)
    with pytest.raises(NotFoundError, match="kept no longer"):
        await reme.working.read("acme", old)
    assert (await reme.working.read("acme", used)).length > 10_000


@pytest.mark.parametrize("session", ["s", ""])
async def test_what_a_conversation_in_daily_use_refers_to_does_not_expire(reme: Engine, session: str) -> None:
    handed = (await fit(reme, step(50, log_of(50)), session="other")).messages
    pasted = Message(content="Look at this. " + "The value is not what it should be. " * 2_000)
    summed = await fit(reme, [*talk(0), *step(60, log_of(60)), *talk(20)], session=session)
    given = [*summed.messages, *handed, pasted]
    fitted = await fit(reme, given, session=session)
    # The other's output, that in the summary, the summary's turns, and the request, which is given in full each time.
    named = handles_in([*given, *fitted.messages])
    assert {*summed.offloaded, summed.compacted, *handles_in(handed), *fitted.offloaded} <= named
    for _ in range(2):
        await grow_older(reme, "20 days")
        await fit(reme, given, session=session)
    await expire(reme)
    assert [(await reme.working.read("acme", handle)).length > 0 for handle in named] == [True] * len(named)


async def test_all_that_left_a_conversation_is_kept_while_it_is_in_use(reme: Engine) -> None:
    said: list[Message] = talk(0)
    for number in range(30):
        said += step(number, log_of(number, 100))
        said = (await fit(reme, said)).messages
        if number % 10 == 0:
            await grow_older(reme, "20 days")
    await expire(reme)
    assert len(await reme.working.grep("acme", "step 42 code", session_id="s", limit=50)) == 30


async def test_what_is_kept_for_less_than_a_day_does_not_expire_in_use(settings: Settings) -> None:
    async with Engine(settings.model_copy(update={"working": WorkingSettings(keep_days=0.25)})) as reme:
        [handle] = (await fit(reme, step(1, log_of(1)))).offloaded
        await grow_older(reme, "20 hours")
        await fit(reme, step(1, log_of(1)))
        await expire(reme)
        assert (await reme.working.read("acme", handle)).length > 10_000


async def test_nothing_leaves_the_window_that_was_not_stored(settings: Settings, database_url: str) -> None:
    with Gate(database_url) as gate:
        through = settings.model_copy(update={"database_url": SecretStr(gate.url)})
        async with Engine(through) as reme:
            await reme.workspaces.list()
            gate.close()
            with pytest.raises(DatabaseUnavailableError):
                await fit(reme, step(1, log_of(1)), window=16_000)
            gate.open()
            assert (await fit(reme, step(1, log_of(1)), window=16_000)).offloaded


def test_code_that_does_not_await_has_the_same(settings: Settings) -> None:
    with ReMe(settings) as reme:
        fitted = reme.working.fit("acme", step(1, log_of(1)), session_id="s", window=16_000)
        [handle] = fitted.offloaded
        assert reme.working.grep("acme", "step 7 ", session_id="s")[0].artifact_id == handle
        assert reme.working.read("acme", handle, size=4).text == "2026"
        assert reme.working.check_context(fitted.messages, window=16_000).tokens == fitted.use.tokens
        assert len(reme.working.artifacts("acme", "s")) == reme.working.erase("acme", "s") == 1


def test_every_cut_of_the_conversations_here_is_between_turns() -> None:
    said = talk(3)
    assert all(said[place].role != "tool" for place in cuts(said))
