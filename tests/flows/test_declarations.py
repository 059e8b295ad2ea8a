"""What ops declare is what they do: their source is compared with their `reads`, `uses` and `writes`."""

from __future__ import annotations

import ast
import inspect
import textwrap

import pytest

from reme_core.flows.build import build, leaves
from reme_core.flows.catalog import Catalog
from reme_core.flows.registry import Op, all_ops
from reme_core.settings import Settings
from tests.pages.blocks import blocks

OPEN = {"workspace_id", "report", "extra"}
"""Fields that every op may look at or add to."""
OTHER_FORMS = {"workspace_id", "messages", "trajectories", "metadata", "retrieval_id", "file_path"}
"""Fields that say in the way of ReMe 0.1 what another field says as well."""


def touched(op: Op) -> tuple[set[str], set[str]]:
    """The fields of the state that the source of an op reads and assigns, in itself."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(op.run)))
    reads: set[str] = set()
    writes: set[str] = set()
    fields = set().union(*(set(state.model_fields) for state in op.states))
    for node in ast.walk(tree):
        of_state = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "state"
        if of_state and node.attr in fields:
            (writes if isinstance(node.ctx, ast.Store) else reads).add(node.attr)
    return reads - OPEN, writes - OPEN


@pytest.mark.parametrize("op", all_ops(), ids=lambda op: op.name)
def test_an_op_touches_what_it_declares(op: Op) -> None:
    reads, writes = touched(op)
    assert writes <= op.writes
    assert reads <= op.reads | op.uses | op.writes


@pytest.mark.parametrize("op", all_ops(), ids=lambda op: op.name)
def test_an_op_says_in_one_line_what_it_does(op: Op) -> None:
    assert op.doc.endswith((".", ":"))


@pytest.mark.parametrize("name", Catalog(Settings()).names())
def test_every_built_in_flow_can_be_built(name: str) -> None:
    flow = Catalog(Settings()).get(name)
    assert flow.description
    assert set(flow.input_schema) <= flow.state.inputs()
    assert all(None not in schema.values() for schema in flow.input_schema.values()), (
        "a comma in YAML that is not within quotes"
    )


@pytest.mark.parametrize("name", Catalog(Settings()).names())
def test_a_built_in_flow_tells_callers_of_every_field_that_its_ops_look_at(name: str) -> None:
    flow = Catalog(Settings()).get(name)
    used = {field for step in leaves(flow.plan) for field in step.op.reads | step.op.uses}
    assert (used & flow.state.inputs()) - set(flow.input_schema) <= OTHER_FORMS


def test_the_flow_on_the_page_of_flows_can_be_built() -> None:
    [shown] = [block.text for block in blocks("docs/flows.md") if block.language == "text"]
    assert build(shown).start({"query": "Refund an order"})
