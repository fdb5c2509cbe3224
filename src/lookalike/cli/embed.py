"""``lookalike embed``: vectors of very many pictures, on any device or many machines."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from lookalike.cli.console import AsJson, Network, Transform, Weights, print_next, print_skipped
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
    workers: Annotated[
        int | None, typer.Option(min=1, help="Workers on Ray; default: as many as have room.")
    ] = None,
    executor: Annotated[
        Literal["local", "ray"], typer.Option(help="This process, or a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="Address of the Ray cluster; default: this machine.")
    ] = None,
    cpus: Annotated[float, typer.Option(help="CPUs of one worker, on Ray.")] = 1,
    gpus: Annotated[
        float, typer.Option(help="GPUs of one worker, on Ray: a fraction or whole ones.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Embed very many pictures into an index, whose files are plain vectors and columns.

    Example: lookalike embed runs/folder-multi-similarity-0123456789ab photos/ -o vectors/

    Example: lookalike embed --network efficientnet-lite0 shards/ -o vectors/ --device cuda

    If interrupted, the same command continues; what is there is not computed again.
    """
    from lookalike.inference.cluster import on_ray
    from lookalike.inference.job import Device, Options, Share
    from lookalike.inference.source import open_source, require_readable
    from lookalike.search.ingest import embed_into, open_or_create
    from lookalike.signals import Interrupted

    if len(given) != (2 if network is None else 1):
        raise BadInput(
            "give a run and pictures: 'lookalike embed RUN photos/ -o vectors/', or "
            "'--network efficientnet-lite0' and pictures"
        )
    if output is None:
        raise BadInput("say where the vectors go: '-o vectors/' or '-o postgresql://...#NAME'")
    on_cluster: dict[str, Any] = {
        "address": address,
        "workers": workers,
        "cpus": cpus,
        "gpus": gpus,
    }
    if executor == "local" and on_cluster != {
        "address": None,
        "workers": None,
        "cpus": 1,
        "gpus": 0,
    }:
        raise BadInput("--address, --workers, --cpus and --gpus need --executor ray")
    share = Share.parse(shard)
    options = Options(device, precision, batch, per_shard)
    source = open_source(Path(given[-1]), kind)
    model = model_of(given[0], network, weights, transform)
    Device(model, device, precision)
    require_readable(source)
    try:
        with ConsoleWatcher() as watcher:
            workers_of = on_ray(**on_cluster, watcher=watcher) if executor == "ray" else None
            index = open_or_create(output, model, model.dim, dtype)
            added = embed_into(
                index, source, options, share=share, executor=workers_of, watcher=watcher
            )
    except KeyboardInterrupt:
        raise Interrupted("stopped; the same command continues") from None
    if as_json:
        values = {
            "index": index.place,
            "rows": len(index),
            "new": added.new,
            "changed": added.changed,
            "unchanged": added.unchanged,
            "dim": index.dim,
            "dtype": index.dtype,
            "fingerprint": index.fingerprint,
            "skipped": [vars(skipped) for skipped in added.skipped],
        }
        print(json.dumps(values, indent=2))
        return
    print(f"{index.place}: {len(index):,} pictures ({added})")
    print_skipped(added.skipped)
    print_next(f"search {index.place} query.jpg")


def model_of(run: str, network: str | None, weights: str, transform: str) -> Any:
    """The model of a run, or a pretrained network."""
    from lookalike.inference.embedder import Embedder

    if network is None:
        return Embedder.open(run)
    return Embedder.from_network(network, weights=weights, transform=transform)
