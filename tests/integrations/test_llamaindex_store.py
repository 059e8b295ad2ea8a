"""LlamaIndex's short-term memory in ours: the store of its messages answers as LlamaIndex's own does."""

from __future__ import annotations

import json
from typing import Any

from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from reme_llamaindex import ConversationStore
from sqlalchemy.ext.asyncio import create_async_engine


async def test_the_store_answers_as_the_one_of_llamaindex_does() -> None:
    engine = create_async_engine("sqlite+aiosqlite:///:memory:")
    theirs, ours = SQLAlchemyChatStore("messages", async_engine=engine), ConversationStore()
    said = [ChatMessage(role=role, content=f"{role} {n}") for n in range(4) for role in ("user", "assistant")]
    active, archived = MessageStatus.ACTIVE, MessageStatus.ARCHIVED
    calls: list[tuple[str, Any]] = [
        ("add_messages", ("a", said)),
        ("add_message", ("b", said[0])),
        ("archive_oldest_messages", ("a", 3)),
        ("add_message", ("a", said[7], archived)),
        ("delete_oldest_messages", ("a", 2)),
        ("delete_message", ("a", 7)),
        ("delete_message", ("a", 9)),  # of the other conversation
        ("delete_message", ("a", 99)),
        ("set_messages", ("b", said[:2])),
        ("delete_messages", ("a", archived)),
        ("archive_oldest_messages", ("nobody", 1)),
        ("delete_messages", ("b",)),
    ]
    for name, arguments in calls:
        assert await getattr(ours, name)(*arguments) == await getattr(theirs, name)(*arguments), name
        assert sorted(await ours.get_keys()) == sorted(await theirs.get_keys())
        for key in ("a", "b", "nobody"):
            for status in (active, archived, None):
                assert await ours.count_messages(key, status) == await theirs.count_messages(key, status)
                assert await ours.get_messages(key, status) == await theirs.get_messages(key, status), name
            page = {"limit": 2, "offset": 1}
            assert await ours.get_messages(key, **page) == await theirs.get_messages(key, **page)
    (await ours.get_messages("a"))[0].additional_kwargs["changed"] = True
    assert not (await ours.get_messages("a"))[0].additional_kwargs
    await engine.dispose()


async def test_a_store_that_is_written_down_keeps_its_conversations() -> None:
    store = ConversationStore()
    for key in ("a", "b"):
        await store.add_messages(key, [ChatMessage(role="user", content=f"{key} {n}") for n in range(3)])
    await store.archive_oldest_messages("a", 1)
    read = ConversationStore.model_validate(json.loads(json.dumps(store.model_dump())))
    assert ConversationStore.model_validate_json(store.model_dump_json()) == read == store
    for status in (MessageStatus.ACTIVE, MessageStatus.ARCHIVED):
        assert await read.get_messages("a", status) == await store.get_messages("a", status)
    assert await read.delete_message("b", 4) == await store.delete_message("b", 4)
