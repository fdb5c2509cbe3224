"""Pictures whose neighbours disagree with their label."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BadInput
from lookalike.evaluation import nearest
from lookalike.inference.encoder import Vectors


@dataclass(frozen=True)
class Suspect:
    """A picture whose neighbours vote for another label.

    ``agreement`` is the share of the vote for its own label, ``share`` that for ``proposed``;
    ``row`` and ``neighbours`` are rows of the given arrays.
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
    """Pictures whose ``k`` nearest others give at least ``at_least`` of the vote to another label.

    Votes weigh e^(s / temperature) as in k-NN classification (Wu et al., CVPR 2018). Labels with a
    single picture are left out, as no other picture can agree. The most certain come first.
    """
    if len(vectors) < 3:
        raise BadInput(f"{len(vectors)} pictures are too few to compare with their neighbours")
    similar, found = nearest(vectors, vectors, k + 1)
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
            label, proposed, share = int(labels[row]), int(names[best]), float(shares[best])
            suspects.append(Suspect(row, label, proposed, own, share, tuple(near.tolist())))
    return sorted(suspects, key=lambda s: (s.agreement - s.share, s.row))
