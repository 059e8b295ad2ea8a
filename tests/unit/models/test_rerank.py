import pytest

from reme_core.errors import ModelAnswerError
from reme_core.models import ModelCall
from reme_core.models.dashscope import DashScopeReranker
from reme_core.models.endpoint import Endpoint
from reme_core.models.openai_chat import OpenAIChat
from reme_core.models.rerank import ChatReranker, HttpReranker
from tests.loopback import Loopback

DOCUMENTS = ["black coffee at noon", "green tea in the morning", "a walk in the park", "tea"]


async def test_a_rerank_endpoint_orders_documents(loopback: Loopback):
    calls: list[ModelCall] = []
    reranker = HttpReranker("rerank-1", Endpoint(loopback.url), on_call=calls.append)
    ranked = await reranker.rank("green tea", DOCUMENTS)
    assert await reranker.rank("green tea", []) == []
    await reranker.aclose()
    assert ranked == [(1, 1.0), (3, 0.5), (0, 0.0), (2, 0.0)]
    assert loopback.bodies("/v1/rerank") == [
        {"model": "rerank-1", "query": "green tea", "documents": DOCUMENTS, "top_n": 4}
    ]
    assert [(call.provider, call.purpose, call.prompt_tokens) for call in calls] == [("cohere", "rerank", 7)]


async def test_half_of_a_surrogate_pair_is_replaced_in_what_is_ranked(loopback: Loopback):
    ranked = await HttpReranker("rerank-1", Endpoint(loopback.url)).rank("tea \ud800", ["tea", "\ud800"])
    assert [index for index, _ in ranked] == [0, 1]
    assert loopback.bodies("/v1/rerank")[0]["query"] == "tea \ufffd"


@pytest.mark.parametrize(
    "results",
    [
        [{"index": 9, "relevance_score": 1.0}],
        [{"index": 0, "relevance_score": 1.0}, {"index": 0, "relevance_score": 0.5}],
        [{"relevance_score": 1.0}],
        None,
    ],
)
async def test_a_ranking_of_other_documents_is_an_error(loopback: Loopback, results):
    reranker = HttpReranker("rerank-1", Endpoint(loopback.url))
    loopback.replace(lambda _: {"results": results})
    with pytest.raises(ModelAnswerError):
        await reranker.rank("tea", DOCUMENTS)
    await reranker.aclose()


async def test_dashscope_ranks_more_documents_than_one_request_takes(loopback: Loopback):
    reranker = DashScopeReranker("gte-rerank", Endpoint(loopback.url), params={"instruct": "Rank recipes."})
    documents = [f"walk {n}" for n in range(501)] + ["green tea"]
    ranked = await reranker.rank("green tea", documents)
    await reranker.aclose()
    assert ranked[0] == (501, 1.0)
    assert [index for index, _ in ranked[1:]] == list(range(501))
    bodies = loopback.bodies("/services/rerank/text-rerank/text-rerank")
    assert [len(body["input"]["documents"]) for body in bodies] == [499, 3]
    assert bodies[1]["parameters"] == {"instruct": "Rank recipes.", "return_documents": False, "top_n": 3}


async def test_a_chat_model_orders_documents_and_loses_none(loopback: Loopback):
    loopback.chat({"ranked_indices": [3, 1, 3, 77, -1]})
    reranker = ChatReranker(OpenAIChat("chat-1", Endpoint(loopback.url)))
    assert await reranker.rank("tea", DOCUMENTS) == [(3, 1.0), (1, 0.75), (0, 0.5), (2, 0.25)]
    await reranker.aclose()
    assert "[1] green tea in the morning" in loopback.bodies()[0]["messages"][0]["content"]
