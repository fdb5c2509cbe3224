"""``lookalike evaluate``: scores of a run, of embeddings in a file, or of a pretrained network."""

import json
from typing import Annotated

import typer

__all__ = ["evaluate"]


def evaluate(
    target: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|FILE|KEY=VALUE...",
            help="A run's folder; an .npz with 'embeddings' and 'labels' (and perhaps 'gallery' "
            "and 'gallery_labels'); or keys that name a data set and a network.",
        ),
    ],
    metrics: Annotated[
        str, typer.Option(help="Names, separated by commas.")
    ] = "recall@1,recall@2,recall@4,recall@8,r-precision,map@r",
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Score embeddings: of a finished run, of a file, or of an untrained network on your images.

    Example: lookalike evaluate runs/glyphs-triplet-0123456789ab --metrics recall@1,map@r

    Example: lookalike evaluate data.name=folder data.root=photos model.network=efficientnet-lite0
    model.weights=imagenet
    """
    from lookalike.cli.console import ConsoleWatcher
    from lookalike.training.targets import score_target

    with ConsoleWatcher() as watcher:
        scores = score_target(target, tuple(metrics.split(",")), watcher)
    if as_json:
        print(json.dumps(scores, indent=2))
        return
    for name, value in scores.items():
        print(f"{name:<12} {100 * value:6.2f}")
