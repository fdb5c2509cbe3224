"""Embeddings to evaluate: of a finished run, a file, or an untrained network."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.config import load_trusted
from lookalike.errors import BadInput
from lookalike.evaluation import EmbeddingsFile, read_embeddings
from lookalike.progress import Watcher
from lookalike.runs.run import Run, test_embeddings
from lookalike.training.runner import train

UNTRAINED = {
    "train.epochs": "0",
    "model.dim": "0",
    "protocol.name": "paper",
    "data.transform": "small",
    "sampler.name": "random",
    "sampler.batch_size": "1",
}


@dataclass(frozen=True)
class Target:
    """Embeddings and labels to evaluate, and the name of each query."""

    sets: EmbeddingsFile
    names: Sequence[str]

    def arguments(self) -> dict[str, Any]:
        """The arguments of ``evaluation.score``."""
        return dict(self.sets.arguments())


def read_target(given: Sequence[str], labels: Path | None, watcher: Watcher) -> Target:
    """The target for a run's folder, an ``.npz`` or ``.npy`` file, or ``key=value`` settings.

    Settings name a data set and a network, which is evaluated untrained, without a head, on the
    test classes. Nothing is kept of it unless ``runs_dir`` is among the settings.
    """
    if all("=" in part for part in given):
        named = {part.partition("=")[0] for part in given}
        rest = [f"{key}={value}" for key, value in UNTRAINED.items() if key not in named]
        with tempfile.TemporaryDirectory() as folder:
            config = load_trusted(None, [f"runs_dir={folder}", *rest, *given])
            if config.model.weights == "none":
                watcher.note("random weights; model.weights=imagenet takes trained ones")
            return of_run(train(config, watcher))
    if len(given) > 1:
        raise BadInput(f"one run or file at a time, not {len(given)}: {', '.join(given)}")
    path = Path(given[0])
    if path.is_dir():
        return of_run(Run(path))
    if not path.is_file():
        raise BadInput(f"'{path}' is neither the folder of a run nor an .npz or .npy file")
    sets = read_embeddings(path, labels)
    return Target(sets, [f"row {number}" for number in range(len(sets.embeddings))])


def of_run(run: Run) -> Target:
    """The test embeddings of a finished run; labels are the names of the classes."""
    found = test_embeddings(run)
    rows = found.embeddings.numpy()
    labels = np.asarray(found.images.class_names)[found.labels]
    files = [found.images.files[index] for index in found.indices]
    if found.query is None or found.gallery is None:
        return Target(EmbeddingsFile(rows, labels), files)
    query, gallery = found.query, found.gallery
    sets = EmbeddingsFile(rows[query], labels[query], rows[gallery], labels[gallery])
    return Target(sets, [files[place] for place in np.flatnonzero(query)])
