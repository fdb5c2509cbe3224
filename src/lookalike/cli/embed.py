"""``lookalike embed``: vectors of very many pictures, on any device or many machines."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from lookalike.cli.console import AsJson, Network, Transform, Weights, print_json, print_next
from lookalike.cli.execution import Address, Cpus, Execution, Executor, Gpus, Workers
from lookalike.errors import BadInput
from lookalike.progress import ConsoleWatcher


def embed(
    given: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN] SOURCE",
            help="The folder of a run or of an exported model, then the pictures: a folder (the "
            "first sub-folder is the label), a CSV with path, perhaps label, and metadata, Parquet "
            "with image bytes, WebDataset shards, or a store of training.",
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="The folder of the index, or postgresql://...#NAME."),
    ] = None,
    network: Network = None,
    weights: Weights = "imagenet",
    transform: Transform = "small",
    kind: Annotated[
        Literal["folder", "csv", "parquet", "webdataset", "store"] | None,
        typer.Option("--format", help="What the source is; default: by its name and content."),
    ] = None,
    device: Annotated[
        str, typer.Option(help="cpu, cuda, mps, or auto: the best that there is.")
    ] = "auto",
    precision: Annotated[
        Literal["32-true", "bf16-mixed", "16-mixed"],
        typer.Option(help="Of the network, as train.precision."),
    ] = "32-true",
    dtype: Annotated[
        Literal["float32", "float16"], typer.Option(help="The type of the stored numbers.")
    ] = "float32",
    batch: Annotated[
        int, typer.Option(min=1, help="Pictures that the network sees at a time.")
    ] = 64,
    per_shard: Annotated[
        int, typer.Option(min=1, help="Pictures that a machine or worker embeds at a time.")
    ] = 4096,
    shard: Annotated[
        str, typer.Option(metavar="I/N", help="The I-th of N machines that share the index.")
    ] = "1/1",
    workers: Workers = None,
    executor: Executor = "local",
    address: Address = None,
    cpus: Cpus = 1,
    gpus: Gpus = 0,
    as_json: AsJson = False,
) -> None:
    """Embed very many pictures into an index, whose files are plain vectors and columns.

    Example: lookalike embed runs/folder-multi-similarity-0123456789ab photos/ -o vectors/

    Example: lookalike embed --network efficientnet-lite0 shards/ -o vectors/ --device cuda

    If interrupted, the same command continues; what is there is not computed again.
    """
    from lookalike.inference.cluster import on_ray
    from lookalike.inference.job import Device, Options, Share
    from lookalike.search.ingest import embed_into, open_or_create
    from lookalike.signals import Interrupted

    if output is None:
        raise BadInput("say where the vectors go: '-o vectors/' or '-o postgresql://...#NAME'")
    cluster = Execution(executor, address, workers, cpus, gpus).on_cluster
    if workers is not None and not cluster:
        raise BadInput("--workers needs --executor ray")
    share = Share.parse(shard)
    options = Options(device, precision, batch, per_shard)
    model, source = model_and_pictures(given, network, weights, transform, kind)
    Device(model, device, precision)
    try:
        with ConsoleWatcher() as watcher:
            workers_of = on_ray(**cluster, watcher=watcher) if cluster else None
            index = open_or_create(output, model, model.dim, dtype)
            added = embed_into(
                index, source, options, share=share, executor=workers_of, watcher=watcher
            )
    except KeyboardInterrupt:
        raise Interrupted("stopped; the same command continues") from None
    print_added(index, added, as_json)


def model_and_pictures(
    given: list[str], network: str | None, weights: str, transform: str, kind: Any = None
) -> tuple[Any, Any]:
    """The model of a run, or a pretrained network, and the source of pictures, which is readable.

    Args:
        given: A run, if no network is named, and pictures.
        network: A pretrained network.
        weights: Its weights.
        transform: Its transform.
        kind: What the source is; None: by its name and content.
    """
    from lookalike.inference.embedder import Embedder
    from lookalike.inference.source import open_source, require_readable

    if len(given) != (2 if network is None else 1):
        raise BadInput(
            "give a run and pictures: 'RUN photos/', or '--network efficientnet-lite0' and pictures"
        )
    source = open_source(Path(given[-1]), kind)
    require_readable(source)
    if network is None:
        return Embedder.open(given[0]), source
    return Embedder.from_network(network, weights=weights, transform=transform), source


def print_added(index: Any, added: Any, as_json: bool) -> None:
    """Print what was added to an index, and what was skipped."""
    if as_json:
        facts = ("dim", "dtype", "fingerprint")
        counts = ("new", "changed", "unchanged")
        print_json(
            {"index": index.place, "pictures": len(index), "rows": len(index)}
            | {name: getattr(added, name) for name in counts}
            | {name: getattr(index, name) for name in facts}
            | {"search": index.approximation or "exact"}
            | {"skipped": [vars(skipped) for skipped in added.skipped]}
        )
        return
    print(f"{index.place}: {len(index):,} pictures ({added})")
    for one in added.skipped[:10]:
        print(f"  skipped {one.path}: {one.reason}")
    if len(added.skipped) > 10:
        print(f"  and {len(added.skipped) - 10:,} more (--json names all)")
    if index.fingerprint:
        print_next(f"search {index.place} query.jpg", f"serve {index.place}")
