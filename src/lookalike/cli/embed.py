"""``lookalike embed``: vectors of very many pictures, in files that can be resumed."""

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
        typer.Option("--output", "-o", help="The folder of the vectors, or postgresql://...#NAME."),
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
    per_shard: Annotated[int, typer.Option(min=1, help="Pictures of one file of vectors.")] = 4096,
    shard: Annotated[
        str, typer.Option(metavar="I/N", help="The I-th of N machines that share the folder.")
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
    """Embed very many pictures into files of vectors.

    Example: lookalike embed runs/folder-multi-similarity-0123456789ab photos/ -o vectors/

    Example: lookalike embed --network efficientnet-lite0 shards/ -o vectors/ --device cuda

    If interrupted, the same command continues; finished files are not computed again.
    'lookalike index import vectors/ -o shop.index' makes them searchable.
    """
    from lookalike.addresses import is_postgres
    from lookalike.inference.bulk.job import Options, Share
    from lookalike.inference.bulk.source import open_source
    from lookalike.training.signals import Interrupted

    if len(given) != (2 if network is None else 1):
        raise BadInput(
            "give a run and pictures: 'lookalike embed RUN photos/ -o vectors/', or "
            "'--network efficientnet-lite0' and pictures"
        )
    if output is None:
        raise BadInput("say where the vectors go: '-o vectors/' or '-o postgresql://...#NAME'")
    on_cluster = {"address": address, "workers": workers, "cpus": cpus, "gpus": gpus}
    if executor == "local" and on_cluster != {
        "address": None,
        "workers": None,
        "cpus": 1,
        "gpus": 0,
    }:
        raise BadInput("--address, --workers, --cpus and --gpus need --executor ray")
    share = Share.parse(shard)
    options = Options(dtype, device, precision, batch, per_shard)
    source = open_source(Path(given[-1]), kind)
    model = model_of(given[0], network, weights, transform)
    try:
        with ConsoleWatcher() as watcher:
            if is_postgres(output):
                if executor == "ray" or share.whole > 1 or dtype != "float32":
                    raise BadInput(
                        "--executor ray, --shard and --dtype need a folder: '-o vectors/', then "
                        "'lookalike index import vectors/ --store postgresql://...'"
                    )
                into_index(output, model, source, options, watcher, as_json)
                return
            into_folder(
                Path(output),
                model,
                source,
                options,
                watcher,
                share=share,
                cluster=on_cluster if executor == "ray" else None,
                as_json=as_json,
            )
    except KeyboardInterrupt:
        raise Interrupted("stopped; the same command continues") from None


def model_of(run: str, network: str | None, weights: str, transform: str) -> Any:
    """The model of a run, or a pretrained network."""
    from lookalike.inference.embedder import Embedder

    if network is None:
        return Embedder.open(run)
    return Embedder.from_network(network, weights=weights, transform=transform)


def into_folder(
    folder: Path,
    model: Any,
    source: Any,
    options: Any,
    watcher: ConsoleWatcher,
    *,
    share: Any,
    cluster: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """Write shards of vectors, and print where they are."""
    from lookalike.inference.bulk.cluster import on_ray
    from lookalike.inference.bulk.job import embed

    executor = None if cluster is None else on_ray(**cluster, watcher=watcher)
    found = embed(model, source, folder, options, share=share, executor=executor, watcher=watcher)
    if as_json:
        manifest = found.manifest
        values = {
            "vectors": str(folder),
            "shards": [str(folder / file.name) for file in found.files],
            "complete": found.complete,
            "missing_shards": manifest.shards - len(found.files),
            "made": found.made,
            "rows": found.rows,
            "dim": manifest.dim,
            "dtype": manifest.dtype,
            "fingerprint": manifest.model,
            "skipped": [vars(skipped) for skipped in found.skipped],
        }
        print(json.dumps(values, indent=2))
        return
    print(found)
    print_skipped(found.skipped)
    if found.complete:
        print_next(f"index import {folder} -o shop.index")


def into_index(
    place: str, model: Any, source: Any, options: Any, watcher: ConsoleWatcher, as_json: bool
) -> None:
    """Embed into an index, a new one or one of the same model, and print what was added."""
    from lookalike.search.embedding import embed_into
    from lookalike.search.importing import open_or_create

    index = open_or_create(place, model, model.dim)
    added = embed_into(index, source, options, watcher)
    if as_json:
        values = {
            "index": index.place,
            "rows": len(index),
            "new": added.new,
            "changed": added.changed,
            "unchanged": added.unchanged,
            "dim": index.dim,
            "fingerprint": index.fingerprint,
            "skipped": [vars(skipped) for skipped in added.skipped],
        }
        print(json.dumps(values, indent=2))
        return
    print(f"{index.place}: {len(index):,} pictures ({added})")
    print_skipped(added.skipped)
    print_next(f"search {index.place} query.jpg")
