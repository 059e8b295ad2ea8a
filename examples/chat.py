"""A chat in the terminal that remembers, from one run to the next.

    pip install reme-core
    OPENAI_API_KEY=… python examples/chat.py --workspace alice

With OPENAI_BASE_URL it talks to any server that speaks the same. `/note` shows what was remembered for the last answer,
`/erase` erases this person's memory; an empty line ends it.
"""

from __future__ import annotations

import argparse
from contextlib import suppress

from openai import OpenAI

from reme_core import ReMe, Turn
from reme_core.errors import NotFoundError


def main() -> None:
    """Talk until an empty line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workspace", default="me", help="whose memory it is")
    parser.add_argument("--model", default="gpt-4.1-mini")
    given = parser.parse_args()
    messages: list[dict[str, str]] = []
    note = ""
    with ReMe() as reme, OpenAI() as client:
        while said := input("you: "):
            if said == "/note":
                print(note or "nothing was remembered")
            elif said == "/erase":
                with suppress(NotFoundError):  # nothing was remembered
                    reme.workspaces.clear(given.workspace)
                messages.clear()
            else:
                messages.append({"role": "user", "content": said})
                with Turn(reme, given.workspace, messages) as turn:
                    reply = client.chat.completions.create(model=given.model, messages=turn.prompt)
                    messages.append({"role": "assistant", "content": reply.choices[0].message.content or ""})
                note = turn.note.text
                print(messages[-1]["content"])


if __name__ == "__main__":
    main()
