"""SPC-R: random batches with at least one positive pair."""

from collections.abc import Iterator

import numpy as np

from lookalike.errors import BadInput
from lookalike.registry import SAMPLERS
from lookalike.samplers.base import BatchSampler, Indices, members_of

__all__ = ["ForcedPairSampler"]


@SAMPLERS.register("spc-r", paper="Roth et al., ICML 2020")
class ForcedPairSampler(BatchSampler):
    """SPC-R: each image from a class drawn at random; the last shares a class with another.

    The classes of the first ``batch_size - 1`` images are drawn uniformly with replacement, so a
    class may occur several times; its images differ while there are enough of them. The class of
    the last image is that of one of the others.
    """

    def plan(self, random: np.random.Generator) -> Iterator[Indices]:
        """``batch_size - 1`` images from uniformly drawn classes, then a partner for one."""
        if self.batch_size < 2:
            raise BadInput("sampler 'spc-r' makes a pair, so batch_size must be at least 2")
        members = members_of(self.labels)
        for _ in range(len(self)):
            classes = random.integers(len(members), size=self.batch_size - 1)
            images = np.empty_like(classes)
            for number in np.unique(classes):
                places = np.flatnonzero(classes == number)
                images[places] = np.resize(random.permutation(members[number]), len(places))
            yield np.append(images, self._partner(random, images, members))

    def _partner(
        self, random: np.random.Generator, images: Indices, members: list[Indices]
    ) -> np.int64:
        """Another image of the class of one of ``images``, where any of them has one."""
        for image in random.permutation(images):
            others = members[self.labels[image]]
            others = others[~np.isin(others, images)]
            if len(others):
                return np.int64(random.choice(others))
        return np.int64(random.choice(images))
