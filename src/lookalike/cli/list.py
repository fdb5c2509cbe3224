"""``lookalike list``: what there is."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lookalike.catalogue import Page

__all__ = ["list_parts"]


def list_parts(
    kind: Annotated[
        str,
        typer.Argument(
            help="losses, miners, samplers, regularizers, datasets, networks or recipes."
        ),
    ],
    name: Annotated[str | None, typer.Argument(help="One of them, to see all about it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Show what there is, one line each with the paper, or all about one.

    Example: lookalike list losses

    Example: lookalike list losses multi-similarity
    """
    from lookalike.catalogue import catalogue, page

    if name is not None:
        found = page(kind, name)
        print(json.dumps(vars(found), indent=2, default=str) if as_json else as_text(found))
        return
    rows = catalogue(kind)
    if as_json:
        print(json.dumps([vars(row) for row in rows], indent=2))
        return
    width = max(len(row.name) for row in rows)
    for row in rows:
        print(f"{row.name:<{width}}  {row.summary}" + (f"  [{row.paper}]" if row.paper else ""))


def as_text(found: "Page") -> str:
    """A page for people: description, defaults, and the settings that others found."""
    lines = [f"{found.name}  [{found.paper}]", "", found.description, "", "Arguments:"]
    lines += [f"  {argument} = {default}" for argument, default in found.defaults.items()]
    for settings in found.tuned:
        values = settings["values"] | settings["beside"]
        shown = ", ".join(f"{key}={value}" for key, value in values.items())
        lines.append(f"Tuned for {settings['dataset']}: {shown}  [{settings['source']}]")
    return "\n".join(lines)
