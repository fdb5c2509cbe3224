"""The network's own features where there are too few classes to train: every class tests them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike import evaluation
from lookalike.compare.uncertainty import Bounds, class_intervals
from lookalike.data import ImageSet
from lookalike.evaluation.class_table import ClassTable


@dataclass(frozen=True)
class Untrained:
    """The scores of the network's own features, of which every class is a test class.

    Attributes:
        metric: The metric.
        score: The score.
        bounds: The interval over classes, where there are enough.
        classes: How many classes could be scored.
        dim: Numbers of an embedding.
    """

    metric: str
    score: float
    bounds: Bounds | None
    classes: int
    dim: int


def score_untrained(
    features: np.ndarray[Any, np.dtype[np.float32]], images: ImageSet, metric: str
) -> Untrained:
    """The score of features that nobody trained, over all classes.

    Args:
        features: One row for each image.
        images: The data set.
        metric: The metric.

    Returns:
        The score, with an interval over classes where there are enough of them.
    """
    found = evaluation.score(features, images.labels, (metric,))
    table = ClassTable.of(found, images.class_names)
    bounds = None
    if table is not None:
        column = table.column(metric)[None]
        bounds = class_intervals({"raw": column}, table.queries).get("raw")
    count = 0 if table is None else len(table.classes)
    return Untrained(metric, found.scores[metric], bounds, count, features.shape[1])
