"""Metrics that read the embeddings of the training images.

Utilisation: Venkataramanan et al., "It Takes Two to Tango: Mixup for Deep Metric Learning", ICLR
2022 (Metrix). ``train-...``: Roth et al. relate the structure of the training embeddings to the
scores on test classes.
"""

from collections.abc import Callable
from functools import wraps

from lookalike.errors import BadInput
from lookalike.evaluation.inputs import ArrayLike, Distance, embeddings_of
from lookalike.evaluation.metrics import diagnostic, needs_training
from lookalike.evaluation.neighbours import nearest
from lookalike.evaluation.space import ROTH, STRUCTURE, EmbeddingSpace
from lookalike.registry import METRICS


def utilization(
    test: ArrayLike, training: ArrayLike, *, distance: Distance = "cosine", memory_mb: int = 512
) -> float:
    """Mean over test items of the squared distance to the nearest training item.

    ``u(Q, X) = 1/|Q| sum_(q in Q) min_(x in X) |q - x|^2`` (Metrix): low where the training
    embeddings, clean or clean and mixed together, cover the places of the test items. Exact, in
    blocks.

    Args:
        test: One row per test item.
        training: One row per training item.
        distance: "cosine" (rows of unit length), or "l2" (rows as given).
        memory_mb: Memory for blocks of distances.

    Returns:
        The mean.

    Raises:
        BadInput: One of the two is empty, or their numbers of columns differ.

    >>> utilization([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]])
    1.0
    """
    queries = embeddings_of(test, "test embeddings", distance)
    items = embeddings_of(training, "training embeddings", distance).to(queries.device)
    if len(queries) == 0:
        raise BadInput("there are no test embeddings")
    if len(items) == 0:
        raise BadInput("there are no training embeddings")
    places = nearest(queries, items, 1, distance=distance, memory_mb=memory_mb)[1][:, 0]
    gaps = queries.double() - items[places].double()
    return float(gaps.square().sum(1).mean())


@METRICS.register("utilization", paper="Venkataramanan et al., ICLR 2022")
@diagnostic
@needs_training
def utilization_of_space(space: EmbeddingSpace) -> float:
    """Mean over test items of the squared distance to the nearest training item."""
    return utilization(space.embeddings, training_of(space).embeddings, distance="l2")


def training_of(space: EmbeddingSpace) -> EmbeddingSpace:
    """The training embeddings that belong to a space."""
    if space.training is None:
        raise BadInput("the embeddings of the training images are not at hand")
    return space.training


def of_training(metric: Callable[..., float]) -> Callable[..., float]:
    """The same metric of the training embeddings."""

    @diagnostic
    @needs_training
    @wraps(metric)
    def found(space: EmbeddingSpace, *k: int) -> float:
        return metric(training_of(space), *k)

    found.__doc__ = f"Of the training images: {metric.__doc__}"
    return found


for _name, _metric in STRUCTURE.items():
    METRICS.register(f"train-{_name}", paper=ROTH)(of_training(_metric))
