"""A flow is checked when it is built, runs side by side what is written so, and lets errors surface as themselves."""

from __future__ import annotations

import importlib.metadata
from typing import Any, cast

import anyio
import pytest
from opentelemetry import trace

from reme_core.errors import FlowError, InputError
from reme_core.flows import registry
from reme_core.flows.build import build
from reme_core.flows.deps import Deps
from reme_core.flows.describe import describe_ops, draw, mermaid
from reme_core.flows.execute import run
from reme_core.flows.registry import op
from reme_core.flows.state import RetrievalState, SummaryState
from reme_core.personal.state import PersonalState
from reme_core.task.state import TaskState
from tests.flows.small_ops import deps, ops  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("own_ops")


async def test_ops_run_in_order_and_side_by_side() -> None:
    flow = build("ask >> (look(top_k=7) | clock) >> say")
    state = await run(flow, flow.start({"query": "hello"}), deps())
    assert state.answer == "hello!"
    assert state.report["look"]["top_k"] == 7
    assert state.report["look"]["mode"] == "a"


async def test_branches_really_run_at_the_same_time() -> None:
    met = anyio.Event()

    @op(writes={"extra.a"})
    async def wait_for_other(state: RetrievalState, deps: Deps) -> None:
        await met.wait()

    @op(writes={"extra.b"})
    async def call_other(state: RetrievalState, deps: Deps) -> None:
        met.set()

    with anyio.fail_after(5):
        await run(build("wait_for_other | call_other"), RetrievalState(), deps())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ask >> lok", r"unknown op 'lok'; did you mean 'look'\? \(column 8\)"),
        ("ask >> zzzzzzzz", "unknown op 'zzzzzzzz'; there are: .*look"),
        ("ask >> look(topk=3)", r"op 'look' has no parameter 'topk'; did you mean 'top_k'\?"),
        ("ask(k=1)", "op 'ask' has no parameter 'k'; it takes none"),
        ('ask >> look(top_k="3")', "parameter 'top_k' must be int, not '3'"),
        ("ask >> look(top_k=true)", "parameter 'top_k' must be int, not True"),
        ("ask >> look(top_k=-5)", "parameter 'top_k' cannot be negative, but is -5"),
        ('ask >> look(mode="c")', r"parameter 'mode' must be Literal\['a', 'b'\], not 'c'"),
        ("demand", r"op 'demand' needs size: write demand\(size=...\)"),
        ("look >> ask", "op 'look' reads 'search_query', which neither .* put one of these before it: .*ask"),
        ("ask >> (look | peek)", "'look' and 'peek' both write 'hits' side by side"),
        ("ask >> (look | say)", "'say' reads 'hits' while 'look' writes it side by side"),
        ("ask >> (say | (clock >> look))", "'say' reads 'hits' while 'look' writes it side by side"),
        ("(ask | look)", "op 'look' reads 'search_query'"),
        ("ask >> learn", "op 'learn' works on SummaryState, 'ask' before it on RetrievalState"),
        ("ask >> (look", "this '\\(' is never closed"),
    ],
)
def test_a_faulty_flow_is_refused_when_it_is_built(text: str, problem: str) -> None:
    with pytest.raises(FlowError, match=problem) as caught:
        build(text, name="mine")
    assert str(caught.value).startswith("flow 'mine': ")
    assert "^" in str(caught.value)


def test_what_one_branch_wrote_is_there_afterwards() -> None:
    assert build("ask >> (look | clock) >> say").state is RetrievalState


def test_an_op_of_both_states_fits_either_flow() -> None:
    assert build("feel >> learn").state is SummaryState
    assert build("feel >> ask").state is RetrievalState


def test_an_op_of_a_shared_state_fits_the_flows_of_every_state_below_it() -> None:
    assert build("learn").state is SummaryState
    assert build("learn >> trajectory_preprocess").state is TaskState
    assert build("feel >> take_in >> learn").state is PersonalState
    with pytest.raises(FlowError, match="op 'take_in' works on PersonalState, 'learn' before it on TaskState"):
        build("learn >> trajectory_preprocess >> take_in")


def test_a_state_takes_the_fields_of_its_own_flows_and_leaves_others_to_extra() -> None:
    assert "session_id" in PersonalState.inputs() and "trajectories" in PersonalState.inputs() & TaskState.inputs()
    state = TaskState.of({"session_id": "s", "freq_threshold": 2})
    assert state.freq_threshold == 2 and state.extra == {"session_id": "s"}


@pytest.mark.parametrize("name", ["fetch_query", "ask_op", "fetch_query_op"])
def test_aliases_and_the_seeds_op_suffix_name_the_same_op(name: str) -> None:
    assert build(name).plan.op.name == "ask"  # type: ignore[union-attr]


async def test_the_first_real_error_surfaces_as_itself_and_siblings_are_cancelled() -> None:
    cancelled = anyio.Event()

    @op(writes={"extra.slow"})
    async def slow(state: RetrievalState, deps: Deps) -> None:
        try:
            await anyio.sleep(60)
        except BaseException:
            cancelled.set()
            raise

    @op(writes={"extra.broken"})
    async def broken(state: RetrievalState, deps: Deps) -> None:
        await anyio.sleep(0.01)
        raise ZeroDivisionError("really broken")

    with anyio.fail_after(5), pytest.raises(ZeroDivisionError, match="really broken") as caught:
        await run(build("feel >> (slow | broken)"), RetrievalState(), deps())
    assert cancelled.is_set()
    assert caught.value.__notes__ == ["in the op 'broken'"]


async def test_an_error_keeps_its_cause_through_nested_branches() -> None:
    @op(writes={"extra.broken"})
    async def broken(state: RetrievalState, deps: Deps) -> None:
        try:
            raise KeyError("root")
        except KeyError as root:
            raise ValueError("told") from root

    with pytest.raises(ValueError, match="told") as caught:
        await run(build("feel | (say | broken)"), RetrievalState(), deps())
    assert isinstance(caught.value.__cause__, KeyError)


async def test_two_errors_of_one_moment_are_both_told() -> None:
    gate = anyio.Event()

    @op(writes={"extra.one"})
    async def one(state: RetrievalState, deps: Deps) -> None:
        try:
            await gate.wait()
        finally:
            raise OSError("second")

    @op(writes={"extra.two"})
    async def two(state: RetrievalState, deps: Deps) -> None:
        raise ValueError("first")

    with pytest.raises(ValueError, match="first") as caught:
        await run(build("one | two"), RetrievalState(), deps())
    assert any("OSError: second" in note for note in caught.value.__notes__)


async def test_cancelling_the_caller_is_not_an_error_of_an_op() -> None:
    @op(writes={"extra.a"})
    async def sleep_a(state: RetrievalState, deps: Deps) -> None:
        await anyio.sleep(60)

    with anyio.move_on_after(0.01) as scope:
        await run(build("sleep_a | feel"), RetrievalState(), deps())
    assert scope.cancelled_caught


def test_a_request_that_lacks_a_required_field_or_has_a_wrong_one_is_told_which() -> None:
    flow = build("ask", name="asker", input_schema={"query": {"type": "string", "required": True}})
    with pytest.raises(InputError, match="query: required by asker"):
        flow.start({})
    with pytest.raises(InputError, match=r"top_k: .*greater than or equal to 1"):
        flow.start({"query": "q", "top_k": 0})
    with pytest.raises(InputError, match=r"messages\.0\.role"):
        flow.start({"query": "q", "messages": [{"role": "alien"}]})


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("userid", "user_id"), ("userId", "user_id"), ("uesr_id", "user_id"), ("user", "user_id"), ("users", "user_id"),
        ("agent", "agent_id"), ("run", "run_id"), ("workspace", "workspace_id"), ("topk", "top_k"),
    ],
)  # fmt: skip
def test_a_field_that_is_nearly_one_of_the_flow_s_is_refused_and_not_passed_over(typed: str, meant: str) -> None:
    flow = build("ask", name="asker")
    with pytest.raises(InputError, match=f"{typed}: nothing was done, .*; did you mean '{meant}'"):
        flow.start({"query": "q", typed: "ann"})
    assert flow.start({"query": "q", typed: None}).extra == {typed: None}  # clients send `null` for what they leave out


def test_a_field_of_an_application_s_own_is_taken_for_none_of_the_flow_s() -> None:
    own = dict.fromkeys(("query_id", "trace_id", "message_id", "client_id", "parent_id", "turn_id", "tenant_id"), "7")
    assert build("ask", name="asker").start({"query": "q", **own}).extra == own


def test_a_default_is_each_request_s_own_and_fits_its_field() -> None:
    flow = build("ask", input_schema={"bag": {"default": []}, "top_k": {"default": 7}})
    first, second = (cast(RetrievalState, flow.start({"query": "q"})) for _ in range(2))
    first.extra["bag"].append("theirs")
    assert (second.extra["bag"], second.top_k) == ([], 7)
    with pytest.raises(FlowError, match=r"flow 'asker': the input_schema has a default that does not fit; top_k: "):
        build("ask", name="asker", input_schema={"top_k": {"default": "many"}})


def test_a_request_cannot_set_what_ops_find() -> None:
    state = cast(RetrievalState, build("ask").start({"query": "q", "hits": ["forged"], "answer": "forged", "own": 1}))
    assert state.hits == [] and state.answer == ""
    assert state.extra == {"hits": ["forged"], "answer": "forged", "own": 1}


def test_an_op_that_is_none_is_refused_when_registered() -> None:
    with pytest.raises(FlowError, match="must be an 'async def'"):

        @op()  # type: ignore[type-var]
        def plain(state: RetrievalState, deps: Deps) -> None: ...

    with pytest.raises(FlowError, match=r"names a field that RetrievalState lacks; call one of your own 'extra.hitz'"):

        @op(writes={"hitz"})
        async def typo(state: RetrievalState, deps: Deps) -> None: ...

    with pytest.raises(FlowError, match="by keyword only"):

        @op()
        async def positional(state: RetrievalState, deps: Deps, k: int = 1) -> None: ...

    with pytest.raises(FlowError, match="must take"):

        @op()
        async def stateless(state: int, deps: Deps) -> None: ...

    with pytest.raises(FlowError, match=r"the op 'look' .* is already registered by"):

        @op(name="look")
        async def other(state: RetrievalState, deps: Deps) -> None: ...


def test_an_entry_point_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = importlib.metadata.EntryPoint("theirs", "no_such_module_anywhere", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [entry] if group == "reme_core.ops" else [])
    registry.load_ops.cache_clear()
    with pytest.raises(FlowError, match=r"the entry point 'theirs' .* cannot be loaded"):
        registry.find("ask")
    monkeypatch.undo()
    assert registry.find("ask").name == "ask"


def test_an_entry_point_registers_its_ops(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "their_ops_module.py").write_text(
        "from reme_core.flows.registry import op\nfrom reme_core.flows.state import RetrievalState\n"
        "from reme_core.flows.deps import Deps\n"
        "@op()\nasync def theirs_alone(state: RetrievalState, deps: Deps) -> None: ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = importlib.metadata.EntryPoint("theirs", "their_ops_module", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [entry])
    registry.load_ops.cache_clear()
    assert build("theirs_alone").plan.op.name == "theirs_alone"  # type: ignore[union-attr]
    registry.load_ops.cache_clear()


async def test_every_op_is_a_span_below_its_flow(exporter: Any) -> None:
    flow = build("ask >> (look | clock)", name="found")
    await run(flow, flow.start({"query": "q"}), deps())
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"reme.flow found", "reme.op ask", "reme.op look", "reme.op clock"}
    parent = spans["reme.flow found"].context.span_id
    assert all(s.parent.span_id == parent for name, s in spans.items() if name.startswith("reme.op"))
    assert trace.get_current_span().get_span_context().span_id == 0


def test_a_drawn_flow_shows_order_branches_and_changed_parameters() -> None:
    flow = build("ask >> (look(top_k=7) | (clock >> feel)) >> say", name="found")
    assert draw(flow).split("\n") == [
        "found",
        "├── ask",
        "├── side by side",
        "│   ├── look(top_k=7)",
        "│   └── in order",
        "│       ├── clock",
        "│       └── feel",
        "└── say",
    ]
    assert mermaid(flow).split("\n") == [
        "flowchart LR",
        '  start((query)) --> n1["ask"]',
        '  n1 --> n2["look(top_k=7)"]',
        '  n1 --> n3["clock"]',
        '  n3 --> n4["feel"]',
        '  n2 --> n5["say"]',
        '  n4 --> n5["say"]',
    ]


def test_ops_are_described_with_their_parameters_and_defaults() -> None:
    told = {described.name: described for described in describe_ops()}
    assert told["ask"].doc == "Take the query."
    assert told["ask"].aliases == ["fetch_query"]
    assert told["look"].parameters == {
        "top_k": "int = 5",
        "bound": "float | None = None",
        "mode": "Literal['a', 'b'] = 'a'",
        "names": "tuple[str, ...] = ()",
    }
    assert told["demand"].parameters == {"size": "int"}
    assert told["feel"].state == "RetrievalState or SummaryState"
