"""Direction regularisation: do not push a negative the way the positive pulls.

``cos(x_p - x_a, x_n - x_a)``, times a weight, is taken off a negative's violation (Mohan et al.,
CVPR 2020). It follows from distances alone, by the law of cosines.
"""

import torch
from torch import Tensor

from lookalike.distances import Distance
from lookalike.relations import Relations

__all__ = ["candidate_directions", "direction_cosine"]


def direction_cosine(ap: Tensor, an: Tensor, pn: Tensor) -> Tensor:
    """``(ap + an - pn) / (2 sqrt(ap an))`` of squared distances; 0 where one of them is 0.

    >>> direction_cosine(torch.tensor(1.0), torch.tensor(1.0), torch.tensor(2.0))
    tensor(0.)
    """
    area = ap * an
    positive = area > torch.finfo(area.dtype).eps ** 2
    return torch.where(positive, (ap + an - pn) / (2 * area.where(positive, 1).sqrt()), 0)


def candidate_directions(
    r: Relations, distance: Distance, positives: Tensor, between: Tensor
) -> Tensor:
    """``cos(x_p - x_a, x_n - x_a)`` of all candidates n; ``positives`` [anchors] names each p.

    ``between`` are the similarities of the candidates to one another.
    """
    return direction_cosine(
        distance.squared_euclidean(r.similarity.gather(1, positives.unsqueeze(1))),
        distance.squared_euclidean(r.similarity),
        distance.squared_euclidean(between.index_select(0, positives)),
    )
