"""Image by image: m of each class in a row, for a DataLoader that makes the batches."""

from collections.abc import Iterator

import numpy as np
from torch.utils.data import Sampler

from lookalike.errors import BadInput
from lookalike.samplers.base import Labels, as_labels, members_of
from lookalike.samplers.drawing import draw_some, generator

__all__ = ["MPerClassSampler"]


class MPerClassSampler(Sampler[int]):
    """PML's sampler: ``m`` images of each of several classes, one image index at a time.

    For ``DataLoader(sampler=..., batch_size=...)``. With ``batch_size`` each batch has ``m`` images
    of ``batch_size / m`` different classes; without it the classes follow one another in random
    order, and each is drawn before any is drawn twice. A class of fewer than ``m`` images repeats
    some. The batch sampler ``spc`` draws the images of a class without replacement too.

    Args:
        labels: The class of each image.
        m: Images per class.
        batch_size: That of the DataLoader; None: any.
        length_before_new_iter: How many images an epoch has, rounded down to whole batches.
        seed: None: drawn from ``np.random``, so that its seed decides.

    Raises:
        BadInput: ``m`` does not divide the batch, or there are too few classes.

    >>> sampler = MPerClassSampler([0, 0, 1, 1, 2, 2], m=2, batch_size=4, length_before_new_iter=9)
    >>> len(sampler), len(list(sampler))
    (8, 8)
    """

    def __init__(
        self,
        labels: Labels,
        m: int,
        batch_size: int | None = None,
        length_before_new_iter: int = 100000,
        seed: int | None = None,
    ) -> None:
        self.m_per_class = int(m)
        self.batch_size = None if batch_size is None else int(batch_size)
        self.members = members_of(as_labels(labels))
        self.seed = seed
        whole = self.m_per_class * len(self.members)
        if self.batch_size is None:
            self.round = min(whole, length_before_new_iter)
        else:
            self.round = self.batch_size
            self._check(whole, length_before_new_iter)
        self.list_size = length_before_new_iter - length_before_new_iter % self.round

    def _check(self, whole: int, length: int) -> None:
        if self.round % self.m_per_class:
            raise BadInput(f"a batch of {self.round} is not a multiple of m = {self.m_per_class}")
        if self.round > whole:
            raise BadInput(
                f"a batch of {self.round} needs {self.round // self.m_per_class} classes, "
                f"and there are {len(self.members)}"
            )
        if self.round > length:
            raise BadInput(
                f"length_before_new_iter = {length} is less than a batch of {self.round}"
            )

    def __len__(self) -> int:
        return self.list_size

    def __iter__(self) -> Iterator[int]:
        random = generator(self.seed)
        for _ in range(self.list_size // self.round):
            classes = random.permutation(len(self.members))
            drawn = [
                draw_some(self.members[number], self.m_per_class, random)
                for number in classes[: -(-self.round // self.m_per_class)]
            ]
            yield from np.concatenate(drawn)[: self.round].tolist()
