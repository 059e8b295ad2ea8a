"""`Engine`: the open memory, put together from the store, the models, the flows and the background work."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from reme_core.episodes.api import Episodes
from reme_core.errors import NotFoundError, ReMeError
from reme_core.flows.catalog import Catalog
from reme_core.flows.deps import Deps
from reme_core.flows.execute import Flows, Response
from reme_core.jobs.queue import Background
from reme_core.jobs.report import Summary
from reme_core.models import ChatModel, Reranker
from reme_core.models.agent_chat import AgentChat
from reme_core.models.registry import chat_models, embedder, reranker, unused_models
from reme_core.postgres.database import Database, check_workspace
from reme_core.postgres.sql_engine import sql_engine
from reme_core.prompts import read_texts
from reme_core.settings import Settings
from reme_core.spool.all import Spools
from reme_core.store.erasure import erase_messages
from reme_core.store.filters import FilterOptions, Filters
from reme_core.store.index.embedders import WorkspaceModels
from reme_core.store.index.upkeep import Indexing
from reme_core.store.items import Items
from reme_core.store.logs import LogWriter
from reme_core.store.memories import Memories
from reme_core.store.messages import conversation, record
from reme_core.store.profile import Profile, get_profile
from reme_core.store.recall import Recall, Vector
from reme_core.store.recall_sql import Plan
from reme_core.store.rows import check_scope, within_scope
from reme_core.store.workspaces import Workspaces
from reme_core.text.chat_format import MessageLike, read_messages
from reme_core.text.framework_messages import from_frameworks
from reme_core.text.secrets import rules_of
from reme_core.text.timex import AskedTime
from reme_core.tools.api import Tools
from reme_core.types import Message, Recollection, Scope, TimeRange
from reme_core.working.api import Working

if TYPE_CHECKING:
    from sqlalchemy import Engine as SqlEngine

log = logging.getLogger(__name__)

_ANSWER_SECONDS = 2.0  # a closing engine takes a database that needs longer to answer for unavailable
_LAST_SECONDS = 30.0  # how long a closing engine waits for work that has begun


class Engine:
    """An open memory. It belongs to the event loop that it is opened in.

    Services, which own their loop, use it directly; `AsyncReMe` and `ReMe` run one in a loop of the library's own. It
    has the parts of an `AsyncReMe`, which says what they are, and some more.

    Attributes:
        recall_steps: What `recall` does, also step by step: a question, then its answer.
        background: The queue of background work, and the worker in this process.
        flows: The flows there are; `execute` runs one.
        chat: The chat model, or None where the offline rules serve.
        reranker: The reranker, or None.
        spools: Where turns wait to be recorded; erasing reaches them too.
    """

    def __init__(self, settings: Settings | None = None, *, chat: AgentChat | None = None, **overrides: Any) -> None:
        """Say what to open; see `AsyncReMe`."""
        self.settings = Settings.with_overrides(settings, overrides)
        self.chat: ChatModel | None = None
        self.reranker: Reranker | None = None
        self._agent_chat = chat
        self.spools = Spools(self.settings)
        self._database: Database | None = None

    async def open(self) -> Self:
        """Connect, starting the embedded server where no database is named; see `AsyncReMe.open` for its errors."""
        if self._database is None:
            catalog = await asyncio.to_thread(self._read_files)  # first, so that mistakes in the settings show at once
            rules_of(tuple(self.settings.redact))  # raises if `redact` names an unknown kind of secret
            database = await Database.open(self.settings)
            try:
                self._assemble(database, catalog)
            except BaseException:
                await database.close()
                raise
            self._database = database  # last, since it says that the engine is open
        return self

    def _read_files(self) -> Catalog:
        # `langgraph dev` makes an error of each file that is read in an event loop, also in ours.
        # These import the SDK that they call.
        chats, _, _ = chat_models(self.settings), embedder(self.settings), reranker(self.settings)
        read_texts(with_prompts=bool(chats) or self._agent_chat is not None)
        return Catalog(self.settings)

    def _assemble(self, database: Database, catalog: Catalog) -> None:
        self.log_writer = LogWriter(database)
        noted = self.log_writer.log_call
        default = embedder(self.settings, on_call=noted)
        models = self._workspace_models = WorkspaceModels(database, default, on_call=noted)
        self._chats = chat_models(self.settings, on_call=noted)
        if self._agent_chat is not None:
            # The agent made it before there was a log.
            self._agent_chat.on_call = noted
            self._chats["default"] = self._agent_chat
        self.chat = self._chats.get("default")
        for problem in unused_models(self.settings):
            log.warning("%s", problem)
        self.reranker = reranker(self.settings, on_call=noted)
        self._indexing = Indexing(database, models)
        self.recall_steps = Recall(database, models, self._indexing, self.log_writer)
        self.background = Background(
            database,
            self.settings.worker,
            summarise=self._summarise,
            reflect=self._reflect,
            learn=lambda workspace: self.episodes.lessons.make_waiting(workspace),  # noqa: PLW0108 - made below
            embed=self._indexing.embed_everywhere,
            has_chat=self.chat is not None,
        )
        queue = self.background.queue_waiting
        on_erase = partial(self.spools.erase_words, queue=queue)
        self.memories = Memories(database, models, on_growth=self._indexing.schedule_upkeep, on_erase=on_erase)
        self.workspaces = Workspaces(database, models, on_clear=self.spools.clear, on_copy=queue)
        deps = Deps(
            database, self.memories, self.workspaces, self.recall_steps, models, self.log_writer, self.settings,
            self._chats, self.chat, self.reranker, self.settings.language or "auto",
            start_worker=self.background.start_embedded,
        )  # fmt: skip
        self.flows = Flows(catalog, deps)
        self.tools = Tools(database, self.execute)
        self.items = Items(database)
        self.working = Working(database, self.settings, self.chat, self.background.start_embedded)
        embed, later = self._indexing.embed_soon, self.background.queue_lessons
        self.episodes = Episodes(database, self.settings, self.chat, embed, self.flows.execute, later)

    async def aclose(self) -> None:
        """Finish what runs in the background, write the logs, and give all connections back."""
        # First, so that a second call does nothing and no new work begins.
        database, self._database = self._database, None
        if database is None:
            return
        try:
            # An unavailable database takes no more writes, so there is nothing to wait for.
            patience = _LAST_SECONDS if await database.answers(within=_ANSWER_SECONDS) else 0
            # Jobs first, since they make vectors and log entries; then these; then the models, which all use.
            await self.background.aclose(self.settings.worker.stop_seconds + 1 if patience else 0)
            await self._indexing.aclose(patience)
            await self.items.aclose(patience)
            await self.log_writer.aclose(patience)
            await self._workspace_models.aclose()
            for model in (*self._chats.values(), self.reranker):
                if model is not None:
                    await model.aclose()
        finally:
            await database.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    @property
    def is_open(self) -> bool:
        """Whether the engine is open."""
        return self._database is not None

    @property
    def database(self) -> Database:
        """The open database.

        Raises:
            ReMeError: It is not open.
        """
        if self._database is None:
            raise ReMeError("this engine is not open: use `async with Engine() as engine`, or await engine.open()")
        return self._database

    async def execute(self, flow: str, /, **request: Any) -> Response:
        """Run a flow, such as `retrieve_task_memory`; `reme flows` lists them.

        Args:
            flow: Its name.
            request: What it takes: `workspace_id`, `query`, `trajectories` …

        Raises:
            FlowError: There is no such flow; the message suggests the nearest name.
            InputError: A field that the flow requires is missing, or a value does not fit.
        """
        return await self.flows.execute(flow, request)

    async def recall(
        self,
        /,
        workspace: str,
        query: str,
        *,
        kind: str | Sequence[str] | None = None,
        limit: int = 10,
        min_relevance: float = 0.0,
        embedding: Vector | None = None,
        fusion: Literal["convex", "rrf"] | None = None,
        type_weights: Mapping[str, float] | None = None,
        time: TimeRange | Literal["query"] | None = "query",
        now: datetime | None = None,
        timezone: str | None = None,
        current_session: str = "",
        flow: str = "",
        **filters: Unpack[FilterOptions],
    ) -> Recollection:
        """Find what a workspace remembers about a query, by meaning and by words, in one SQL statement.

        Args:
            workspace: Where to look.
            query: What to look for, in any language.
            kind: A kind, a family of kinds (`personal`, `task`, `tool`) or several; `conversation` are the raw
                messages. Default: all memories. Memories and messages together are ordered by `Hit.relevance`.
            limit: How many hits, at most 1,000. There are fewer where fewer memories pass the filters and say something
                of their own, or fewer messages that nobody asked to forget; and none below `min_relevance`.
            min_relevance: Give no hits if the recollection's `relevance`, the chance that anything fits, is below this.
                docs/retrieval.md says what a threshold keeps and what it loses.
            embedding: The vector of the query, if the caller has it.
            fusion: How to mix the two legs; default from the settings.
            type_weights: Factors for kinds, such as `{"insight": 2.0}`; other kinds have the factor 1.
            time: The time asked about; memories of that time come first. By default it is read from the query ("What
                did we discuss last Tuesday?", "three chats ago", 五月去了哪里); None ignores it.
            now: The moment of the question; default is the present.
            timezone: IANA name of the asker's time zone; default from the settings.
            current_session: The conversation that asks; "three chats ago" skips it.
            flow: The name of the caller in the retrieval log.
            filters: `subject`, `status`, `known`, `happened`, `as_of`, `held_at`, `metadata`, `min_stored_score`,
                `author`, `session_id`, `user_id`, `agent_id`, `run_id` and `without`; see `FilterOptions`.

        Raises:
            InputError: The query is empty, a filter does not fit, or the time zone is unknown.
            EmbeddingModelError: The model that made the workspace's vectors cannot be reached from here.
        """
        zone = timezone or self.settings.timezone
        asked = AskedTime.of(time, query, now=now, timezone=zone, current_session=current_session)
        return await self.recall_steps(
            workspace, query,
            Filters.of(kind=kind, **filters),
            Plan(fusion, type_weights or {}),
            limit=limit, min_relevance=min_relevance, embedding=embedding, time=asked, flow=flow,
            session_id=current_session,
        )  # fmt: skip

    async def record(
        self,
        workspace: str,
        messages: MessageLike | Sequence[MessageLike],
        *,
        session_id: str = "",
        wait: bool = False,
        **scope: Unpack[Scope],
    ) -> list[Message]:
        """Store what was said, durably; a message whose id is stored already is skipped.

        A stored id with other words, in the same session, is an edited message: recall finds the new words, and the
        metadata keeps the old ones (`former`) unless the new ones begin with them. A memory that is the old words, word
        for word, expires. In another session it is no edit: it is skipped, and the log warns of it.

        When it returns, the messages are committed and their words can be found. Their vectors follow in the
        background, or before it returns with `wait`. A queued job makes memories of the conversation when it pauses
        (`settings.worker`); `summarise` does that at once.

        Args:
            workspace: Whose memory it is.
            messages: One or several, in order: `Message`s, or `{"role": …, "content": …}` as chat APIs take them, with
                content parts and tool calls, or messages of LangChain, AutoGen, AgentScope or LlamaIndex. A message
                without an id is new each time that it is recorded.
            session_id: The conversation, for messages that do not name it themselves.
            wait: Return only when the vectors are there too, or the model could not make them: then they follow later.
            scope: The `user_id`, `agent_id` and `run_id` of messages that do not name them. Memories that are made of
                the messages inherit them.

        Returns:
            The messages that were new or edited.

        Raises:
            InputError: One of them is not a message, or Postgres cannot store it. None was stored.
        """
        said = read_messages(from_frameworks(messages))
        said = [m if m.session_id else m.model_copy(update={"session_id": session_id}) for m in said]
        said = within_scope(said, scope)
        if not said:
            return []
        # The job is queued in the transaction that stores the messages, so that neither exists without the other.
        fresh = await record(
            self.database, workspace, said, within=lambda conn, new: self.background.queue(conn, workspace, new)
        )
        self.background.start_embedded()
        embedded = self._indexing.embed_soon(workspace)
        if wait:
            await embedded.wait()
        return fresh

    async def messages(self, workspace: str, session_id: str) -> list[Message]:
        """The messages of one conversation as they were recorded, in order; erased ones are left out."""
        return await conversation(self.database, workspace, session_id)

    async def erase_messages(self, workspace: str, message_ids: str | Sequence[str]) -> int:
        """Erase what messages said, and every memory that rests on one of them, from the database and the spools.

        The messages stay as empty rows, so that recording them again adds nothing.

        Returns:
            How many of the messages were erased, stored ones and waiting ones.

        Raises:
            NotFoundError: None of them exists, or all were erased before.
        """
        ids = [message_ids] if isinstance(message_ids, str) else message_ids
        # The spools first: a message that they deliver after the erasure in the database would come back.
        waiting = await self.spools.erase(workspace, ids)
        gone = await erase_messages(self.database, workspace, ids, waiting) | {m.message_id for m in waiting}
        if ids and not gone:
            told = ", ".join(map(repr, ids))
            raise NotFoundError(f"nothing was erased: no message {told} of workspace '{workspace}' says anything")
        return len(gone)

    async def retrieve(
        self,
        /,
        workspace: str,
        query: str,
        *,
        kind: Literal["personal", "task", "tool"] = "personal",
        top_k: int = 5,
        **more: Any,
    ) -> Response:
        """Find what helps with a query, as a note for an agent: the flow `retrieve_<kind>_memory`.

        Args:
            workspace: Where to look.
            query: What is asked.
            kind: What the note is made of: `personal`, `task` or `tool`. `recall` takes single kinds.
            top_k: How many memories to give at most.
            more: What else the flow takes, such as `now`, `as_of` or `token_budget`.

        Raises:
            InputError: The query is empty, or another argument does not fit.
        """
        flow = self.flows.catalog.get(f"retrieve_{kind}_memory")
        flow.refuse_unknown(more)
        # To a flow the empty name is the workspace `default`, which all share.
        return await self.execute(flow.name, workspace_id=check_workspace(workspace), query=query, top_k=top_k, **more)

    async def engine(self, workspace: str, *, write: bool = False) -> SqlEngine:
        """A SQLAlchemy engine whose connections stand in one workspace; with `reme_core.tables`, SQL from Python.

        Args:
            workspace: The workspace whose rows it sees.
            write: Whether it may also write; by default Postgres refuses that.

        Raises:
            InputError: The name cannot be that of a workspace.
        """
        return sql_engine(self.database, workspace, write=write)

    async def get_profile(self, workspace: str, *, subject: str | None = None, **scope: Unpack[Scope]) -> Profile:
        """The standing wishes and stable facts of a workspace, which every note begins with."""
        return await get_profile(self.database, workspace, subject=subject, **scope)

    async def summarise(self, workspace: str) -> Summary:
        """Make memories, now, of every conversation that waits for it, and return when that is done.

        Those whose summary was given up, since it had failed too often, are tried again.

        Returns:
            Which conversations were summarised, which failed and why, and which wait for a process with a chat model.

        Raises:
            InputError: That is no name of a workspace.
            ReMeError: All of them failed. Nothing is lost: they are tried again later.
        """
        return await self.background.summarise_waiting(check_workspace(workspace))

    async def _summarise(self, workspace: str, session_id: str | None) -> Mapping[str, int]:
        made = await self.execute("summary_personal_memory", workspace_id=workspace, session_id=session_id)
        return Counter(refused["reason"] for refused in made.metadata.get("refused", ()))

    async def reflect(self, workspace: str, **scope: Unpack[Scope]) -> Response:
        """Make higher memories: form and update insights, with a chat model.

        It reads only memories of this `user_id`, `agent_id` and `run_id`; a name that is not given is empty.
        """
        return await self.execute("reflect", workspace_id=check_workspace(workspace), **check_scope(scope))

    async def _reflect(self, workspace: str) -> None:
        for scope in await self.memories.scopes(workspace):
            await self.reflect(workspace, **scope)
