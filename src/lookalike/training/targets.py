"""Scores of whatever has embeddings: a finished run, a file, an untrained network."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike import evaluation
from lookalike.config import load
from lookalike.errors import BadInput
from lookalike.training.finished import test_embeddings
from lookalike.training.loop import train
from lookalike.training.run import Run
from lookalike.training.score import score
from lookalike.training.watcher import Watcher

__all__ = ["score_target"]

UNTRAINED = ["train.epochs=0", "model.dim=0", "protocol.name=paper", "data.transform=small"]


def score_target(
    target: Sequence[str], metrics: tuple[str, ...], watcher: Watcher
) -> dict[str, float]:
    """The scores of a run's folder, of an ``.npz`` file, or of ``key=value`` settings.

    Settings name a data set and a network, which is scored as it is, without a head.
    """
    if all("=" in part for part in target):
        run = train(load(None, [*UNTRAINED, *target]), watcher)
        return score_run(run, metrics)
    if len(target) > 1:
        raise BadInput(f"one run or file at a time, not {len(target)}: {', '.join(target)}")
    path = Path(target[0])
    if path.suffix == ".npz" and path.is_file():
        return score_file(path, metrics)
    if path.is_dir():
        return score_run(Run(path), metrics)
    raise BadInput(f"'{path}' is neither the folder of a run nor an .npz file")


def score_run(run: Run, metrics: tuple[str, ...]) -> dict[str, float]:
    """The scores of a finished run's test embeddings."""
    found = test_embeddings(run)
    return score(found.embeddings, found.labels, found.query, found.gallery, metrics)


def score_file(path: Path, metrics: tuple[str, ...]) -> dict[str, float]:
    """The scores of an ``.npz`` with embeddings and labels, and perhaps a gallery."""
    arrays = read_arrays(path)
    for needed in ("embeddings", "labels"):
        if needed not in arrays:
            raise BadInput(f"'{path}' has no array '{needed}'; it has: {', '.join(arrays)}")
    return evaluation.evaluate(
        arrays["embeddings"],
        arrays["labels"],
        metrics,
        arrays.get("gallery"),
        arrays.get("gallery_labels"),
    )


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an ``.npz``; none of them may need pickle."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError) as error:
        raise BadInput(f"cannot read '{path}' as .npz: {error}") from error
