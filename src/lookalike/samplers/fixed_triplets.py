"""A fixed set of triplets, for experiments in which triplets are all that is known."""

from collections.abc import Iterator

import numpy as np
from torch.utils.data import Sampler

from lookalike.errors import BadInput
from lookalike.samplers.base import Labels, as_labels, members_of
from lookalike.samplers.drawing import draw_some, generator

__all__ = ["FixedSetOfTriplets"]


class FixedSetOfTriplets(Sampler[int]):
    """The same triplets in every epoch, in a new order: anchor, positive, negative, anchor, ...

    The miner ``EmbeddingsAlreadyPackagedAsTriplets`` reads them from a batch.

    Args:
        labels: The class of each image.
        num_triplets: How many triplets are drawn once and for all.
        seed: None: drawn from ``np.random``, so that its seed decides.

    Raises:
        BadInput: There are fewer than two classes, or no triplets are asked for.

    >>> len(list(FixedSetOfTriplets([0, 0, 1, 1], num_triplets=5, seed=0)))
    15
    """

    def __init__(self, labels: Labels, num_triplets: int, seed: int | None = None) -> None:
        members = members_of(as_labels(labels))
        if len(members) < 2 or num_triplets < 1:
            raise BadInput(
                f"{num_triplets} triplets of {len(members)} classes: there must be at least one "
                "triplet and two classes"
            )
        self.num_triplets = int(num_triplets)
        self.random = generator(seed)
        triplets = []
        for _ in range(self.num_triplets):
            same, other = self.random.choice(len(members), 2, replace=False)
            pair = draw_some(members[same], 2, self.random)
            triplets.append([*pair, self.random.choice(members[other])])
        self.fixed_set_of_triplets = np.array(triplets)

    def __len__(self) -> int:
        return 3 * self.num_triplets

    def __iter__(self) -> Iterator[int]:
        self.random.shuffle(self.fixed_set_of_triplets)
        return iter(self.fixed_set_of_triplets.flatten().tolist())
