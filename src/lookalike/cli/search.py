"""``lookalike search``: find the pictures that look like a query."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from lookalike.cli.console import AsJson, Place, print_json
from lookalike.errors import LookalikeError


def search(
    place: Place,
    queries: Annotated[list[Path], typer.Argument(help="The query pictures.")],
    k: Annotated[int, typer.Option("-k", min=1, help="The number of results.")] = 10,
    label: Annotated[str | None, typer.Option(help="Search this label only.")] = None,
    where: Annotated[
        str | None,
        typer.Option(help="Search the pictures that match: \"price < 50 and brand = 'x'\"."),
    ] = None,
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

    Of several queries, those that cannot be read are named at the end, with exit code 1.
    """
    from lookalike.inference.onnx_encoder import OnnxEncoder, load_encoder
    from lookalike.inference.pictures import Unreadable, read_picture
    from lookalike.search import Index
    from lookalike.search.contact_sheet import write_contact_sheet

    index = Index.open(place)
    encoder = OnnxEncoder.kept(index.fingerprint) if model is None else load_encoder(model)
    images: dict[Path, Any] = {}
    unreadable: dict[Path, Unreadable] = {}
    for path in queries:
        try:
            images[path] = read_picture(path)
        except Unreadable as error:
            unreadable[path] = error
    if not images:
        raise next(iter(unreadable.values()))
    queried = list(images.values())
    answers = index.query(queried, k, encoder=encoder, label=label, where=where, exact=exact)
    hits = dict(zip(images, answers, strict=True))
    if sheet is not None:
        rows = [(path.name, image, hits[path]) for path, image in images.items()]
        write_contact_sheet(sheet, index, rows)
    if as_json:
        results: list[dict[str, Any]] = [
            {"query": str(path), "error": unreadable[path].reason}
            if path in unreadable
            else {"query": str(path), "hits": [hit_mapping(index, hit) for hit in hits[path]]}
            for path in queries
        ]
        print_json(results)
    else:
        for path, nearest in hits.items():
            print_table(str(path), nearest)
        if sheet is not None:
            print(f"contact sheet: {sheet}")
    for problem in unreadable.values():
        typer.echo(f"lookalike: {problem}", err=True)
    if unreadable:
        raise typer.Exit(1)


def hit_mapping(index: Any, hit: Any) -> dict[str, Any]:
    """A hit as JSON values, with the absolute path of its file; null where it has none."""
    file = None
    with suppress(LookalikeError):  # inside of an archive, or removed since
        file = str(index.file_of(hit.id))
    return {**vars(hit), "file": file}


def print_table(query: str, hits: list[Any]) -> None:
    """Print one line per hit."""
    print(query)
    wide = max((len(hit.label or "") for hit in hits), default=0)
    for rank, hit in enumerate(hits, 1):
        extra = "  ".join(f"{name}={value}" for name, value in hit.metadata.items())
        line = f"{rank:>4}  {hit.similarity:7.4f}  {hit.label or '':<{wide}}  {hit.path}  {extra}"
        print(line.rstrip())
