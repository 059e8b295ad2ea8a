"""What the author of an adapter implements for the kit: `Driver` and `Conversation`."""

from __future__ import annotations

import base64
import enum
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any, ClassVar, Final

from reme_core.testing.model import ScriptedModel


class Capability(enum.StrEnum):
    """What a framework can do besides running a turn; checks that need another capability are skipped."""

    SYNC = "sync"
    """Turns can be run without awaiting: `Conversation.say_sync`."""
    STREAM = "stream"
    """A turn can be watched while it runs: `Conversation.stream`."""
    TOOLS = "tools"
    """An agent can call tools within a turn. Give it `clock` as a tool; its error must reach the framework."""
    PARALLEL = "parallel"
    """The model can call several tools in one answer: all of `Reply.calls`."""
    USAGE = "usage"
    """The framework reports tokens: `Conversation.usage`."""
    BESIDE = "beside"
    """By default the note stands beside the user's last message."""
    QUIET = "quiet"
    """Streamed events contain nothing of the model's prompt."""
    SYSTEM = "system"
    """The note can stand in the system prompt: `position="system"`."""
    EXPORT = "export"
    """The framework writes its state and events as JSON: `Conversation.export`."""
    IMAGES = "images"
    """A user's message can hold an image beside its words: `Conversation.show`."""
    EDITS = "edits"
    """The words of a message can be changed afterwards: `Conversation.edit`."""
    IDS = "ids"
    """An application may choose the id of a message: `Conversation.send`."""
    SESSIONS = "sessions"
    """All that an agent is told until it begins anew is one conversation, with one `session_id`."""
    RESETS = "resets"
    """An agent can begin another conversation: `Conversation.reset`."""
    RESUMES = "resumes"
    """A conversation can go on in another process: `Conversation.resume`."""
    NAMES = "names"
    """Agents have names. Call the agent `AGENT`."""
    TASKS = "tasks"
    """An agent can be the tool of another one: `Conversation.take_task`."""


IMAGE: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""A picture of one pixel, in PNG."""

AGENT: Final = "watchman"
"""The name of the driver's agent, if the framework has names for agents (`Capability.NAMES`)."""


def clock(city: str = "here") -> str:
    """Tell the time of day in a city."""
    if city == "Atlantis":
        raise ValueError("there is no clock in Atlantis")
    return "" if city == "Limbo" else "It is noon."


class Conversation(ABC):
    """One conversation of one agent, with a memory of its own."""

    @abstractmethod
    async def say(self, text: str) -> str:
        """Run one turn with what the user says, and return the agent's answer.

        Cancelling it cancels the turn in the way that users of the framework do.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """End the conversation, and close the adapter's memory."""

    def say_sync(self, text: str) -> str:
        """`say` without awaiting (`Capability.SYNC`)."""
        raise NotImplementedError(f"{type(self).__name__} claims the capability, but has no say_sync")

    def stream(self, text: str) -> AsyncIterator[Any]:
        """Run one turn and give its events (`Capability.STREAM`)."""
        raise NotImplementedError(f"{type(self).__name__} claims the capability, but has no stream")

    async def show(self, text: str, image: bytes) -> str:
        """`say` with a PNG picture in the same message (`Capability.IMAGES`)."""
        raise NotImplementedError(f"{type(self).__name__} claims the capability, but has no show")

    async def edit(self, text: str) -> None:
        """Change the words of the user's last message (`Capability.EDITS`)."""
        raise NotImplementedError(f"{type(self).__name__} claims the capability, but has no edit")

    async def send(self, text: str, message_id: str) -> str:
        """`say` with a message of this id (`Capability.IDS`)."""
        raise NotImplementedError(f"{type(self).__name__} claims the capability, but has no send")

    async def reset(self) -> None:
        """Let the agent begin another conversation, with the same memory (`Capability.RESETS`)."""
        raise NotImplementedError(f"{type(self).__name__} claims the capability, but has no reset")

    async def resume(self) -> None:
        """Go on as another process would: with what the application saved, and a new agent and memory (`RESUMES`)."""
        raise NotImplementedError(f"{type(self).__name__} claims the capability, but has no resume")

    async def take_task(self, task: str, asker: str) -> None:
        """Run a turn in which another agent, of the name `asker`, gives this one a task by a tool (`Capability.TASKS`).

        If the framework hands tool calls to an agent's memory alone, the other agent needs this one's memory.
        """
        raise NotImplementedError(f"{type(self).__name__} claims the capability, but has no take_task")

    def usage(self) -> tuple[int, int]:
        """The prompt and completion tokens that the framework reports for the last turn (`Capability.USAGE`)."""
        raise NotImplementedError(f"{type(self).__name__} claims the capability, but has no usage")

    def export(self) -> Any:
        """State and events as the framework hands them to `json.dumps` (`Capability.EXPORT`)."""
        raise NotImplementedError(f"{type(self).__name__} claims the capability, but has no export")


class Driver(ABC):
    """An adapter under test."""

    name: ClassVar[str]
    package: ClassVar[str]
    """The import package of the adapter."""
    capabilities: ClassVar[frozenset[Capability]] = frozenset()

    @abstractmethod
    async def start(self, model: ScriptedModel, options: dict[str, Any]) -> Conversation:
        """Start a conversation of a new agent.

        Args:
            model: The agent's model, to be wrapped in a model class of the framework.
            options: Keyword arguments for the adapter's memory: `database_url` or `client`, `workspace_id`, options of
                `TurnMemory`, and some that it has to refuse.
        """
