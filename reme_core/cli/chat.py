"""`reme chat`: talk in the terminal with something that remembers, and look at what it remembers."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from reme_core.cli import output
from reme_core.cli.session import Commands, Session
from reme_core.errors import InputError, ReMeError, require_extra

if TYPE_CHECKING:
    from reme_core.engine import Engine
    from reme_core.turn.chat import Chat
    from reme_core.types import Memory

app = Commands()

Arguments = dict[str, str]
Command = Callable[["Terminal", Arguments], Awaitable[None]]


@app.command()
def chat(
    session: Session,
    workspace: Annotated[str, typer.Option("--workspace", "-w", help="Whose memory to talk with.")] = "default",
    name: Annotated[str, typer.Option(help="Your name, where several people share the memory.")] = "",
    system_prompt: Annotated[str, typer.Option(help="What the model is told to be.")] = "",
    question: Annotated[
        str | None, typer.Argument(help="Ask this and leave; without it, a conversation begins.")
    ] = None,
) -> None:
    """Talk with the memory of a workspace. /help lists the commands."""
    if session.options.as_json and question is None:
        raise InputError('--json is for single answers; give the question: reme chat --json "…"')
    asyncio.run(_run(session, workspace, name, system_prompt, question))


async def _run(session: Session, workspace: str, name: str, system_prompt: str, question: str | None) -> None:
    from reme_core.engine import Engine
    from reme_core.turn.chat import Chat

    async with Engine(session.settings) as reme:
        conversation = Chat(reme, workspace)
        terminal = Terminal(reme, conversation, name, system_prompt)
        try:
            if question is None:
                await terminal.talk()
            elif session.options.as_json:
                found = await conversation.chat_with_memory(question, role_name=name, system_prompt=system_prompt)
                session.show({"answer": found.answer, "memories": found.memories})
            else:
                await terminal.carry_out(question)
        finally:
            await conversation.aclose()


class Terminal:
    """A chat in the terminal. A line that begins with a slash is a command; any other is answered."""

    def __init__(self, reme: Engine, conversation: Chat, name: str, system_prompt: str) -> None:
        self.reme = reme
        self.chat = conversation
        self.console = output.stdout()
        self._name = name
        self._system_prompt = system_prompt
        self._streaming = True

    async def talk(self) -> None:
        """Read and answer until /exit or the end of the input."""
        with require_extra("chat"):
            from prompt_toolkit import PromptSession
            from prompt_toolkit.completion import WordCompleter
            from prompt_toolkit.history import FileHistory

        typed_before = self.reme.settings.data_dir / "chat_history"
        typed_before.parent.mkdir(parents=True, exist_ok=True)
        typed_before.touch()
        typed_before.chmod(0o600)  # what somebody types to a memory is nobody else's
        completer = WordCompleter([f"/{name}" for name in COMMANDS], sentence=True)
        prompt: PromptSession[str] = PromptSession(history=FileHistory(str(typed_before)), completer=completer)
        model = self.reme.chat.name if self.reme.chat else "no chat model; what is remembered is shown"
        self.console.print(f"Talking in workspace {self.chat.workspace} ({model}). /help, /exit", style="dim")
        while True:
            try:
                typed = (await prompt.prompt_async("› ")).strip()
            except (EOFError, KeyboardInterrupt):
                return
            if typed in ("/exit", "/quit"):
                return
            if typed:
                await self.say(typed)

    async def say(self, typed: str) -> None:
        """Run a command, or answer; print an error if that fails."""
        try:
            await self.carry_out(typed)
        except ReMeError as error:
            output.print_error(str(error), code=error.code, as_json=False)

    async def carry_out(self, typed: str) -> None:
        """Run a command, or answer."""
        if typed.startswith("/"):
            await self._command(typed[1:])
        else:
            await self._answer(typed)

    async def _answer(self, query: str) -> None:
        pieces = self.chat.stream(query, role_name=self._name, system_prompt=self._system_prompt)
        if self._streaming:
            async for piece in pieces:
                self.console.out(piece, end="")
            self.console.print()
        else:
            self.console.print(Markdown("".join([piece async for piece in pieces])))

    async def _command(self, typed: str) -> None:
        name, _, rest = typed.partition(" ")
        command = COMMANDS.get(name)
        if command is None:
            raise InputError(f"there is no /{name}; /help lists what there is")
        arguments = _parse_arguments(rest)
        seconds = arguments.pop("refresh_time", "")
        if seconds and command not in _REPEATABLE:
            raise InputError(f"refresh_time repeats commands that only show something; /{name} cannot be repeated")
        every = _read_number("refresh_time", seconds) if seconds else 0
        await command(self, arguments)
        if every:
            await self._repeat(partial(command, self, arguments), every=every)

    async def _repeat(self, show: Callable[[], Awaitable[None]], *, every: int) -> None:
        """Show something again and again, until Ctrl-C."""
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        before = signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(stopped.set))
        try:
            while not stopped.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopped.wait(), every)
                    return
                self.console.clear()
                await show()
        finally:
            signal.signal(signal.SIGINT, before)

    async def help(self, _: Arguments) -> None:
        """Lists what can be done."""
        table = Table(box=None, pad_edge=False)
        for name, command in COMMANDS.items():
            table.add_row(f"/{name}", command.__doc__ or "", style="" if name in _SHORT else "dim")
        self.console.print(table)

    async def memory(self, arguments: Arguments) -> None:
        """Lists what is remembered: /memory, /memory limit=50, or again every 5 seconds with refresh_time=5."""
        if other := " ".join(value for name, value in arguments.items() if name != "limit"):
            raise InputError(f"/list_memory takes limit and refresh_time, not '{other}'")
        limit = _read_number("limit", arguments.get("limit", "20"))
        self._show(await self.reme.memories.list(self.chat.workspace, limit=limit))

    async def retrieve(self, arguments: Arguments) -> None:
        """Shows what a question recalls, and why: /retrieve "where do I live?"."""
        query = arguments.get("query") or arguments.get("content") or ""
        limit = _read_number("limit", arguments.get("limit", "5"))
        found = await self.reme.recall(self.chat.workspace, query, limit=limit)
        self.console.print(output.hits_table(found.hits, explain=True) if found else "Nothing.")

    async def add(self, arguments: Arguments) -> None:
        """Remembers a statement: /add "I am allergic to peanuts"."""
        (memory,) = await self.reme.memories.add(self.chat.workspace, arguments.get("content", ""), actor="chat")
        again = " already" if memory.seen_count > 1 else ""
        self.console.print(f"Remembered{again} as {memory.memory_id}.")

    async def delete(self, arguments: Arguments) -> None:
        """Takes a memory out of use, by its id as /memory shows it, or by its exact text: /delete "I like tea"."""
        self.console.print(f"{await self._remove(arguments, erase=False)} deleted; the history keeps it.")

    async def erase(self, arguments: Arguments) -> None:
        """Erases a memory and every trace of its text: /erase ID."""
        self.console.print(f"{await self._remove(arguments, erase=True)} erased.")

    async def delete_all(self, arguments: Arguments) -> None:
        """Deletes everything that is remembered in this workspace, when you say yes; /delete_all yes does not ask."""
        found = await self.reme.memories.list(self.chat.workspace, limit=_ALL)
        if arguments.get("content") != "yes" and not await self._agrees(f"Delete all {len(found)} memories?"):
            self.console.print("Nothing was deleted.")
            return
        ids = [memory.memory_id for memory in found]
        count = await self.reme.memories.delete(self.chat.workspace, ids, actor="chat", reason="all were deleted")
        self.console.print(f"{count} deleted; the history keeps them.")

    async def _agrees(self, question: str) -> bool:
        if not sys.stdin.isatty():
            raise InputError("there is nobody to ask; write /delete_all yes")
        with require_extra("chat"):
            from prompt_toolkit import PromptSession

        prompt: PromptSession[str] = PromptSession()  # a thread in `input` would not end at Ctrl-C
        try:
            return (await prompt.prompt_async(f"{question} [y/N] ")).strip().lower() in ("y", "yes")
        except (EOFError, KeyboardInterrupt):
            return False

    async def read_message(self, _: Arguments) -> None:
        """Shows what was said in this conversation."""
        for message in self.chat.history:
            self.console.print(Text.assemble((message.author or message.role, "bold"), f": {message.content}"))

    async def profile(self, _: Arguments) -> None:
        """Shows standing wishes and stable facts, which the model is given for every answer."""
        self._show((await self.reme.get_profile(self.chat.workspace)).memories)

    async def why(self, _: Arguments) -> None:
        """Shows which memories shaped the last answer."""
        if self.chat.last is None or not self.chat.last.memories:
            self.console.print("Nothing was answered yet." if self.chat.last is None else "No memory shaped it.")
            return
        for memory in self.chat.last.note.standing:
            self.console.print(Text.assemble(("always ", "green"), output.memory_text(memory)))
        if self.chat.last.note.hits:
            self.console.print(output.hits_table(self.chat.last.note.hits, explain=True))

    async def consolidate(self, _: Arguments) -> None:
        """Makes memories now of what was said."""
        await self.reme.summarise(self.chat.workspace)
        await self.memory({})

    async def reflect(self, _: Arguments) -> None:
        """Forms insights from memories, and updates them."""
        self.console.print((await self.reme.reflect(self.chat.workspace)).answer or "Nothing new.")

    async def clear(self, _: Arguments) -> None:
        """Begins a new conversation; the memory stays."""
        self.chat.clear()
        self.console.clear()

    async def stream(self, _: Arguments) -> None:
        """Switches between answers that appear as they are made, and whole ones."""
        self._streaming = not self._streaming
        self.console.print(f"Streaming is {'on' if self._streaming else 'off'}.")

    async def _remove(self, arguments: Arguments, *, erase: bool) -> int:
        from reme_core.store.filters import Filters
        from reme_core.types import Status

        wanted = arguments.get("memory_id") or arguments.get("content") or ""
        # What was deleted can still be erased: its text is in the history.
        within = Filters(status=None if erase else Status.ACTIVE)
        found = await self.reme.memories.list(self.chat.workspace, within, limit=_ALL)
        ids = [m.memory_id for m in found if wanted in (m.memory_id, m.content)]
        if not ids and len(wanted) >= _SHOWN_ID:
            ids = [m.memory_id for m in found if m.memory_id.startswith(wanted)]
            if len(ids) > 1:
                raise InputError(f"{len(ids)} memories have an id that begins with {wanted}; give more of it")
        if not ids:
            raise InputError(f"no memory has the id or the exact text {wanted!r}; /memory lists them")
        return await self.reme.memories.delete(self.chat.workspace, ids, erase=erase, actor="chat")

    def _show(self, memories: list[Memory]) -> None:
        table = output.table("ID", "KIND", "SAID", "CONTENT", wide="CONTENT")
        for memory in memories:
            said = output.memory_text(memory)
            table.add_row(memory.memory_id[:_SHOWN_ID], memory.kind, output.day(memory.observed_at), said)
        self.console.print(table if memories else "Nothing is remembered yet.")


def _parse_arguments(text: str) -> Arguments:
    """The arguments of a command, by name: MemoryScope's `content=…` and the like.

    Words without a name go on with the `content` or `query` before them, and are `content` where there is neither. A
    value may be quoted. A quote within a word is an apostrophe.

    Raises:
        InputError: A quotation does not end.
    """
    named: dict[str, list[str]] = {}
    text_name = "content"
    for found in _ARGUMENT.finditer(text):
        name, double, single, word = found.groups()
        if word is not None and word[0] in "\"'":
            raise InputError(f"the quotation {word} … does not end; close it with {word[0]}")
        if name in ("content", "query"):
            text_name = name
        value = next(part for part in (double, single, word, "") if part is not None)
        named.setdefault(name or text_name, []).append(value)
    return {name: " ".join(values) for name, values in named.items()}


def _read_number(name: str, text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= _ALL:
        raise InputError(f"{name} must be a positive whole number, not {text!r}")
    return int(text)


async def _leave(terminal: Terminal, _: Arguments) -> None:
    """Leaves."""


_SHOWN_ID = 8  # characters: enough to tell the memories of one person apart
_ALL = 2**31 - 1  # memories: more than there can be
_ARGUMENT = re.compile(
    r"""(?:(content|query|memory_id|limit|refresh_time)=)?(?:"([^"]*)"(?!\S)|'([^']*)'(?!\S)|(\S+))"""
)
_SHORT: dict[str, Command] = {
    "help": Terminal.help,
    "memory": Terminal.memory,
    "retrieve": Terminal.retrieve,
    "add": Terminal.add,
    "delete": Terminal.delete,
    "erase": Terminal.erase,
    "profile": Terminal.profile,
    "why": Terminal.why,
    "clear": Terminal.clear,
    "stream": Terminal.stream,
    "exit": _leave,
}
COMMANDS: dict[str, Command] = _SHORT | {
    "read_message": Terminal.read_message,
    "list_memory": Terminal.memory,
    "retrieve_memory": Terminal.retrieve,
    "add_memory": Terminal.add,
    "delete_memory": Terminal.delete,
    "delete_all": Terminal.delete_all,
    "consolidate": Terminal.consolidate,
    "consolidate_memory": Terminal.consolidate,
    "reflect": Terminal.reflect,
    "reflect_and_reconsolidate": Terminal.reflect,
}
"""The commands by name: short names, and those of MemoryScope's operations."""
_REPEATABLE = (Terminal.memory, Terminal.retrieve, Terminal.read_message, Terminal.profile)
