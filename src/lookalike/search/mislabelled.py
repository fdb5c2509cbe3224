"""Pictures whose neighbours disagree with their label."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike.errors import BadInput
from lookalike.evaluation import nearest
from lookalike.inference.encoder import Vectors

__all__ = ["Suspect", "find_mislabelled"]


@dataclass(frozen=True)
class Suspect:
    """A picture that its neighbours take for something else.

    ``agreement`` is the share of the vote for its own label, ``share`` that for ``proposed``;
    ``row`` and ``neighbours`` count in the arrays that were given.
    """

    row: int
    label: int
    proposed: int
    agreement: float
    share: float
    neighbours: tuple[int, ...]


def find_mislabelled(
    vectors: Vectors,
    labels: NDArray[np.int64],
    *,
    k: int = 10,
    temperature: float = 0.07,
    at_least: float = 0.7,
) -> list[Suspect]:
    """Pictures for which the ``k`` nearest others vote with ``at_least`` for one other label.

    Votes weigh e^(s / temperature) as in k-NN classification (Wu et al., CVPR 2018). Labels with a
    single picture are left out: nobody could agree with it. The surest come first.
    """
    if len(vectors) < 3:
        raise BadInput(f"{len(vectors)} pictures are too few to ask their neighbours")
    similar, found = nearest(
        torch.from_numpy(np.asarray(vectors)), torch.from_numpy(np.asarray(vectors)), k + 1
    )
    counts = np.bincount(labels)
    suspects = []
    for row, (values, places) in enumerate(zip(similar.numpy(), found.numpy(), strict=True)):
        if counts[labels[row]] < 2:
            continue
        others = places != row
        near, close = places[others][:k], values[others][:k]
        votes = np.exp((close - close.max()) / temperature)
        votes /= votes.sum()
        names, codes = np.unique(labels[near], return_inverse=True)
        shares = np.bincount(codes, votes)
        best = int(shares.argmax())
        own = float(shares[names == labels[row]].sum())
        if names[best] != labels[row] and shares[best] >= at_least:
            suspects.append(
                Suspect(
                    row,
                    int(labels[row]),
                    int(names[best]),
                    own,
                    float(shares[best]),
                    tuple(near.tolist()),
                )
            )
    return sorted(suspects, key=lambda s: (s.agreement - s.share, s.row))
