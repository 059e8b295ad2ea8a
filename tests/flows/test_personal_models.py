"""Personal memory with a chat model, over real HTTP: what it may decide, and what it is not believed."""

# ruff: noqa: E501 -- examples read better whole

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from reme_core.app import AsyncReMe
from reme_core.errors import ModelUnavailableError
from reme_core.prompts import prompt
from reme_core.schema import Kind, Memory
from reme_core.store.filters import Filters
from tests.loopback import Loopback

Json = dict[str, Any]
Flow = Any

_ASKS = {
    "info_filter": ("Give every message a score", "给每条消息打分"),
    "get_observation_with_time": ("They speak of times", "话里提到了时间"),
    "get_observation": ("You note what people say about themselves.", "你记下人们关于自己说的话。"),
    "contra_repeat": ("Below each new statement", "每条新陈述"),
    "get_reflection_subject": ("Sides of this person", "已经写过的方面"),
    "update_insight": ("The side:", "方面："),
    "extract_time": ("The question:", "问题是："),
}


def op_of(body: Json) -> str:
    text = "\n".join(message["content"] for message in body["messages"])
    return next(name for name, marks in _ASKS.items() if any(mark in text for mark in marks))


def answering(**answers: Json | Callable[[str], Json]) -> Callable[[Json], Json]:
    def answer(body: Json) -> Json:
        given = answers.get(op_of(body), {})
        text = body["messages"][1]["content"]
        if op_of(body) == "info_filter" and not given:
            return {"scores": []}
        if op_of(body) == "contra_repeat" and not given:
            return {"relations": []}
        return given(text) if callable(given) else given or {"observations": []}

    return answer


def observed(content: str, evidence: list[int], quote: str = "", **more: Any) -> Json:
    return {"content": content, "evidence": evidence, "quote": quote, **more}


def turn(content: str, day: str = "2024-05-06", role: str = "user") -> Json:
    return {"role": role, "content": content, "time_created": f"{day} 09:00:00"}


async def summarise(reme: AsyncReMe, *turns: Json) -> Any:
    return await reme.execute("summary_personal_memory", workspace_id="w", trajectories=[{"messages": list(turns)}])


async def contents(reme: AsyncReMe, status: str | None = "active") -> list[str]:
    found = await reme.memories.list("w", Filters(status=status))  # type: ignore[arg-type]
    return sorted(m.content for m in found)


async def test_the_coffee_example_with_a_model(reme_with_chat: AsyncReMe, loopback: Loopback) -> None:
    coffee = {
        "observations": [
            observed("用户喜欢早上喝咖啡工作", [1], "我喜欢早上喝咖啡工作", attribute="taste", value="喝咖啡")
        ]
    }
    loopback.chat(answering(get_observation=coffee, get_observation_with_time=coffee))
    await summarise(reme_with_chat, turn("我喜欢早上喝咖啡工作"), turn("好的", role="assistant"))
    [memory] = await reme_with_chat.memories.list("w")
    assert (memory.content, memory.author) == ("用户喜欢早上喝咖啡工作", "loop-chat")
    assert memory.sources[0].quote == "我喜欢早上喝咖啡工作"
    before = len(loopback.bodies("/chat/completions"))
    response = await reme_with_chat.execute(
        "retrieve_personal_memory", workspace_id="w", query="用户的工作习惯是什么？"
    )
    assert "咖啡" in response.answer
    assert len(loopback.bodies("/chat/completions")) == before, "retrieval waits for no chat model"


async def test_the_filter_sees_people_only_and_drops_low_scores(reme_with_chat: AsyncReMe, loopback: Loopback) -> None:
    scores = {"scores": [{"number": n, "score": 3 if n == 2 else 0} for n in (1, 2, 3, 4)]}
    loopback.chat(
        answering(info_filter=scores, get_observation={"observations": [observed("The user likes tea", [1])]})
    )
    long = "For me it has been tea, always tea. " + "x" * 150 + " MIDDLE " + "y" * 150
    await summarise(
        reme_with_chat,
        turn("Tea grows in China."),
        turn("ASSISTANT", role="assistant"),
        turn(long),
        turn("Rice grows there, too."),
        turn("It rains a lot in the south."),
        turn("What is tea?"),
        turn("Hello! Thank you."),
        turn("I like jam."),
    )
    asked = {op_of(b): b["messages"][1]["content"] for b in loopback.bodies("/chat/completions")}
    assert "[2] For me" in asked["info_filter"] and "MIDDLE" not in asked["info_filter"]
    for by_rule in ("ASSISTANT", "What is tea", "Hello", "jam"):
        assert by_rule not in asked["info_filter"], "the model is asked only where rules can't tell"
    assert "grows in China" not in asked["get_observation"]
    assert "MIDDLE" in asked["get_observation"]
    assert await contents(reme_with_chat) == ["The user likes jam", "The user likes tea"]
    loopback.reset()
    loopback.chat(answering(info_filter=scores))
    await summarise(reme_with_chat, turn("Coffee grows in Brazil."))
    asked = {op_of(b): b["messages"][1]["content"] for b in loopback.bodies("/chat/completions")}
    assert "info_filter" not in asked and "Brazil" in asked["get_observation"], "a few messages are read at once"


async def test_what_the_evidence_does_not_bear_out_is_refused(reme_with_chat: AsyncReMe, loopback: Loopback) -> None:
    invented = [
        observed("The user likes tea", [1]),
        observed("The user likes tea with Anna", [1]),
        observed("The user drinks 5 cups of tea", [1]),
        observed("The user enjoys climbing mountains", [1]),
        observed("The user likes tea", [7]),
        observed("用户喜欢喝茶", [1]),
        observed("Does the user like tea?", [1], kind="instruction"),
        observed("", [1]),
    ]
    loopback.chat(answering(get_observation={"observations": invented}))
    await summarise(reme_with_chat, turn("I like tea."))
    assert await contents(reme_with_chat) == ["The user likes tea"]


async def test_fiction_and_questions_make_no_facts_even_if_the_model_says_so(
    reme_with_chat: AsyncReMe, loopback: Loopback
) -> None:
    loopback.chat(answering(get_observation={"observations": [observed("The user lives in Rome", [1])]}))
    await summarise(reme_with_chat, turn("In my novel I live in Rome."))
    assert loopback.bodies("/chat/completions") == []
    await summarise(reme_with_chat, turn("Do I live in Rome?"))
    assert await contents(reme_with_chat, None) == []


async def test_times_are_reckoned_from_the_message_and_shown_to_the_model(
    reme_with_chat: AsyncReMe, loopback: Loopback
) -> None:
    seen = {"observations": [observed("The user visited the zoo yesterday", [1], "I visited the zoo yesterday")]}
    loopback.chat(answering(get_observation_with_time=seen))
    await summarise(reme_with_chat, turn("I visited the zoo yesterday."))
    [zoo] = await reme_with_chat.memories.list("w")
    assert zoo.content == "The user visited the zoo yesterday (2024-05-05)"
    assert zoo.valid_from == datetime(2024, 5, 5, tzinfo=UTC)
    timed = next(b for b in loopback.bodies("/chat/completions") if op_of(b) == "get_observation_with_time")
    assert "2024-05-06 Monday" in timed["messages"][1]["content"]


async def test_the_model_judges_where_rules_are_not_certain(reme_with_chat: AsyncReMe, loopback: Loopback) -> None:
    loopback.chat(answering(get_observation={"observations": [observed("The user commutes by car", [1])]}))
    await summarise(reme_with_chat, turn("I commute by car."))
    loopback.chat(
        answering(
            get_observation={"observations": [observed("The user takes the train to the office", [1])]},
            contra_repeat={"relations": [{"new": 1, "old": 1, "relation": "contradicts"}]},
        )
    )
    await summarise(reme_with_chat, turn("I take the train to the office these days.", "2024-08-01"))
    assert await contents(reme_with_chat) == ["The user takes the train to the office"]
    assert await contents(reme_with_chat, "superseded") == ["The user commutes by car"]


async def test_the_rules_fill_in_what_the_model_overlooks_and_count_a_message_once(
    reme_with_chat: AsyncReMe, loopback: Loopback
) -> None:
    loopback.chat(
        answering(
            info_filter={"scores": [{"number": 1, "score": 0}]},
            get_observation={"observations": [observed("The user likes tea", [1])]},
        )
    )
    await summarise(reme_with_chat, turn("I live in Bern. I like tea."))
    made = await reme_with_chat.memories.list("w")
    assert {(m.content, m.author, m.seen_count) for m in made} == {
        ("The user likes tea", "loop-chat", 1),
        ("The user lives in Bern", "rules", 1),
    }


async def test_of_two_things_in_one_statement_each_is_remembered_on_its_own(
    reme_with_chat: AsyncReMe, loopback: Loopback
) -> None:
    both = observed("The user's name is Ada and lives in Bern", [1], attribute="name", value="Ada")
    loopback.chat(answering(get_observation={"observations": [both]}))
    await summarise(reme_with_chat, turn("My name is Ada and I live in Bern."))
    assert await contents(reme_with_chat) == ["The user lives in Bern", "The user's name is Ada"]
    loopback.chat(answering(get_observation={"observations": [observed("The user moved to Rome", [1])]}))
    await summarise(reme_with_chat, turn("I moved to Rome.", "2024-06-01"))
    assert not any("Bern" in content for content in await contents(reme_with_chat))


async def test_a_slot_whose_value_nobody_said_closes_nothing(reme_with_chat: AsyncReMe, loopback: Loopback) -> None:
    loopback.chat(answering())
    await summarise(reme_with_chat, turn("I live in Bern."))
    guess = observed("The user enjoys long walks", [1], attribute="home", value="Rome")
    loopback.chat(answering(get_observation={"observations": [guess]}))
    await summarise(reme_with_chat, turn("I enjoy very long walks.", "2024-06-01"))
    assert "The user lives in Bern" in await contents(reme_with_chat)


async def test_a_slot_of_somebody_else_or_of_a_visit_closes_nothing(
    reme_with_chat: AsyncReMe, loopback: Loopback
) -> None:
    loopback.chat(answering())
    await summarise(reme_with_chat, turn("I live in Bern."))
    sister = observed("The user's sister lives in Vienna", [1], attribute="home", value="Vienna")
    visit = observed("The user visited Krakow yesterday", [1], attribute="home", value="Krakow")
    ended = observed("The user lives in Bern with Rex", [1], attribute="home", value="Bern", ended=True)
    for told, seen in (
        ("My sister is at home in Vienna, where she lives.", sister),
        ("I visited Krakow yesterday.", visit),
        ("Home in Bern is where Rex lives with me.", ended),
    ):
        loopback.chat(
            answering(
                info_filter={"scores": [{"number": 1, "score": 3}]},
                get_observation={"observations": [seen]},
                get_observation_with_time={"observations": [seen]},
            )
        )
        await summarise(reme_with_chat, turn(told, "2024-06-01"))
    assert any(content.startswith("The user lives in Bern") for content in await contents(reme_with_chat))
    homes = await reme_with_chat.memories.list("w", Filters(metadata={"slot": "home"}))
    assert [m.metadata["value"] for m in homes if m.metadata.get("holds", True)] == ["Bern"]


async def test_the_model_is_not_believed_where_slots_speak_against_it(
    reme_with_chat: AsyncReMe, loopback: Loopback
) -> None:
    closing = {"relations": [{"new": 1, "old": n, "relation": "contradicts"} for n in (1, 2)]}
    loopback.chat(answering(contra_repeat=closing))
    await summarise(reme_with_chat, turn("I live in Bern. I like tea."))
    await summarise(reme_with_chat, turn("I like jam.", "2024-06-01"))
    assert len(await contents(reme_with_chat)) == 3


async def test_a_model_outage_delays_memories_and_loses_none(reme_with_chat: AsyncReMe, loopback: Loopback) -> None:
    loopback.fail(503, times=10)
    with pytest.raises(ModelUnavailableError):
        await summarise(reme_with_chat, turn("I like tea."))
    assert await contents(reme_with_chat, None) == []
    loopback.reset()
    loopback.chat(answering(get_observation={"observations": [observed("The user likes tea", [1])]}))
    await reme_with_chat.execute("summary_personal_memory", workspace_id="w")
    assert await contents(reme_with_chat) == ["The user likes tea"]


async def test_insights_are_formed_updated_and_grounded(reme_with_chat: AsyncReMe, loopback: Loopback) -> None:
    await reme_with_chat.memories.add(
        "w",
        [
            Memory(content=f"The user eats {f}", kind=Kind.OBSERVATION)
            for f in ("soup", "rice", "jam", "figs", "nuts", "kale")
        ],
    )
    loopback.chat(
        answering(
            get_reflection_subject={"subjects": ["eating habits"]},
            update_insight={"content": "The user eats soup, rice and figs", "evidence": [1, 2, 3, 4, 5]},
        )
    )
    await reme_with_chat.execute("reflect", workspace_id="w")
    [insight] = await reme_with_chat.memories.list("w", Filters(kinds=["insight"]))
    assert insight.metadata["attribute"] == "eating habits"
    assert {s.kind for s in insight.sources} == {"memory"}
    await reme_with_chat.memories.add("w", Memory(content="The user eats kimchi", kind=Kind.OBSERVATION))
    loopback.chat(
        answering(get_reflection_subject={"subjects": []}, update_insight={"content": "The user owns 7 boats"})
    )
    await reme_with_chat.execute("reflect", workspace_id="w")
    assert (await reme_with_chat.memories.get("w", insight.memory_id)).status == "active", "ungrounded, so refused"


async def test_no_pair_is_put_to_the_model_by_two_reflections(reme_with_chat: AsyncReMe, loopback: Loopback) -> None:
    def asked() -> list[str]:
        bodies = loopback.bodies("/chat/completions")
        return [b["messages"][1]["content"] for b in bodies if op_of(b) == "contra_repeat"]

    told = [
        Memory(content=f"The user {does} the music of Bach every evening", kind=Kind.OBSERVATION)
        for does in ("hums", "plays", "hears")
    ]
    await reme_with_chat.memories.add("w", told)
    loopback.chat(answering())
    await reme_with_chat.execute("reflect", workspace_id="w")
    assert len(asked()) == 1
    await reme_with_chat.execute("reflect", workspace_id="w")
    assert len(asked()) == 1
    new = Memory(content="The user records the music of Bach every evening", kind=Kind.OBSERVATION)
    await reme_with_chat.memories.add("w", new)
    await reme_with_chat.execute("reflect", workspace_id="w")
    assert len(asked()) == 2
    assert asked()[1].count("New ") == 1


async def test_the_model_places_only_times_that_the_rules_cannot(
    reme_with_chat: AsyncReMe, loopback: Loopback, flow: Flow
) -> None:
    loopback.chat(answering(extract_time={"first_day": "2024-02-10", "last_day": "2024-02-12"}))
    await flow(reme_with_chat, "retrieve_personal_memory", workspace_id="w", query="What did I eat yesterday?")
    await flow(reme_with_chat, "retrieve_personal_memory", workspace_id="w", query="What do I eat?")
    assert loopback.bodies("/chat/completions") == []


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", _ASKS)
def test_every_personal_prompt_is_there_in_both_languages(name: str, language: Any) -> None:
    values = dict.fromkeys(
        ("messages", "count", "person", "attributes", "statements", "observations", "known", "most", "subject", "before",
         "now", "query"),
        "VALUE",
    )  # fmt: skip
    system, user = prompt(f"personal/{name}", language, **values)
    assert op_of({"messages": [system, user]}) == name
    assert "VALUE" in user["content"]
    assert "$" not in system["content"] + user["content"]
    assert "JSON" in system["content"] + user["content"]
