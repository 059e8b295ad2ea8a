"""What settings change in flows: parameters and models of ops, names for them, and flows of one's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import pytest

from reme_core.errors import ConfigurationError, FlowError
from reme_core.flows.build import build
from reme_core.flows.catalog import Catalog
from reme_core.flows.describe import describe_flows
from reme_core.flows.execute import run
from reme_core.settings import FlowSettings, OpSettings, Settings
from tests.flows.small_ops import deps, ops  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("own_ops")


def settings(**given: Any) -> Settings:
    return Settings(**given)


async def test_settings_change_parameters_and_the_flows_text_wins_over_them() -> None:
    override = {"look": OpSettings(params={"top_k": 9, "bound": 0.5, "names": ["x", "y"]})}
    flow = build("ask >> look(top_k=2)", settings=override)
    state = await run(flow, flow.start({"query": "q"}), deps())
    assert state.report["look"] == {"top_k": 2, "bound": 0.5, "mode": "a", "names": ("x", "y"), "chat": None}


async def test_settings_choose_the_chat_model_of_one_op() -> None:
    small = cast(Any, "the small model")
    override = {"look": OpSettings(llm="small")}
    flow = build("ask >> look", settings=override)
    state = await run(flow, flow.start({"query": "q"}), deps(chats={"small": small}))
    assert state.report["look"]["chat"] is small
    with pytest.raises(ConfigurationError, match=r"llm\.small\.model_name, and its base_url or api_key"):
        await run(flow, flow.start({"query": "q"}), deps())


async def test_the_default_chat_model_is_the_same_for_an_op_that_names_it_and_for_one_that_names_none() -> None:
    flow = build("ask >> look", settings={"look": OpSettings(llm="default")})
    for default in (None, cast(Any, "the agent's model")):
        state = await run(flow, flow.start({"query": "q"}), dataclasses.replace(deps(), chat=default))
        assert state.report["look"]["chat"] is default
    Catalog(settings(op={"look": OpSettings(llm="default")})).check()


async def test_a_backend_gives_an_op_a_second_name_with_other_parameters() -> None:
    override = {"wide": OpSettings(backend="look", params={"top_k": 50})}
    flow = build("ask >> wide", settings=override)
    state = await run(flow, flow.start({"query": "q"}), deps())
    assert state.report["look"]["top_k"] == 50


@pytest.mark.parametrize(
    ("op_settings", "problem"),
    [
        ({"lok": OpSettings()}, "op.lok: unknown op 'lok'; did you mean 'look'"),
        (
            {"look": OpSettings(params={"top": 1})},
            "op.look.params: op 'look' has no parameter 'top'; did you mean 'top_k'",
        ),
        ({"look": OpSettings(params={"top_k": "x"})}, "op.look.params: parameter 'top_k' must be int"),
        (
            {"look": OpSettings(llm="tiny")},
            r"op.look.llm names the model 'tiny', which is not set .* llm.tiny.model_name",
        ),
    ],
)
def test_a_mistake_in_op_settings_shows_at_the_start(op_settings: Mapping[str, OpSettings], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        Catalog(settings(op=dict(op_settings)))


def test_flows_of_the_settings_are_added_and_win() -> None:
    catalog = Catalog(
        settings(
            flow={
                "mine": FlowSettings(flow_content="ask"),
                "retrieve_task_memory": FlowSettings(flow_content="ask >> say"),
            }
        )
    )
    assert "mine" in catalog.names()
    assert catalog.get("retrieve_task_memory").text == "ask >> say"
    assert catalog.get("mine") is catalog.get("mine")
    with pytest.raises(FlowError, match="unknown flow 'min'; did you mean 'mine'"):
        catalog.get("min")


def test_checking_the_catalog_names_the_faulty_flow() -> None:
    catalog = Catalog(settings(flow={"mine": FlowSettings(flow_content="ask >> nothing_like_it")}))
    with pytest.raises(FlowError, match="flow 'mine': unknown op"):
        catalog.check()
    told = {flow.name: flow.problem for flow in describe_flows(catalog)}
    assert "unknown op" in told["mine"]
