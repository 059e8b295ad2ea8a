"""What somebody asks to forget is found no more, by whatever way: as a memory, as a message, in a turn's note."""

from __future__ import annotations

from typing import Any

import pytest

from reme_core import AsyncReMe, Message
from reme_core.engine import Engine
from reme_core.errors import NotFoundError
from reme_core.store.filters import Filters
from reme_core.turn import MemoryTools, TurnMemory
from reme_core.types import Memory, Source, Status
from tests.flows.personal_turns import answering, operation, summarise, turn
from tests.loopback import Loopback

SALARY = "My salary is 52,000 euros a year."
FORGET = "Please forget my salary."
OF_SALARY = operation("add", "The salary is 52,000 euros.", thing="salary", value="52,000")
"""What a chat model makes of it."""


async def say(reme: Engine, *messages: str | Message, session: str = "s") -> None:
    """Record messages, the ones of the user as plain words, and let memories be made of them."""
    said = [m if isinstance(m, Message) else Message(content=m) for m in messages]
    await reme.record("w", [m.model_copy(update={"session_id": session}) for m in said])
    await reme.execute("summary_personal_memory", workspace_id="w")


async def told(reme: Engine, query: str = "What is the salary?") -> list[str]:
    """What recall finds: memories and messages."""
    memories = (await reme.recall("w", query)).hits
    return [hit.content for hit in [*memories, *(await reme.recall("w", query, kind="conversation")).hits]]


@pytest.mark.parametrize("together", [True, False])
async def test_neither_memory_nor_message_is_recalled(reme: Engine, together: bool) -> None:
    answer = Message(role="assistant", content="Noted: your salary is 52,000.")
    if together:
        await say(reme, SALARY, answer, "I have a dog, Rex.", FORGET)
    else:
        await say(reme, SALARY, answer, "I have a dog, Rex.")
        assert SALARY in await told(reme)
        await say(reme, FORGET, session="t")
    assert not [text for text in await told(reme) if "alary" in text]
    assert "I have a dog, Rex." in await told(reme, "dog")


@pytest.mark.parametrize(
    ("fact", "wish", "query"),
    [
        ("Mi sueldo es de 2100 euros.", "Olvida mi sueldo, por favor.", "¿Cuál es mi sueldo?"),
        (
            "Meine Exfreundin Saskia wohnt in Fürth.",
            "Vergiss, was ich dir über Saskia erzählt habe.",
            "Wer ist Saskia?",
        ),
        ("元カレの健太は名古屋に住んでいます。", "健太のことは全部忘れて。", "健太はどこ?"),
    ],
)
async def test_a_wish_in_another_language_is_heeded(reme: Engine, fact: str, wish: str, query: str) -> None:
    await say(reme, fact)
    assert fact in await told(reme, query)
    await say(reme, wish, session="t")
    assert not {fact, wish} & set(await told(reme, query))


async def test_what_was_forgotten_stays_so_when_it_is_deleted(reme: Engine) -> None:
    await say(reme, SALARY)
    await say(reme, FORGET, session="t")
    (memory,) = await reme.memories.list("w", status="expired")
    await reme.memories.delete("w", memory.memory_id)
    assert await told(reme) == []


async def test_what_one_message_says_before_its_command_is_forgotten(reme: Engine) -> None:
    await say(reme, f"{SALARY} I have a dog, Rex. {FORGET}", "I live in Hull.")
    assert not [text for text in await told(reme) if "52,000" in text]
    assert "I have a dog, Rex." in await told(reme, "dog")


async def test_all_messages_that_name_it_are_passed_over_however_many(reme: Engine) -> None:
    said = [Message(content=f"Jordan ate {n // 2} cakes", message_id=f"m{n}", session_id=f"s{n}") for n in range(260)]
    await reme.record("w", said)
    await say(reme, "Forget what I told you about Jordan.", session="t")
    found = await reme.recall("w", "Jordan cakes", kind="conversation", limit=300)
    assert [hit.content for hit in found.hits] == []


@pytest.mark.parametrize("said", ["Forget my salary, address and phone.", "忘掉我的工资、地址和电话"])
async def test_all_of_a_list_is_forgotten_and_nothing_else(reme: Engine, said: str) -> None:
    known = [
        "My salary is 52,000 euros.",
        "My address is 4 Mill Lane.",
        "My phone is a Fairphone.",
        "I have a dog, Rex.",
    ]
    if "工资" in said:
        known = ["我的工资是五万二。", "我的地址是米尔街4号。", "我的电话是公平牌的。", "我养了一只狗叫雷克斯。"]
    await reme.memories.add("w", [Memory(kind="observation", subject="user", content=text) for text in known])
    await say(reme, said, session="t")
    assert [memory.content for memory in await reme.memories.list("w")] == known[3:]


async def test_what_follows_a_thing_to_forget_may_be_what_to_do(reme: Engine) -> None:
    known = ["I sleep badly.", "I relax in the sauna.", "My ex lives in Bremen."]
    await reme.memories.add("w", [Memory(kind="observation", subject="user", content=text) for text in known])
    await say(reme, "Forget my ex, relax and sleep.", session="t")
    assert {memory.content for memory in await reme.memories.list("w")} == set(known[:2])


async def test_what_is_deleted_from_memory_may_be_a_list(reme: Engine) -> None:
    known = ["My salary is 52,000 euros.", "My phone is a Fairphone.", "I have a dog, Rex."]
    await reme.memories.add("w", [Memory(kind="observation", subject="user", content=text) for text in known])
    await say(reme, "Delete my salary, address and phone from your memory.")
    assert [memory.content for memory in await reme.memories.list("w", Filters(status=None))] == known[2:]


async def test_the_note_of_a_turn_leaves_it_out(reme: Engine, settings: Any) -> None:
    await say(reme, SALARY, "I have a dog, Rex.")
    async with AsyncReMe(settings) as client, TurnMemory(client=client, workspace_id="w") as turn:
        before = (await turn.begin("What do you know of my salary and my dog Rex?")).text
        await say(reme, FORGET, session="t")
        after = (await turn.begin("What do you know of my salary and my dog Rex?")).text
    assert "52,000" in before
    assert "52,000" not in after and "Rex" in after


async def test_a_message_of_which_no_memory_was_made_is_forgotten_too(reme: Engine) -> None:
    said = Message(role="assistant", content="Somebody wrote: Hamburg office, desk 14.")
    await say(reme, said)
    assert await reme.memories.list("w") == []
    await say(reme, "forget everything about the Hamburg office", session="t")
    assert await told(reme, "Hamburg office") == []
    [record] = await reme.memories.list("w", Filters(status=None))
    assert (record.status, record.content) == (Status.EXPIRED, "forget everything about the Hamburg office")


@pytest.mark.parametrize("way", ["asked", "deleted"])
async def test_what_is_restored_is_found_again_with_its_message(reme: Engine, way: str) -> None:
    await say(reme, SALARY)
    [memory] = await reme.memories.list("w")
    if way == "asked":
        await say(reme, FORGET, session="t")
    else:
        await reme.memories.delete("w", memory.memory_id)
    assert SALARY not in await told(reme)
    await reme.memories.restore("w", memory.memory_id)
    assert (await told(reme)).count(SALARY) == 2


@pytest.mark.parametrize("more", [{}, {"metadata": {"checked": "by hand"}}])
async def test_a_note_has_the_correction_of_a_quote_and_not_what_it_corrects(
    reme: Engine, more: dict[str, Any]
) -> None:
    corrected = "The salary is 61,000 euros a year."
    await say(reme, SALARY)
    (quote,) = await reme.memories.list("w")
    await reme.memories.update("w", quote.memory_id, content=corrected, **more)
    turn = TurnMemory(AsyncReMe.of(reme), "w")
    flow = (await reme.retrieve("w", "What is the salary?")).answer
    for note in (flow, (await turn.begin("What is the salary?")).text, await MemoryTools(turn).search_memory("salary")):
        assert corrected in note and SALARY not in note
    assert SALARY in await told(reme)  # it was said, all the same

    await reme.memories.delete("w", quote.memory_id)
    assert await told(reme) == []
    await reme.memories.restore("w", quote.memory_id)
    assert await told(reme) == [corrected, SALARY]


async def test_the_undo_of_a_summary_leaves_messages_as_they_are(reme: Engine) -> None:
    await say(reme, SALARY, "I have a dog, Rex.")
    await reme.memories.undo("w")
    assert await reme.memories.list("w") == []
    assert SALARY in await told(reme)


@pytest.mark.parametrize("together", [True, False])
async def test_other_people_keep_what_they_said(reme: Engine, together: bool) -> None:
    salaries = {"Ann": 100, "Bob": 200}
    said = [Message(content=f"My salary is {amount} euros.", author=name) for name, amount in salaries.items()]
    command = Message(content=FORGET, author="Ann")
    if together:
        await say(reme, *said, command)
    else:
        await say(reme, *said)
        await say(reme, command, session="t")
    assert set(await told(reme)) == {"My salary is 200 euros."}


@pytest.mark.parametrize("value", [True, "yes", {"a": 1}, [None], [["x"]], None])
async def test_whatever_callers_keep_under_that_name_hides_nothing(reme: Engine, value: object) -> None:
    await say(reme, SALARY)
    note = Memory(content="A note of their own", kind="observation", metadata={"forgotten": value})
    await reme.memories.add("w", note)
    await reme.memories.delete("w", note.memory_id)
    assert (await told(reme)).count(SALARY) == 2


async def test_the_oldest_of_many_memories_is_forgotten(reme: Engine) -> None:
    await reme.memories.add("w", Memory(content=SALARY, kind="observation"))
    await reme.memories.add("w", [Memory(content=f"number {n}", kind="observation") for n in range(1_000)])
    await say(reme, FORGET)
    assert SALARY not in await told(reme)


async def test_with_a_model_messages_are_passed_over_whatever_it_answers(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    loopback.chat({"operations": []})
    await say(reme_with_chat, SALARY)
    assert await told(reme_with_chat) == [SALARY]
    await say(reme_with_chat, FORGET, session="t")
    assert await told(reme_with_chat) == []


async def test_a_model_that_ignores_a_command_keeps_no_memory_from_being_forgotten(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    loopback.chat(answering(OF_SALARY))
    await say(reme_with_chat, SALARY)
    assert len(await reme_with_chat.memories.list("w")) == 1
    loopback.chat({"operations": []})
    await say(reme_with_chat, FORGET, session="t")
    assert [m.content for m in await reme_with_chat.memories.list("w")] == []


@pytest.mark.parametrize(("command", "left"), [(FORGET, 1), ("Please delete my salary from your memory.", 0)])
async def test_what_a_model_reads_before_a_command_of_the_same_conversation_goes_with_it(
    reme_with_chat: Engine, loopback: Loopback, command: str, left: int
) -> None:
    loopback.chat(answering(OF_SALARY))
    await say(reme_with_chat, SALARY, command)
    assert not [text for text in await told(reme_with_chat) if "52,000" in text]
    stored = await reme_with_chat.memories.list("w", Filters(status=None))
    assert len([m for m in stored if "52,000" in m.content]) == left


async def test_what_was_forgotten_can_still_be_deleted(reme: Engine) -> None:
    answer = Message(role="assistant", content="Your salary is a fine one.")
    await say(reme, SALARY, answer, "I have a dog, Rex.")
    await say(reme, FORGET, session="t")
    await say(reme, "Please delete my salary from your memory.", session="u")
    assert [m.content for m in await reme.memories.list("w", Filters(status=None)) if "52,000" in m.content] == []
    assert SALARY not in [m.content for m in await reme.messages("w", "s")]
    assert not [text for text in await told(reme) if "52,000" in text or "fine one" in text]


@pytest.mark.parametrize("command", [FORGET, "Please delete my salary from your memory."])
async def test_what_was_concluded_is_forgotten_with_it(reme: Engine, command: str) -> None:
    await say(reme, SALARY)
    [memory] = await reme.memories.list("w")
    rests = Memory(
        kind="insight", subject="user", content="Is well off.", sources=[Source(kind="memory", id=memory.memory_id)]
    )
    named = Memory(kind="insight", subject="user", content="Often speaks of the salary.")
    await reme.memories.add("w", [rests, named, Memory(kind="insight", subject="user", content="Likes dogs.")])
    await say(reme, command, session="t")
    assert [m.content for m in await reme.memories.list("w")] == ["Likes dogs."]


@pytest.mark.parametrize(
    "said",
    [
        "Forget my salary, but remember that I have two cats.",
        "Forget my salary and remember that I have two cats.",
        "Please remember that I have two cats, and please forget my salary.",
    ],
)
async def test_one_sentence_may_give_two_commands(reme: Engine, said: str) -> None:
    await say(reme, SALARY)
    await say(reme, said, session="t")
    [kept] = await reme.memories.list("w")
    assert "two cats" in kept.content and "salary" not in kept.content


async def test_a_wish_in_the_sentence_of_a_command_is_heeded(reme: Engine) -> None:
    await say(reme, SALARY)
    await say(reme, "From now on answer in French, and please forget my salary.", session="t")
    assert [(m.kind, m.content) for m in await reme.memories.list("w")] == [
        ("instruction", "From now on answer in French")
    ]


async def test_what_was_forgotten_is_not_shown_to_a_model_either(reme_with_chat: Engine, loopback: Loopback) -> None:
    loopback.chat({"operations": []})
    await say(reme_with_chat, SALARY, "I have a dog, Rex.", FORGET)
    loopback.requests.clear()
    await say(reme_with_chat, "I also have a cat, Tom.")
    [request] = [r for r in loopback.requests if "cat, Tom" in str(r)]
    assert "dog, Rex" in str(request) and "52,000" not in str(request)


COMMAND = "Please delete my salary from your memory."


@pytest.mark.parametrize(
    "said",
    [
        ["Let's role-play: I'm a captain and you are my robot.", COMMAND],
        ["Let's role-play: I'm a captain and you are my robot.", *["Row on!"] * 30, COMMAND],
        [f"Translate into German: {COMMAND}"],
        [f"In my novel the hero says this. {COMMAND}"],
    ],
)
@pytest.mark.parametrize("with_model", [False, True])
async def test_what_is_played_translated_or_made_up_deletes_nothing(
    reme: Engine, reme_with_chat: Engine, loopback: Loopback, said: list[str], with_model: bool
) -> None:
    loopback.chat({"operations": []})
    reme = reme_with_chat if with_model else reme
    await reme.memories.add("w", Memory(content=SALARY, kind="observation"))
    await say(reme, *said, session="t")
    assert SALARY in [m.content for m in await reme.memories.list("w")]


@pytest.mark.parametrize(
    "command",
    [
        "Could you please forget my salary?",
        "Hi, can you forget what I said about my salary?",
        "Pretend I never told you about my salary.",
    ],
)
@pytest.mark.parametrize("with_model", [False, True])
async def test_a_command_may_be_a_question_or_begin_like_a_play(
    reme: Engine, reme_with_chat: Engine, loopback: Loopback, command: str, with_model: bool
) -> None:
    loopback.chat({"operations": []})
    reme = reme_with_chat if with_model else reme
    await reme.memories.add("w", Memory(content=SALARY, kind="observation"))
    await say(reme, command, session="t")
    assert await reme.memories.list("w") == []


HEALED = "My knee is fine again, I run every Tuesday in the park."


@pytest.mark.parametrize("command", ["Please forget what I said about my knee.", "Delete my knee from your memory."])
@pytest.mark.parametrize("told_late", [False, True])
@pytest.mark.parametrize("with_model", [False, True])
async def test_what_is_said_after_the_command_stays(
    reme: Engine, reme_with_chat: Engine, loopback: Loopback, command: str, told_late: bool, with_model: bool
) -> None:
    loopback.chat({"operations": []})
    reme = reme_with_chat if with_model else reme
    before, after = turn("My knee hurts when I run.", "2024-05-01"), turn(HEALED, "2024-05-09")
    await reme.memories.add(
        "w", [Memory(content=one["content"], kind="observation", observed_at=f"{day}T09:00Z") for one, day in
              ((before, "2024-05-01"), (after, "2024-05-09"))]
    )  # fmt: skip
    said = [turn(command, "2024-05-08"), after]
    await summarise(reme, *(reversed(said) if told_late else said))
    assert HEALED in [m.content for m in await reme.memories.list("w")]
    found = await told(reme, "knee")
    assert found.count(HEALED) >= 2, "as a memory and as a message"
    assert before["content"] not in found


async def test_what_is_forgotten_and_said_again_is_remembered(reme: Engine) -> None:
    await summarise(reme, turn("I eat fish every Friday.", "2024-05-01"))
    again = turn("I eat fish every Friday.", "2024-05-09")
    await summarise(reme, turn("Please forget that I eat fish.", "2024-05-08"), again)
    assert [m.content for m in await reme.memories.list("w")] == ["I eat fish every Friday."]


async def test_who_has_no_name_forgets_nothing_of_others(reme: Engine) -> None:
    await say(reme, Message(content="My salary is 40,000 dollars.", author="bob"), SALARY)
    await say(reme, FORGET, session="t")
    assert [text for text in await told(reme) if "My" in text] == ["My salary is 40,000 dollars."] * 2


async def test_metadata_of_a_caller_replaces_no_note_of_memory(reme: Engine) -> None:
    await say(reme, SALARY)
    (quote,) = await reme.memories.list("w")
    await reme.memories.update("w", quote.memory_id, metadata={"checked": "by hand"})
    await reme.memories.delete("w", quote.memory_id)
    assert await told(reme) == []
    with pytest.raises(NotFoundError, match="restore it before you change it"):
        await reme.memories.update("w", quote.memory_id, metadata={"checked": "twice"})
    assert await told(reme) == []
