"""``lookalike list``: what there is."""

from typing import Annotated

import typer

__all__ = ["list_parts"]


def list_parts(
    kind: Annotated[
        str,
        typer.Argument(
            help="losses, miners, samplers, regularizers, datasets, networks or recipes."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Show what there is, one line each with the paper.

    Example: lookalike list losses
    """
    import json

    from rich.console import Console
    from rich.table import Table

    from lookalike.catalogue import catalogue

    rows = catalogue(kind)
    if as_json:
        print(json.dumps([vars(row) for row in rows], indent=2))
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for row in rows:
        table.add_row(f"[bold]{row.name}[/bold]", row.summary, f"[dim]{row.paper}[/dim]")
    Console().print(table)
