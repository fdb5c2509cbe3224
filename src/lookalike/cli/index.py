"""``lookalike index``: make a collection of pictures searchable, add to it, remove from it."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from lookalike.cli.console import (
    AsJson,
    Group,
    Network,
    Place,
    Transform,
    Weights,
    print_result,
    print_values,
)
from lookalike.cli.embed import model_and_pictures, print_added
from lookalike.errors import BadInput, LookalikeError
from lookalike.progress import ConsoleWatcher

Precision = Literal["float32", "float16"]


class WithDefault(Group):
    """A group whose default command is ``create``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert ``create`` before arguments that do not begin with a command."""
        if args and args[0] not in (*self.commands, "--help"):
            args = ["create", *args]
        return list(super().parse_args(ctx, args))


index = typer.Typer(
    cls=WithDefault,
    no_args_is_help=True,
    help="Make pictures searchable: 'lookalike index RUN photos/ -o shop.index'.",
)

Store = Annotated[
    str | None,
    typer.Option(help="Keep it in PostgreSQL: postgresql://HOST/DATABASE, or .../DATABASE#NAME."),
]


@index.command()
def create(
    given: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN] PICTURES",
            help="The folder of a run or of an exported model, then a folder of pictures (the "
            "first sub-folder is the label) or a CSV with path, perhaps label, and metadata.",
        ),
    ],
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="The folder of the new index.")
    ] = None,
    store: Store = None,
    network: Network = None,
    weights: Weights = "imagenet",
    transform: Transform = "small",
    vectors: Annotated[
        Precision,
        typer.Option(help="How exactly vectors are stored; float16 needs half of the space."),
    ] = "float32",
    as_json: AsJson = False,
) -> None:
    """Embed pictures and write an index of them.

    Example: lookalike index runs/folder-multi-similarity-0123456789ab photos/ -o shop.index

    Example: lookalike index --network efficientnet-lite0 photos/ -o shop.index

    If interrupted, 'lookalike index add' completes the index.
    """
    from lookalike.search import Index
    from lookalike.search.ingest import embed_into
    from lookalike.signals import Interrupted

    place = place_of(output, store)
    model, pictures = model_and_pictures(given, network, weights, transform)
    with ConsoleWatcher() as watcher:
        made = Index.create(place, model, vectors=vectors)
        try:
            added = embed_into(made, pictures, watcher=watcher)
        except KeyboardInterrupt:
            complete = f"'lookalike index add {made.place} {given[-1]}' completes the index"
            raise Interrupted(f"stopped; {complete}") from None
        keep_for_quick_start(model)
    print_added(made, added, as_json)


@index.command()
def add(
    place: Place,
    pictures: Annotated[Path, typer.Argument(help="A folder or a CSV, as for 'lookalike index'.")],
    as_json: AsJson = False,
) -> None:
    """Add pictures by the index's own model; unchanged pictures are skipped.

    Example: lookalike index add shop.index photos/
    """
    from lookalike.search import Index

    found = Index.open(place)
    with ConsoleWatcher() as watcher:
        added = found.add(pictures, watcher)
    print_added(found, added, as_json)


@index.command("import")
def import_(
    vectors: Annotated[
        Path,
        typer.Argument(
            help="What 'lookalike embed' wrote; or one's own: .npy, .npz with 'vectors' (and "
            "perhaps 'ids' and 'labels'), Parquet with a column of vectors, or a folder of it."
        ),
    ],
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="The folder of the index.")
    ] = None,
    store: Store = None,
    table: Annotated[
        Path | None,
        typer.Option(
            help="CSV or Parquet with a row for each vector: path or id, label, metadata."
        ),
    ] = None,
    stored: Annotated[
        Precision | None,
        typer.Option("--vectors", help="How exactly vectors are stored; default: float32."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make vectors searchable that were computed before.

    Example: lookalike index import vectors/ -o shop.index

    Example: lookalike index import mine.npy --table mine.csv -o mine.index --vectors float16

    If interrupted, the same command continues. Into an index of the same model it adds; a vector
    whose path is there already replaces the former one.
    """
    from lookalike.search.ingest import import_vectors
    from lookalike.search.vector_files import open_vectors

    place = place_of(output, store)
    given = open_vectors(vectors, table)
    with ConsoleWatcher() as watcher:
        model = given.embedder
        found, done = import_vectors(place, given, stored, watcher)
        if model is not None:
            keep_for_quick_start(model)
    print_added(found, done, as_json)


@index.command()
def remove(
    place: Place,
    paths: Annotated[
        list[str] | None, typer.Argument(help="Paths or folders as the index names them.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="All pictures of a label.")] = None,
    where: Annotated[
        str | None, typer.Option(help='All pictures that match a filter: "price > 50".')
    ] = None,
    missing: Annotated[
        bool, typer.Option("--missing", help="Pictures whose files are gone.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove pictures from an index; their files are kept.

    Example: lookalike index remove shop.index chairs/old.jpg --missing
    """
    from lookalike.search import Index

    if not paths and label is None and where is None and not missing:
        raise BadInput("say what to remove: paths, --label, --where or --missing")
    found = Index.open(place)
    chosen = found.select(paths or [], label, missing, where)
    with ConsoleWatcher() as watcher:
        gone = found.remove(chosen, watcher)
    told = f"{found.place}: {gone:,} removed, {len(found):,} pictures left"
    print_result({"removed": gone, "pictures": len(found)}, told, as_json)


@index.command()
def show(place: Place, as_json: AsJson = False) -> None:
    """Show the contents of an index and how it searches.

    Example: lookalike index show shop.index
    """
    from lookalike.search import Index

    found = Index.open(place)
    model = found.blueprint
    values = {
        "pictures": len(found),
        "labels": len(found.label_counts()),
        "columns": found.columns,
        "dim": found.dim,
        "vectors": found.dtype,
        "network": model.network if model else "none: made of given vectors",
        "transform": model.preset.name if model else "",
        "model": found.fingerprint,
        "folders": [str(root) for root in found.roots],
        "search": found.approximation or "exact",
        "generation": found.generation,
        "updated": datetime.fromtimestamp(found.updated, UTC).isoformat(timespec="seconds"),
    }
    print_values(values, as_json)


@index.command()
def compact(place: Place, as_json: AsJson = False) -> None:
    """Merge what was added in parts and give back the space of removed pictures.

    Searches and additions go on meanwhile. Adding and removing do this by themselves where it
    matters.

    Example: lookalike index compact shop.index
    """
    from lookalike.search import Index

    found = Index.open(place)
    with ConsoleWatcher() as watcher:
        found.compact(watcher)
    how = found.approximation or "exact"
    told = f"{found.place}: {len(found):,} pictures, search: {how}"
    print_result({"pictures": len(found), "search": how}, told, as_json)


@index.command()
def check(
    place: Place,
    files: Annotated[
        bool, typer.Option("--files", help="Look whether every picture's file is there.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check the files of an index and the quality of its search; exit code 1 if it is damaged.

    Example: lookalike index check shop.index
    """
    from lookalike.search.check import check_index

    with ConsoleWatcher() as watcher:
        found = check_index(place, watcher, files=files)
    print_result(found.as_dict(), found, as_json)
    if not found.healthy:
        raise typer.Exit(1)


def place_of(output: str | None, store: str | None) -> str:
    """The place of a new index."""
    from lookalike.addresses import is_postgres

    if (output is None) == (store is None):
        raise BadInput("say where the index goes: '-o shop.index' or '--store postgresql://...'")
    if store is not None and not is_postgres(store):
        raise BadInput(
            f"'{store}' is no address of PostgreSQL: '--store postgresql://HOST/DATABASE#NAME'; "
            "'-o shop.index' writes a folder"
        )
    return output or store or ""


def keep_for_quick_start(model: Any) -> None:
    """Keep an ONNX copy of the model, where it can be made, by which searches start sooner."""
    from lookalike.inference.onnx_encoder import OnnxEncoder

    with suppress(LookalikeError, ImportError, OSError):  # the index itself is complete
        OnnxEncoder.of(model)
