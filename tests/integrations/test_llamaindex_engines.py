"""Memory in LlamaIndex's chat engines, which ask a memory before they put the question into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine, SimpleChatEngine
from llama_index.core.llms import ChatMessage
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from reme_llamaindex import ReMeMemory

from reme_core import Settings
from reme_core.testing import ScriptedModel
from reme_core.turn import Position
from tests.integrations.llamaindex_driver import LlamaIndexConversation, ScriptedLLM

TOLD: Final = ("My dog Rex lives in Lisbon with my mother.", "My cat Tom sleeps in the garden shed.")
ASKED: Final = {"Where does my dog Rex live?": "Lisbon", "Where does my cat Tom sleep?": "shed"}


class OneDocument(BaseRetriever):
    """Finds the same document whatever is asked."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text="Cats are animals, and so are dogs."), score=1.0)]


ENGINES: Final[dict[str, Callable[..., Any]]] = {
    "simple": SimpleChatEngine.from_defaults,
    "context": lambda **given: ContextChatEngine.from_defaults(OneDocument(), **given),
    "condense": lambda **given: CondensePlusContextChatEngine.from_defaults(OneDocument(), skip_condense=True, **given),
}


class CompletingLLM(ScriptedLLM):
    """A model that completes a text, as many local ones do."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=False, model_name="completing")

    async def acomplete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=(await self._script.answer([("user", prompt)])).text)


@pytest.fixture
async def told(settings: Settings) -> Settings:
    for statement in TOLD:
        async with ReMeMemory(settings, "alice", write="awaited") as memory:
            await LlamaIndexConversation(ScriptedModel(), memory).say(statement)
    return settings


@pytest.mark.parametrize("position", ["user", "system"])
@pytest.mark.parametrize("kind", ENGINES)
async def test_each_question_of_an_engine_has_a_note_of_its_own(told: Settings, kind: str, position: Position) -> None:
    model = ScriptedModel()
    async with ReMeMemory(told, "alice", position=position, top_k=1, write="awaited", kinds=["conversation"]) as memory:
        engine = ENGINES[kind](llm=ScriptedLLM(model), memory=memory)
        for question, fact in ASKED.items():
            await engine.achat(question)
            [(place, note)] = model.notes()
            asked = max(n for n, message in enumerate(model.prompts[-1]) if question in message.text)
            assert fact in note.text
            assert note.role == position
            assert place == 0 if position == "system" else asked - place <= 1
        assert memory.turn.counts.recalls == len(ASKED)
        assert "<memory_note" not in repr(await memory.aget())


@pytest.mark.parametrize("position", ["user", "system"])
@pytest.mark.parametrize("kind", ["context", "condense"])
async def test_a_model_that_completes_texts_sees_the_note(told: Settings, kind: str, position: Position) -> None:
    model = ScriptedModel()
    async with ReMeMemory(told, "alice", position=position, top_k=1, write="awaited", kinds=["conversation"]) as memory:
        engine = ENGINES[kind](llm=CompletingLLM(model), memory=memory)
        for question, fact in ASKED.items():
            await engine.achat(question)
            assert fact in model.last_prompt
            assert model.last_prompt.count("<memory_note") == 1
        assert "<memory_note" not in repr(await memory.aget())


async def test_a_query_of_a_retriever_is_a_question_as_well(told: Settings) -> None:
    model = ScriptedModel()
    async with ReMeMemory(told, "alice", top_k=1, write="awaited", kinds=["conversation"]) as memory:
        engine = ENGINES["context"](llm=ScriptedLLM(model), memory=memory)
        for question, fact in ASKED.items():
            await engine.achat(QueryBundle(question))
            assert fact in model.last_prompt
        assert memory.turn.counts.recalls == len(ASKED)
        assert [message.content for message in await memory.aget_all() if message.role == "user"] == list(ASKED)


@pytest.mark.parametrize("position", ["user", "system"])
async def test_an_engine_that_reads_the_history_finds_what_was_said_alone(told: Settings, position: Position) -> None:
    model = ScriptedModel()
    async with ReMeMemory(told, "alice", position=position, top_k=1, kinds=["conversation"]) as memory:
        await LlamaIndexConversation(model, memory).say("Hello.")
        question, fact = next(iter(ASKED.items()))
        history = await memory.aget(input=question)
        assert [message.content for message in history] == ["Hello.", "ok"]
        await ScriptedLLM(model).achat([*history, ChatMessage(role="user", content=question)])
    [(place, note)] = model.notes()
    assert fact in note.text
    assert place == (0 if position == "system" else 2)
    assert [message.text for message in model.prompts[-1] if message is not note] == ["Hello.", "ok", question]


async def test_a_question_that_failed_does_not_lend_its_note_to_the_next(told: Settings) -> None:
    async with ReMeMemory(told, "alice", top_k=1, kinds=["conversation"]) as memory:
        for question, fact in ASKED.items():  # as an engine whose model fails, which then puts nothing
            model = ScriptedModel()
            await ScriptedLLM(model).achat(await memory.aget(input=question))
            assert fact in model.last_prompt


async def test_a_history_given_with_a_question_is_not_what_was_asked(told: Settings) -> None:
    dog, cat = ASKED
    model = ScriptedModel()
    before = [ChatMessage(role="user", content=dog), ChatMessage(role="assistant", content="I do not know.")]
    async with ReMeMemory(told, "alice", top_k=1, kinds=["conversation"]) as memory:
        engine = ENGINES["context"](llm=ScriptedLLM(model), memory=memory)
        await engine.achat(cat, chat_history=before)
    assert ASKED[cat] in model.last_prompt


async def test_what_was_shown_before_a_run_is_not_the_question_of_the_run(told: Settings) -> None:
    dog, cat = ASKED
    model = ScriptedModel()
    async with ReMeMemory(told, "alice", top_k=1, kinds=["conversation"]) as memory:
        await memory.sql_store.add_message(memory.session_id, ChatMessage(role="user", content=dog))
        await memory.aget()  # by an application that shows the conversation
        await LlamaIndexConversation(model, memory).say(cat)
    assert ASKED[cat] in model.last_prompt
