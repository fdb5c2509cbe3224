"""``lookalike search``: find the pictures that look like a query."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from lookalike.cli.console import AsJson


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
    from lookalike.inference.onnx_encoder import load_encoder
    from lookalike.inference.pictures import read_picture
    from lookalike.search import Index
    from lookalike.search.contact_sheet import write_contact_sheet

    index = Index.open(place)
    encoder = None if model is None else load_encoder(model)
    images = [read_picture(path) for path in queries]
    found = index.query(images, k, encoder=encoder, label=label, exact=exact)
    if sheet is not None:
        names = [path.name for path in queries]
        write_contact_sheet(sheet, index, list(zip(names, images, found, strict=True)))
    if as_json:
        told = [
            {"query": str(path), "hits": [vars(hit) for hit in hits]}
            for path, hits in zip(queries, found, strict=True)
        ]
        print(json.dumps(told, indent=2))
        return
    for path, hits in zip(queries, found, strict=True):
        print_table(str(path), hits)
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
