"""`reme flows`: what flows and ops there are, and how a flow runs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from reme_core.cli import output
from reme_core.cli.session import Options, Session, exits, with_session

app = typer.Typer(help="Flows and ops: what there is, and how a flow runs.", invoke_without_command=True)


@app.callback()
def flows(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON to stdout, and nothing else.")] = False,
    ops: Annotated[bool, typer.Option("--ops", help="List the ops with their parameters as well.")] = False,
) -> None:
    """List all flows, those of the settings included."""
    if ctx.invoked_subcommand is None:
        options = Options(as_json=as_json).over(ctx.obj or Options())
        with exits(options):
            _list(Session(options), ops=ops)


def _list(session: Session, *, ops: bool) -> None:
    from reme_core.flow.catalog import Catalog
    from reme_core.flow.show import describe_flows, describe_ops

    described = describe_flows(Catalog(session.settings))
    listed = output.table("FLOW", "WHAT IT DOES, AND ITS STEPS", wide="WHAT IT DOES, AND ITS STEPS")
    for flow in described:
        about = (flow.problem, "red") if flow.problem else flow.description
        listed.add_row(Text(flow.name, "bold"), Text.assemble(about, "\n", (flow.text, "dim")))
    known = describe_ops() if ops else []
    table = output.table("OP", "WHAT IT DOES, AND ITS PARAMETERS", wide="WHAT IT DOES, AND ITS PARAMETERS")
    for op in known:
        lines = [Text(op.doc), Text(f"reads {', '.join(op.reads) or '-'}; writes {', '.join(op.writes) or '-'}", "dim")]
        lines += [Text.assemble((name, "cyan"), f": {text}") for name, text in op.parameters.items()]
        table.add_row(Text(op.name, "bold"), Text("\n").join(lines))
    session.show({"flows": described, **({"ops": known} if ops else {})}, listed, *([table] if ops else []))


@app.command()
@with_session
def draw(
    session: Session,
    name: Annotated[str, typer.Argument(help="The flow.")],
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid chart instead of a tree.")] = False,
) -> None:
    """Draw one flow: what runs after what, and what side by side."""
    from reme_core.flow.catalog import Catalog
    from reme_core.flow.show import draw as tree
    from reme_core.flow.show import mermaid as chart

    drawn = (chart if mermaid else tree)(Catalog(session.settings).get(name))
    session.show({"flow": name, "drawing": drawn}, drawn)
