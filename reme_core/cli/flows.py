"""`reme flows`: what flows and ops there are, and how a flow runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from reme_core.cli import output
from reme_core.cli.session import Commands, Session

if TYPE_CHECKING:
    from reme_core.flows.describe import FlowDescription, OpDescription

app = Commands(help="Flows and ops: what there is, and how a flow runs.", invoke_without_command=True)


@app.callback()
def flows(session: Session, ops: Annotated[bool, typer.Option("--ops", help="List the ops only.")] = False) -> None:
    """List all flows, those of the settings included, and all ops, with what they take."""
    if session.invoked is not None:
        return
    from reme_core.flows.catalog import Catalog
    from reme_core.flows.describe import describe_flows, describe_ops

    catalog = Catalog(session.settings)  # it also imports the ops that the settings name
    described = describe_ops()
    if ops:
        session.show({"ops": described}, _ops_table(described))
    else:
        flows = describe_flows(catalog)
        session.show({"flows": flows, "ops": described}, _flows_table(flows), _ops_table(described))


def _flows_table(flows: list[FlowDescription]) -> Table:
    about = "WHAT IT DOES, ITS STEPS, AND WHAT IT TAKES"
    table = output.table("FLOW", about, wide=about)
    for flow in flows:
        told = (flow.problem, "red") if flow.problem else flow.description
        lines = [Text.assemble(told), Text(flow.text, "dim")]
        lines += [Text.assemble((name, "cyan"), f": {text}") for name, text in flow.inputs.items()]
        table.add_row(Text(flow.name, "bold"), Text("\n").join(lines))
    return table


def _ops_table(ops: list[OpDescription]) -> Table:
    table = output.table("OP", "WHAT IT DOES, AND ITS PARAMETERS", wide="WHAT IT DOES, AND ITS PARAMETERS")
    for op in ops:
        lines = [Text(op.doc), Text(f"reads {', '.join(op.reads) or '-'}; writes {', '.join(op.writes) or '-'}", "dim")]
        lines += [Text.assemble((name, "cyan"), f": {text}") for name, text in op.parameters.items()]
        table.add_row(Text(op.name, "bold"), Text("\n").join(lines))
    return table


@app.command()
def draw(
    session: Session,
    name: Annotated[str, typer.Argument(help="The flow.")],
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid chart instead of a tree.")] = False,
) -> None:
    """Draw one flow: what runs after what, and what side by side."""
    from reme_core.flows.catalog import Catalog
    from reme_core.flows.describe import draw as tree
    from reme_core.flows.describe import mermaid as chart

    drawn = (chart if mermaid else tree)(Catalog(session.settings).get(name))
    session.show({"flow": name, "drawing": drawn}, drawn)
