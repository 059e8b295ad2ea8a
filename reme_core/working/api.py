"""Working memory: it keeps a long task within its model's window, and gives back what left the window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field

from reme_core.errors import InputError
from reme_core.models import ChatModel
from reme_core.postgres.database import Database
from reme_core.prompts.budget import most_tokens
from reme_core.prompts.transcript import language
from reme_core.settings import Settings, WorkingSettings
from reme_core.store.artifacts import Artifact, Artifacts, Match, Piece, StoredArtifact
from reme_core.store.logs import logging_for_workspace
from reme_core.text.chat_format import MessageLike, read_messages
from reme_core.types import Message
from reme_core.working.compact import SUMMARY, Placed, Turns, summary_message, transcript_of
from reme_core.working.offload import Excerpt, Style, handle_in, offload
from reme_core.working.summary import summarise_turns
from reme_core.working.window import CountTokens, WindowUse, check_context

Mode = Literal["auto", "compact", "compress"]
"""`compact` only offloads outputs of tools, `compress` always summarises old turns, `auto` does in a full window."""

_SMALL = 8  # an output may take an eighth of the window, and so may a summary
_TOOLS, _ALL = ("tool",), ("tool", "assistant", "user")
_LEAST = 64  # tokens below which a message is not shortened, however full the window is


class Fitted(BaseModel):
    """A conversation that fits a window.

    Attributes:
        messages: What the model is to see.
        places: For each of them, which of the given messages it is; -1 is the summary of the missing ones.
        before: How full the window would have been.
        use: How full it is.
        offloaded: The handles of shortened messages.
        compacted: The handle of the turns that a summary replaces; empty if there is no summary.
        made: Who made the summary in this call: a model, or `rules`; empty if no summary was made.
    """

    messages: list[Message]
    places: list[int]
    before: WindowUse
    use: WindowUse
    offloaded: list[str] = Field(default_factory=list)
    compacted: str = ""
    made: str = ""


@dataclass(frozen=True, slots=True)
class _Task:
    workspace: str
    session_id: str
    window: int
    reserve: int
    settings: WorkingSettings
    style: Style

    @property
    def limit(self) -> int:
        """Tokens above which the output of a tool is offloaded."""
        # In a small window an eighth of it, so that several outputs fit.
        return min(self.settings.offload_from, self.window // _SMALL)

    def use(self, view: Sequence[Placed]) -> WindowUse:
        """How full the window is."""
        seen = [message for _, message in view]
        return check_context(seen, self.window, count_tokens=self.style.count, reserve=self.reserve)

    def is_full(self, view: Sequence[Placed]) -> bool:
        """Whether more of the window is taken than `working.compact_from`."""
        return self.use(view).share > self.settings.compact_from

    def squeeze(self, view: list[Placed]) -> tuple[list[Placed], list[Artifact]]:
        """Shorten messages above the limit, then ever shorter outputs of tools, then ever shorter messages of all."""
        limit = self.limit
        smaller = [limit >> halved for halved in range(1, limit.bit_length()) if limit >> halved >= _LEAST]
        made: list[Artifact] = []
        for roles, most in ((_ALL, limit), *((_TOOLS, one) for one in smaller), *((_ALL, one) for one in smaller)):
            if not self.is_full(view):
                break
            places, seen = [place for place, _ in view], [message for _, message in view]
            # What is shortened already names a handle, and so does the summary: shortened again, they would hide it.
            short = {n for n, message in enumerate(seen) if message.role == "tool" and handle_in(message.content)}
            short |= {n for n, place in enumerate(places) if place == SUMMARY}
            done = offload(seen, self.session_id, most, self.style, roles=roles, passed_over=short)
            view, made = list(zip(places, done.messages, strict=True)), [*made, *done.artifacts]
        return view, made


class Working:
    """The working memory of all workspaces; every method names the one it works in.

    ```python
    fitted = await reme.working.fit("acme", messages, session_id="task-1", window=16_000)
    answer = await model(fitted.messages)
    ```
    """

    def __init__(self, database: Database, settings: Settings, chat: ChatModel | None) -> None:
        self._settings = settings
        self._chat = chat
        self._artifacts = Artifacts(database, settings.working.keep_days)
        self._excerpts: dict[tuple[object, ...], Excerpt] = {}

    async def fit(
        self,
        workspace: str,
        messages: Sequence[MessageLike],
        *,
        window: int,
        session_id: str = "",
        count_tokens: CountTokens | None = None,
        reserve: int = 0,
        mode: Mode = "auto",
        keep_recent: int = 0,
        settings: WorkingSettings | None = None,
    ) -> Fitted:
        """Make a conversation fit a window. What leaves it is stored first, and can be read back in full.

        Outputs of tools above a size are replaced by their beginning, their end and a handle. If the rest still takes
        more than `working.compact_from` of the window, a summary replaces old turns; a chat model is asked for it once
        at the most. System prompts and the user's last request stay, and a call of a tool stays with its result.

        Give the whole conversation each time, or the result of the last call with the messages since. The same messages
        give the same result again, without a model.

        Args:
            workspace: Whose task it is.
            messages: The conversation: `Message`s, or `{"role": …, "content": …}` as chat APIs take them.
            window: Tokens that the model takes.
            session_id: The id of the conversation.
            count_tokens: The model's own tokenizer; without it an estimate that errs on the safe side.
            reserve: Tokens that schemas of tools, the answer and the like take.
            mode: What to do; see `Mode`.
            keep_recent: Messages at the end that are not summarised.
            settings: In place of `settings.working`.

        Raises:
            InputError: A message has no form that is known, or the window is too small.
            DatabaseUnavailableError: What was to leave the window could not be stored. Nothing left it.
        """
        if mode not in ("auto", "compact", "compress"):
            raise InputError(f"mode is 'auto', 'compact' or 'compress', not {mode!r}")
        given, working = read_messages(messages), settings or self._settings.working
        style = Style(
            count_tokens or most_tokens, working.head_tokens, working.tail_tokens,
            # Excerpts are kept for the estimate only: a caller's tokenizer may be another one at each call.
            language(self._settings.language, given), self._excerpts if count_tokens is None else {},
        )  # fmt: skip
        task = _Task(workspace, session_id, window, reserve, working, style)
        return await self._fit(task, given, mode, keep_recent)

    async def _fit(self, task: _Task, given: Sequence[Message], mode: Mode, keep_recent: int) -> Fitted:
        shortened = offload(given, task.session_id, task.limit, task.style)
        before = task.use(list(enumerate(shortened.messages)))
        # Counted on the shortened messages, which is quicker than on the given ones, and then what shortening saved.
        before = before.model_copy(update={"tokens": before.tokens + shortened.saved})
        turns = Turns.of(given, shortened.messages, task.session_id)
        handles = [artifact.artifact_id for artifact in shortened.artifacts]
        # One round trip tells which outputs are stored and which turns have a summary, and keeps all of them longer.
        known = await self._artifacts.use(task.workspace, [*handles, *turns.handles.values()])
        new = [artifact for artifact in shortened.artifacts if artifact.artifact_id not in known]
        cut = turns.newest({handle for handle, summary in known.items() if summary})
        summary = summary_message(known[turns.handles[cut]]) if cut else None
        view = turns.view(cut or 0, summary)
        made = None
        if mode == "compress" or (mode == "auto" and task.is_full(view)):
            to = 0 if mode == "compress" else task.settings.compact_to
            made = await self._compact(task, turns, cut or turns.lead, summary, to=to, keep_recent=keep_recent)
        if made is not None:
            cut, artifact = made
            new.append(artifact)
            view = turns.view(cut, summary_message(artifact.summary))
        if mode == "auto":
            view, squeezed = task.squeeze(view)
            handles, new = [*handles, *(one.artifact_id for one in squeezed)], [*new, *squeezed]
        # Stored before anything leaves the window: if this fails, nothing leaves it.
        if new:
            await self._artifacts.put(task.workspace, task.session_id, new)
        return Fitted(
            messages=[message for _, message in view],
            places=[place for place, _ in view],
            before=before,
            use=task.use(view),
            offloaded=handles,
            compacted=turns.handles[cut] if cut else "",
            made=made[1].author if made else "",
        )

    async def _compact(
        self, task: _Task, turns: Turns, after: int, earlier: Message | None, *, to: float, keep_recent: int
    ) -> tuple[int, Artifact] | None:
        """Summarise the turns behind `after`, with an earlier summary; gives the place where the new one ends."""
        budget = task.window // _SMALL
        fixed = [(n, m) for n, m in enumerate(turns.messages) if n < turns.lead or m.role == "system"]
        # What is left for the latest turns, beside what always stays and the summary itself.
        room = int(task.window * to) - task.use(fixed).tokens - budget
        cut = turns.next_cut(after, room, task.style.count, keep_recent=keep_recent)
        if cut is None or {place for place, _ in turns.view(cut, summary_message(""))}.issuperset(range(after, cut)):
            return None  # only the request that is being worked at could go, and it stays
        gone = [message for message in turns.messages[after:cut] if message.role != "system"]
        gone = [earlier, *gone] if earlier else gone
        with logging_for_workspace(task.workspace):
            # The sentences get three quarters of the summary's tokens: headings and the fence take some too.
            summary = await summarise_turns(
                gone, self._chat, budget=budget * 3 // 4, most_read=task.window * 3 // 4, count=task.style.count,
                language=task.style.language, patience=task.settings.patience,
            )  # fmt: skip
        handle = turns.handles[cut]
        text = summary.as_text(handle, cut - turns.lead, task.style.language)
        source = f"{len(gone)} messages"
        return cut, Artifact(handle, "turns", source, transcript_of(gone), text, summary.author)

    async def check_context(
        self, messages: Sequence[MessageLike], *, window: int, count_tokens: CountTokens | None = None, reserve: int = 0
    ) -> WindowUse:
        """Say how full a window is, as `reme_core.check_context` does."""
        return check_context(read_messages(messages), window, count_tokens=count_tokens, reserve=reserve)

    async def grep(
        self, workspace: str, pattern: str, *, session_id: str = "", handle: str = "", limit: int = 20
    ) -> list[Match]:
        """Find lines of artifacts by a regular expression, whatever the case; the newest first.

        Args:
            workspace: Where to look.
            pattern: A regular expression, as Postgres has them.
            session_id: The conversation, all of whose artifacts are searched.
            handle: The artifact to search, in place of a conversation.
            limit: How many lines at the most.

        Raises:
            InputError: The pattern is empty, is no regular expression, or takes too long.
            NotFoundError: There is no artifact of that handle.
        """
        return await self._artifacts.grep(workspace, pattern, session_id=session_id, handle=handle, limit=limit)

    async def read(self, workspace: str, handle: str, *, offset: int = 0, size: int = 6_000) -> Piece:
        """A stretch of what left the window: `size` characters from the character `offset` (from 0) on.

        Raises:
            NotFoundError: There is no artifact of that handle.
            InputError: It does not begin within the artifact.
        """
        return await self._artifacts.read(workspace, handle, offset=offset, size=size)

    async def artifacts(self, workspace: str, session_id: str = "") -> list[StoredArtifact]:
        """What left the window of a conversation, oldest first."""
        return await self._artifacts.of_session(workspace, session_id)

    async def erase(self, workspace: str, session_id: str = "") -> int:
        """Erase all that left the window of a conversation; returns the number of artifacts."""
        return await self._artifacts.erase(workspace, session_id)
