"""`Working`: working memory, which keeps a long task within its model's window and gives back what left it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field

from reme_core.errors import InputError
from reme_core.models import ChatModel
from reme_core.postgres.database import Database
from reme_core.prompts.transcript import language
from reme_core.settings import Settings, WorkingSettings
from reme_core.store.artifacts import Artifact, Artifacts, Match, Piece, StoredArtifact, stored_text
from reme_core.store.logs import logging_for_workspace
from reme_core.text.chat_format import MessageLike, read_messages
from reme_core.types import Message
from reme_core.working.compact import SUMMARY, Placed, Turns, summary_message, transcript_of
from reme_core.working.offload import BARE, Style, handles_in, is_excerpt, offload
from reme_core.working.summary import summarise_turns
from reme_core.working.window import CountTokens, WindowUse, check_context, tokenizer_of

Mode = Literal["auto", "compact", "compress"]
"""`compact` only offloads outputs of tools, `compress` also summarises old turns, `auto` does so in a full window."""

# To Postgres `\b` is a backspace, and `\B` a backslash; it writes the edge of a word, and no edge, in its own way.
_EDGES = {r"\b": r"\y", r"\B": r"\Y"}
_SMALL = 8  # one output, and the summary, may each take an eighth of the window
_TOOLS, _TALK = ("tool",), ("assistant", "user")
_LEAST = 64  # tokens below which no message is shortened, however full the window is; chosen, not measured


class Fitted(BaseModel):
    """A conversation that fits a window.

    Attributes:
        messages: What the model is to see.
        places: For each of these messages, its index among the given ones; -1 is the summary of the missing ones.
        before: How full the window would be with the given messages.
        use: How full it is with `messages`.
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
        # An eighth of a small window, so that several outputs fit.
        return min(self.settings.offload_from, self.window // _SMALL)

    def use(self, view: Sequence[Placed]) -> WindowUse:
        """How full the window is."""
        seen = [message for _, message in view]
        return check_context(seen, self.window, count_tokens=self.style.count, reserve=self.reserve)

    def is_full(self, view: Sequence[Placed]) -> bool:
        """Whether more of the window is taken than `working.compact_from`."""
        return self.use(view).share > self.settings.compact_from

    def squeeze(self, view: list[Placed], given: Sequence[Message]) -> tuple[list[Placed], list[Artifact]]:
        """Shorten messages until the window is not full: what people and the agent said above the limit, then more.

        Under ever smaller limits, outputs of tools are shortened first, and then what was said. If all of that does not
        fit the window, only the handles of outputs are left.
        """
        limit = self.limit
        smaller = [limit >> halved for halved in range(1, limit.bit_length()) if limit >> halved >= _LEAST]
        made: list[Artifact] = []
        steps = [(roles, most) for roles in (_TOOLS, _TALK) for most in smaller]
        for roles, most in ((_TALK, limit), *steps, (_TOOLS, BARE)):
            if not self.is_full(view) or (most == BARE and self.use(view).share <= 1):
                break
            places = [place for place, _ in view]
            # Always from what was given: the handle of a shorter excerpt is that of the whole text, too.
            whole = [given[n] if n != SUMMARY and message.role in roles else message for n, message in view]
            # What was given as an excerpt, and the summary, name a handle, which would be lost.
            short = {n for n, one in enumerate(whole) if places[n] == SUMMARY or is_excerpt(one.content)}
            done = offload(whole, self.session_id, most, self.style, roles=roles, passed_over=short)
            view, made = list(zip(places, done.messages, strict=True)), [*made, *done.artifacts]
        return view, made


class Working:
    """The working memory of all workspaces; every method takes the workspace.

    ```python
    fitted = await reme.working.fit("acme", messages, session_id="task-1", window=16_000)
    answer = await model(fitted.messages)
    ```
    """

    def __init__(
        self, database: Database, settings: Settings, chat: ChatModel | None, start_worker: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._chat = chat
        self._artifacts = Artifacts(database)
        self._start_worker = start_worker  # when something was stored that a worker has to delete one day
        self._redacted = tuple(database.settings.redact)

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
        """Make a conversation fit a window. Whatever leaves the window is stored first, and can be read back in full.

        Long outputs of tools are replaced by their beginning, their end and a handle. If the rest still takes more than
        `working.compact_from` of the window, a summary replaces old turns; it takes at most one call of the chat model.
        System prompts and the user's last request stay. A tool call and its result stay or leave together.

        Give the whole conversation each time, or the last result with the messages since. The same messages give the
        same result, without a model.

        Args:
            workspace: The workspace of the task.
            messages: The conversation: `Message`s, or `{"role": …, "content": …}` as chat APIs take them.
            window: How many tokens the model takes.
            session_id: The id of the conversation.
            count_tokens: The model's own tokenizer; by default an estimate that is rather too high than too low.
            reserve: Tokens to keep free, for example for schemas of tools and the answer.
            mode: What may be done; see `Mode`.
            keep_recent: How many messages at the end are not summarised.
            settings: Settings to use in place of `settings.working`.

        Raises:
            InputError: A message has no known form, the window is too small, or another argument does not fit.
            DatabaseUnavailableError: Artifacts could not be stored, so nothing has left the window.
        """
        if mode not in ("auto", "compact", "compress"):
            raise InputError(f"mode is 'auto', 'compact' or 'compress', not {mode!r}")
        if keep_recent < 0:
            raise InputError(f"keep_recent is how many messages at the end are not summarised, not {keep_recent}")
        given, working = read_messages(messages), settings or self._settings.working
        style = Style(
            tokenizer_of(count_tokens), working.head_tokens, working.tail_tokens,
            language(self._settings.language, given), self._redacted,
        )  # fmt: skip
        task = _Task(workspace, session_id, window, reserve, working, style)
        return await self._fit(task, given, mode, keep_recent)

    async def _fit(self, task: _Task, given: Sequence[Message], mode: Mode, keep_recent: int) -> Fitted:
        shortened = offload(given, task.session_id, task.limit, task.style)
        before = task.use(list(enumerate(shortened.messages)))
        # The shortened messages are quicker to count than the given ones; `saved` is the difference.
        before = before.model_copy(update={"tokens": before.tokens + shortened.saved})
        turns = Turns.of(given, shortened.messages, task.session_id)
        handles = [artifact.artifact_id for artifact in shortened.artifacts]
        # One round trip finds the stored outputs and the turns with a summary, and renews how long these are kept, and
        # those that a message names which was shortened before, here or in another conversation.
        used = [*handles, *turns.handles.values(), *handles_in(shortened.messages)]
        known = await self._artifacts.use(task.workspace, task.session_id, used)
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
            view = turns.view(cut, summary_message(stored_text(artifact.summary, self._redacted)))
        if mode == "auto":
            view, squeezed = task.squeeze(view, given)
            handles, new = [*handles, *(one.artifact_id for one in squeezed)], [*new, *squeezed]
        # If this fails, nothing leaves the window.
        if new:
            await self._artifacts.put(task.workspace, task.session_id, new)
            self._start_worker()
        return Fitted(
            messages=[message for _, message in view],
            places=[place for place, _ in view],
            before=before,
            use=task.use(view),
            offloaded=list(dict.fromkeys(handles)),
            compacted=turns.handles[cut] if cut else "",
            made=made[1].author if made else "",
        )

    async def _compact(
        self, task: _Task, turns: Turns, after: int, earlier: Message | None, *, to: float, keep_recent: int
    ) -> tuple[int, Artifact] | None:
        """Summarise the turns from the place `after` on, together with an earlier summary.

        Returns:
            The place before which everything is summarised, and the turns as an artifact; None if nothing can go.
        """
        budget = task.window // _SMALL
        fixed = [(n, m) for n, m in enumerate(turns.messages) if n < turns.lead or m.role == "system"]
        # The tokens for the latest turns, besides the messages that always stay and the summary itself.
        room = int(task.window * to) - task.use(fixed).tokens - budget
        cut = turns.next_cut(after, room, task.style.count, keep_recent=keep_recent)
        if cut is None or {place for place, _ in turns.view(cut, summary_message(""))}.issuperset(range(after, cut)):
            return None  # only the user's last request would go, and it stays
        gone = [message for message in turns.messages[after:cut] if message.role != "system"]
        gone = [earlier, *gone] if earlier else gone
        with logging_for_workspace(task.workspace):
            # Sentences get three quarters of the summary's tokens: headings and the fence take some too.
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
        return check_context(messages, window, count_tokens=count_tokens, reserve=reserve)

    async def grep(
        self, workspace: str, pattern: str, *, session_id: str = "", handle: str = "", limit: int = 20
    ) -> list[Match]:
        """Find lines of artifacts by a regular expression, in upper or lower case; the newest first.

        Args:
            workspace: The workspace.
            pattern: A regular expression of Postgres.
            session_id: The conversation whose artifacts are searched.
            handle: A single artifact to search, in place of a conversation.
            limit: How many lines to give at most.

        Raises:
            InputError: The pattern is empty, is no regular expression, or takes too long; or `limit` is negative.
            NotFoundError: There is no artifact with this handle.
        """
        pattern = re.sub(r"\\.", lambda escape: _EDGES.get(escape[0], escape[0]), pattern, flags=re.DOTALL)
        return await self._artifacts.grep(workspace, pattern, session_id=session_id, handle=handle, limit=limit)

    async def read(self, workspace: str, handle: str, *, offset: int = 0, size: int = 6_000) -> Piece:
        """A piece of an artifact: `size` characters from the character `offset` on, counted from 0.

        Raises:
            NotFoundError: There is no artifact with this handle.
            InputError: `offset` is not within the artifact, or `size` is negative.
        """
        return await self._artifacts.read(workspace, handle, offset=offset, size=size)

    async def artifacts(self, workspace: str, session_id: str = "") -> list[StoredArtifact]:
        """The artifacts of a conversation, oldest first."""
        return await self._artifacts.of_session(workspace, session_id)

    async def erase(self, workspace: str, session_id: str = "") -> int:
        """Erase the artifacts of a conversation; returns their number."""
        return await self._artifacts.erase(workspace, session_id)
