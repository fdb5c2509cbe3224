"""``lookalike search``: find the pictures that look like a query."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from lookalike.cli.console import AsJson

__all__ = ["search"]


def search(
    place: Annotated[str, typer.Argument(metavar="INDEX", help="A folder, or postgresql://...")],
    queries: Annotated[list[Path], typer.Argument(help="The query pictures.")],
    k: Annotated[int, typer.Option("-k", min=1, help="The number of results.")] = 10,
    label: Annotated[str | None, typer.Option(help="Search this label only.")] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Compare with every picture instead of an approximate search."
        ),
    ] = False,
    model: Annotated[
        Path | None,
        typer.Option(help="Embed by this run or exported model; it must be the index's own."),
    ] = None,
    sheet: Annotated[Path | None, typer.Option(help="Write a contact sheet (PNG).")] = None,
    as_json: AsJson = False,
) -> None:
    """Find the pictures that look most like a query.

    Example: lookalike search shop.index query.jpg -k 10 --sheet found.png
    """
    from lookalike.search import Index
    from lookalike.search.asking import ask
    from lookalike.search.sheet import write_sheet

    index = Index.open(place)
    answers = ask(index, queries, k, label=label, exact=exact, model=model)
    if sheet is not None:
        shown = [(answer.path.name, answer.image, answer.hits) for answer in answers]
        write_sheet(sheet, index, shown)
    if as_json:
        print(
            json.dumps(
                [
                    {"query": str(answer.path), "hits": [vars(hit) for hit in answer.hits]}
                    for answer in answers
                ],
                indent=2,
            )
        )
        return
    for answer in answers:
        print_table(str(answer.path), answer.hits)
    if sheet is not None:
        print(f"contact sheet: {sheet}")


def print_table(query: str, hits: list[Any]) -> None:
    """Print one line per hit."""
    print(query)
    wide = max((len(hit.label or "") for hit in hits), default=0)
    for rank, hit in enumerate(hits, 1):
        extra = "  ".join(f"{name}={value}" for name, value in hit.metadata.items())
        line = f"{rank:>4}  {hit.similarity:7.4f}  {hit.label or '':<{wide}}  {hit.path}  {extra}"
        print(line.rstrip())
