"""SPC-R: random batches with one pair of a class made sure of."""

from collections.abc import Iterator

import numpy as np

from lookalike.errors import BadInput
from lookalike.registry import SAMPLERS
from lookalike.samplers.base import BatchSampler, Indices, members_of

__all__ = ["ForcedPairSampler"]


@SAMPLERS.register("spc-r", paper="Roth et al., ICML 2020")
class ForcedPairSampler(BatchSampler):
    """SPC-R: each image from a class drawn at random; the last shares a class with another."""

    def plan(self, random: np.random.Generator) -> Iterator[Indices]:
        """``batch_size - 1`` images from uniformly drawn classes, then a partner for one."""
        if self.batch_size < 2:
            raise BadInput("sampler 'spc-r' makes a pair, so batch_size must be 2 at least")
        members = members_of(self.labels)
        sizes = np.array([len(images) for images in members])
        starts = np.concatenate([[0], sizes.cumsum()[:-1]])
        order = np.concatenate(members)
        for _ in range(len(self)):
            chosen = draw_classes(random, len(members), self.batch_size - 1)
            images = order[starts[chosen] + random.integers(0, sizes[chosen])]
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


def draw_classes(random: np.random.Generator, classes: int, count: int) -> Indices:
    """Classes drawn evenly: all different while there are enough of them."""
    rounds = -(-count // classes)
    return np.concatenate([random.permutation(classes) for _ in range(rounds)])[:count]
