"""``pytorch_metric_learning.samplers``: image by image, for a DataLoader that makes the batches.

Batch samplers, which can be resumed, are in ``lookalike.samplers``.
"""

from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler, Subset, WeightedRandomSampler

from lookalike.errors import BadInput
from lookalike.samplers.base import Indices, Labels, as_labels, members_of

__all__ = [
    "FixedSetOfTriplets",
    "HierarchicalSampler",
    "MPerClassSampler",
    "TuplesToWeightsSampler",
]


@dataclass(eq=False, repr=False)
class MPerClassSampler(Sampler[int]):
    """``m`` images of each of several classes, one image index at a time.

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

    labels: Labels
    m: int
    batch_size: int | None = None
    length_before_new_iter: int = 100000
    seed: int | None = None

    def __post_init__(self) -> None:
        self.m_per_class = int(self.m)
        self.members = members_of(as_labels(self.labels))
        whole, length = self.m_per_class * len(self.members), self.length_before_new_iter
        if self.batch_size is None:
            self.round = min(whole, length)
        else:
            self.round = int(self.batch_size)
            self._check(whole, length)
        self.list_size = length - length % self.round

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
        random = _generator(self.seed)
        for _ in range(self.list_size // self.round):
            classes = random.permutation(len(self.members))
            drawn = [
                _drawn(self.members[number], self.m_per_class, random)
                for number in classes[: -(-self.round // self.m_per_class)]
            ]
            yield from np.concatenate(drawn)[: self.round].tolist()


@dataclass(eq=False, repr=False)
class HierarchicalSampler(Sampler[list[int]]):
    """So many batches for each tuple of super-classes.

    A batch has equally many images of each super-class of its tuple, so its negatives are hard. It
    may be smaller where classes do not fill it. The batch sampler ``hierarchical`` draws the
    super-classes at random instead of all tuples of them.

    Args:
        labels: [images, levels], a column of classes and one of super-classes.
        batch_size: Images per batch.
        samples_per_class: Images per class, or ``all`` that it has.
        batches_per_super_tuple: Batches for each tuple, in an epoch.
        super_classes_per_batch: Super-classes in a tuple.
        inner_label: The column of classes.
        outer_label: The column of super-classes.
        seed: None: drawn from ``np.random``, so that its seed decides.

    Raises:
        BadInput: The batch is not a multiple of super-classes and images per class.
    """

    labels: Tensor | NDArray[Any]
    batch_size: int
    samples_per_class: int | Literal["all"]
    batches_per_super_tuple: int = 4
    super_classes_per_batch: int = 2
    inner_label: int = 0
    outer_label: int = 1
    seed: int | None = None

    def __post_init__(self) -> None:
        labels, groups = self.labels, self.super_classes_per_batch
        table = np.asarray(labels.cpu() if isinstance(labels, Tensor) else labels)
        if table.ndim != 2:
            raise BadInput(f"labels have shape {table.shape}; give a row of levels per image")
        per_class = 1 if self.samples_per_class == "all" else self.samples_per_class
        if per_class < 1 or self.batch_size % (groups * per_class):
            raise BadInput(
                f"a batch of {self.batch_size} is not a multiple of {groups} "
                f"super-classes with {self.samples_per_class} images per class"
            )
        self.share = self.batch_size // groups
        outer, inner = as_labels(table[:, self.outer_label]), as_labels(table[:, self.inner_label])
        self.classes_of = [_by_class(images, inner) for images in members_of(outer)]
        self.tuples = list(combinations(range(len(self.classes_of)), groups))

    def __len__(self) -> int:
        return len(self.tuples) * self.batches_per_super_tuple

    def __iter__(self) -> Iterator[list[int]]:
        random = _generator(self.seed)
        for number in random.permutation(len(self)):
            groups = self.tuples[number % len(self.tuples)]
            batch = [image for group in groups for image in self._part(group, random)]
            yield random.permutation(batch).tolist()

    def _part(self, group: int, random: np.random.Generator) -> list[int]:
        """Images of one super-class, whole classes at a time."""
        part: list[int] = []
        for number in random.permutation(len(self.classes_of[group])):
            images = self.classes_of[group][number]
            wanted = len(images) if self.samples_per_class == "all" else self.samples_per_class
            if len(part) + wanted <= self.share:
                part += _drawn(images, wanted, random).tolist()
        return part


def _by_class(images: Indices, classes: Indices) -> list[Indices]:
    """The images of each class that occurs among these."""
    return [images[members] for members in members_of(as_labels(classes[images]))]


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
        self.random = _generator(seed)
        triplets = []
        for _ in range(self.num_triplets):
            same, other = self.random.choice(len(members), 2, replace=False)
            pair = _drawn(members[same], 2, self.random)
            triplets.append([*pair, self.random.choice(members[other])])
        self.fixed_set_of_triplets = np.array(triplets)

    def __len__(self) -> int:
        return 3 * self.num_triplets

    def __iter__(self) -> Iterator[int]:
        self.random.shuffle(self.fixed_set_of_triplets)
        return iter(self.fixed_set_of_triplets.flatten().tolist())


@dataclass(eq=False, repr=False)
class TuplesToWeightsSampler(Sampler[int]):
    """Images drawn by how often a miner names them, in the embeddings of this epoch.

    At the start of an epoch the model embeds the data set, or a random part of it, and the miner
    looks for tuples in it. An image is then drawn by how often it is part of one.

    Args:
        model: From a batch of images to embeddings.
        miner: Any miner.
        dataset: Gives an image and its class.
        subset_size: How many images are embedded and drawn; None: all.
        batch_size: Images that are embedded at once.
        dataloader_num_workers: Processes that load them.
        data_device: Where the model is; None: the device of its weights.
        collate_fn: As that of a DataLoader.

    Raises:
        BadInput: The part is larger than the data set.
    """

    model: nn.Module
    miner: Callable[[Tensor, Tensor], Any]
    dataset: Dataset[Any]
    subset_size: int | None = None
    batch_size: int = 32
    dataloader_num_workers: int = 0
    data_device: torch.device | str | None = None
    collate_fn: Callable[[list[Any]], Any] | None = None

    def __post_init__(self) -> None:
        assert isinstance(self.dataset, Sized)
        self.size = len(self.dataset)
        if self.subset_size is not None and self.subset_size > self.size:
            raise BadInput(f"subset_size = {self.subset_size} is more than the {self.size} images")
        self.weights: Tensor | None = None

    def __len__(self) -> int:
        return self.subset_size or self.size

    def __iter__(self) -> Iterator[int]:
        chosen = torch.randperm(self.size)[: len(self)]
        embeddings, labels = self._embed(chosen)
        named = torch.cat([part.flatten() for part in self.miner(embeddings, labels)]).cpu()
        times = torch.bincount(named, minlength=len(chosen)).double()
        self.weights = torch.zeros(self.size, dtype=torch.float64)
        self.weights[chosen] = times / times.max() if times.any() else torch.ones_like(times)
        return iter(WeightedRandomSampler(self.weights.tolist(), len(self), replacement=True))

    @torch.no_grad()
    def _embed(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        device = self.data_device or next(self.model.parameters(), torch.empty(0)).device
        loader = DataLoader(
            Subset(self.dataset, chosen.tolist()),
            self.batch_size,
            num_workers=self.dataloader_num_workers,
            collate_fn=self.collate_fn,
        )
        learns = self.model.training
        self.model.eval()
        try:
            found = [(self.model(images.to(device)), labels) for images, labels in loader]
        finally:
            self.model.train(learns)
        return torch.cat([rows for rows, _ in found]), torch.cat([y for _, y in found]).flatten()


def _generator(seed: int | None) -> np.random.Generator:
    """A generator; for None one whose seed ``np.random`` draws."""
    return np.random.default_rng(np.random.randint(2**31) if seed is None else seed)


def _drawn(items: Indices, number: int, random: np.random.Generator) -> Indices:
    """So many items, all different where there are that many."""
    return random.choice(items, number, replace=len(items) < number)
