"""``lookalike evaluate``: scores of a run, of embeddings in a file, or of a pretrained network."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lookalike.cli.console import AsJson, print_json
from lookalike.progress import ConsoleWatcher

if TYPE_CHECKING:
    from lookalike.evaluation import Evaluation


def evaluate(
    target: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|FILE|KEY=VALUE...",
            help="A run's folder; an .npz with 'embeddings' and 'labels' (and perhaps 'gallery' "
            "and 'gallery_labels'); an .npy with --labels; or keys that name a data set and a "
            "network.",
        ),
    ],
    metrics: Annotated[
        str, typer.Option(help="Names, separated by commas.")
    ] = "recall@1,recall@2,recall@4,recall@8,r-precision,map@r",
    labels: Annotated[Path | None, typer.Option(help="Labels of an .npy: .npy or text.")] = None,
    confidence: Annotated[
        float | None, typer.Option(help="Bootstrap intervals over classes, for example 0.95.")
    ] = None,
    rerank: Annotated[
        str | None,
        typer.Option(help="Also score after re-ranking: k-reciprocal or alpha-expansion."),
    ] = None,
    per_class: Annotated[bool, typer.Option("--per-class", help="Show each class.")] = False,
    worst: Annotated[int, typer.Option(min=0, help="Show this many of the worst queries.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Score embeddings: of a finished run, of a file, or of a network on your images.

    Example: lookalike evaluate runs/glyphs-triplet-0123456789ab --metrics recall@1,map@r

    Example: lookalike evaluate data.name=folder data.root=photos model.network=efficientnet-lite0
    model.weights=imagenet
    """
    from lookalike import evaluation
    from lookalike.training.runner import read_embedded
    from lookalike.training.score import format_score

    with ConsoleWatcher() as watcher:
        arrays, query_names = read_embedded(target, labels, watcher)
        arguments: dict[str, Any] = arrays.arguments() | {
            "metrics": tuple(name.strip() for name in metrics.split(",")),
            "confidence": confidence,
            "progress": lambda done, total: watcher.stage("ranking", done, total),
        }
        better = None if rerank is None else evaluation.score(**arguments, rerank=rerank)
        plain = evaluation.score(**arguments)
    if as_json:
        print_json(as_mapping(plain, better, per_class, worst, query_names))
        return
    print_scores(plain, better)
    if per_class:
        for row in plain.per_class():
            shown = "  ".join(f"{name} {format_score(name, v)}" for name, v in row.scores.items())
            print(f"{row.label!s:<30} {row.queries:>6} queries  {shown}")
    for query in plain.worst(number=worst) if worst else []:
        value = format_score(next(reversed(plain.per_query)), query.value)
        print(f"{query_names[query.index]}  ({query.label})  {value}")


def print_scores(plain: "Evaluation", better: "Evaluation | None") -> None:
    """Print one line per metric: score, interval, and the score after re-ranking."""
    from lookalike.training.score import format_score

    for name, value in plain.scores.items():
        line = f"{name:<12} {format_score(name, value):>8}"
        if name in plain.intervals:
            low, high = plain.intervals[name]
            line += f"  [{format_score(name, low)}, {format_score(name, high)}]"
        if better is not None:
            line += f"  re-ranked {format_score(name, better.scores[name]):>8}"
        print(line)
    if plain.queries_without_relevant:
        print(f"{plain.queries_without_relevant} queries have nothing relevant and are left out")


def as_mapping(
    plain: "Evaluation",
    better: "Evaluation | None",
    per_class: bool,
    worst: int,
    names: Any,
) -> dict[str, Any]:
    """The scores as JSON values."""
    values: dict[str, Any] = {"scores": plain.scores, "queries": plain.queries}
    values["queries_without_relevant"] = plain.queries_without_relevant
    if plain.intervals:
        values["intervals"] = plain.intervals
    if better is not None:
        values["reranked"] = better.scores
    if per_class:
        values["per_class"] = [vars(row) for row in plain.per_class()]
    if worst:
        values["worst"] = [vars(q) | {"name": names[q.index]} for q in plain.worst(number=worst)]
    return values
