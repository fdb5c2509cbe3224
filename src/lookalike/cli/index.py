"""``lookalike index``: make a collection of pictures searchable, add to it, remove from it."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from lookalike.cli.console import AsJson, Group, print_next
from lookalike.progress import ConsoleWatcher


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

Place = Annotated[str, typer.Argument(metavar="INDEX", help="A folder, or postgresql://...")]


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
    store: Annotated[
        str | None, typer.Option(help="Keep it in PostgreSQL: postgresql://HOST/DATABASE[#NAME].")
    ] = None,
    network: Annotated[
        str | None, typer.Option(help="A pretrained network instead of a run.")
    ] = None,
    weights: Annotated[
        str, typer.Option(help="The file of a pretrained network's weights; else ImageNet's.")
    ] = "imagenet",
    transform: Annotated[
        str, typer.Option(help="The transform of a pretrained network.")
    ] = "small",
    as_json: AsJson = False,
) -> None:
    """Embed pictures and write an index of them.

    Example: lookalike index runs/folder-multi-similarity-0123456789ab photos/ -o shop.index

    Example: lookalike index --network efficientnet-lite0 photos/ -o shop.index

    If interrupted, 'lookalike index add' completes the index.
    """
    from lookalike.errors import BadInput
    from lookalike.search import Embedder, Index
    from lookalike.search.index import is_postgres
    from lookalike.search.sources import require_pictures

    if len(given) != (2 if network is None else 1):
        raise BadInput(
            "give a run and a folder of pictures: 'lookalike index RUN photos/ -o shop.index', or "
            "'--network efficientnet-lite0' and a folder of pictures"
        )
    if (output is None) == (store is None):
        raise BadInput("say where the index goes: '-o shop.index' or '--store postgresql://...'")
    if store is not None and not is_postgres(store):
        raise BadInput(
            f"'{store}' is no address of PostgreSQL: '--store postgresql://HOST/DATABASE#NAME'; "
            "'-o shop.index' writes a folder"
        )
    pictures = Path(given[-1])
    require_pictures(pictures)
    model = (
        Embedder.from_network(network, weights=weights, transform=transform)
        if network is not None
        else Embedder.open(given[0])
    )
    with ConsoleWatcher() as watcher:
        made = Index.create(output or store or "", model)
        added = made.add(pictures, watcher)
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


@index.command()
def remove(
    place: Place,
    paths: Annotated[
        list[str] | None, typer.Argument(help="Paths or folders as the index names them.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="All pictures of a label.")] = None,
    missing: Annotated[
        bool, typer.Option("--missing", help="Pictures whose files are gone.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove pictures from an index; their files are kept.

    Example: lookalike index remove shop.index chairs/old.jpg --missing
    """
    from lookalike.errors import BadInput
    from lookalike.search import Index

    if not paths and label is None and not missing:
        raise BadInput("say what to remove: paths, --label or --missing")
    found = Index.open(place)
    chosen = found.select(paths or [], label, missing)
    with ConsoleWatcher() as watcher:
        gone = found.remove(chosen, watcher)
    if as_json:
        print(json.dumps({"removed": gone, "pictures": len(found)}))
    else:
        print(f"{found.place}: {gone:,} removed, {len(found):,} pictures left")


@index.command()
def show(place: Place, as_json: AsJson = False) -> None:
    """Show the contents of an index and how it searches.

    Example: lookalike index show shop.index
    """
    from lookalike.search import Index

    found = Index.open(place)
    values = {
        "pictures": len(found),
        "labels": len(found.label_names),
        "dim": found.embedder.dim,
        "network": found.embedder.blueprint.network,
        "transform": found.embedder.preset.name,
        "model": found.embedder.fingerprint,
        "folders": [str(root) for root in found.roots],
        "search": found.approximation or "exact",
    }
    if as_json:
        print(json.dumps(values, indent=2))
        return
    for name, value in values.items():
        print(f"{name:<10} {', '.join(value) if isinstance(value, list) else value}")


def keep_for_quick_start(model: Any) -> None:
    """Keep an ONNX copy of the model, where it can be made, by which searches start sooner."""
    from lookalike.errors import LookalikeError
    from lookalike.inference.onnx_encoder import OnnxEncoder

    with suppress(LookalikeError, ImportError, OSError):  # the index itself is complete
        OnnxEncoder.of(model)


def print_added(index: Any, added: Any, as_json: bool) -> None:
    """Print what was added, and what was skipped."""
    if as_json:
        values = {
            "index": index.place,
            "pictures": len(index),
            "new": added.new,
            "changed": added.changed,
            "unchanged": added.unchanged,
            "skipped": [vars(skipped) for skipped in added.skipped],
            "search": index.approximation or "exact",
        }
        print(json.dumps(values, indent=2))
        return
    print(f"{index.place}: {len(index):,} pictures ({added})")
    for skipped in added.skipped[:10]:
        print(f"  skipped {skipped.path}: {skipped.reason}")
    if len(added.skipped) > 10:
        print(f"  and {len(added.skipped) - 10:,} more (--json names all)")
    print_next(f"search {index.place} query.jpg", f"serve {index.place}")
