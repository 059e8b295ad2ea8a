"""A chat service with tenants: each key opens the memory of one company, and nothing of another.

    pip install "reme-core[server]"
    APP_KEYS='{"secret-1": "acme", "secret-2": "globex"}' OPENAI_API_KEY=… uvicorn --app-dir examples tenants:app

    curl localhost:8000/chat -H 'authorization: Bearer secret-1' -H 'content-type: application/json' \
      -d '{"user": "ann", "conversation": "monday", "text": "I only wear size 44."}'

A tenant is a workspace, which row-level security in Postgres keeps apart; within it `user_id` tells people apart. The
service holds no state: what was said in a conversation is read from memory, so any number of processes may serve.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from openai import AsyncOpenAI
from pydantic import BaseModel, Field

from reme_core import AsyncReMe, Turn


class Said(BaseModel):
    """What a person says."""

    user: str = Field(min_length=1)
    conversation: str = Field(min_length=1)
    text: str = Field(min_length=1)


class Answer(BaseModel):
    """What the model answers."""

    text: str


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Hold one memory and one client for all requests."""
    async with AsyncReMe() as reme, AsyncOpenAI() as client:
        app.state.reme, app.state.client = reme, client
        app.state.keys = json.loads(os.environ["APP_KEYS"])
        yield


def tenant(request: Request, given: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]) -> str:
    """The tenant that the caller's key opens; what a request says cannot change it."""
    name = request.app.state.keys.get(given.credentials)
    if name is None:
        raise HTTPException(401, "there is no such key")
    return str(name)


app = FastAPI(title="A chat with tenants", lifespan=lifespan)


@app.post("/chat")
async def chat(said: Said, request: Request, workspace: Annotated[str, Depends(tenant)]) -> Answer:
    """Answer with what is known about this person."""
    reme, session_id = request.app.state.reme, json.dumps([said.user, said.conversation])  # no two are alike
    before = await reme.messages(workspace, session_id)
    messages = [{"role": message.role, "content": message.content} for message in before[-20:]]
    messages.append({"role": "user", "content": said.text})
    async with Turn(reme, workspace, messages, session_id=session_id, user_id=said.user) as turn:
        reply = await request.app.state.client.chat.completions.create(model="gpt-4.1-mini", messages=turn.prompt)
        messages.append({"role": "assistant", "content": reply.choices[0].message.content or ""})
    return Answer(text=messages[-1]["content"])
