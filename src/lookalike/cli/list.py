"""``lookalike list``: what there is."""

import json
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
    from lookalike.catalogue import catalogue

    rows = catalogue(kind)
    if as_json:
        print(json.dumps([vars(row) for row in rows], indent=2))
        return
    width = max(len(row.name) for row in rows)
    for row in rows:
        print(f"{row.name:<{width}}  {row.summary}" + (f"  [{row.paper}]" if row.paper else ""))
