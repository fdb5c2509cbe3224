"""``pytorch_metric_learning.samplers``: image by image, for a DataLoader that makes the batches.

Batch samplers, which can be resumed, are in ``lookalike.samplers``.
"""

from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler, Subset, WeightedRandomSampler

from lookalike.errors import BadInput
from lookalike.samplers.base import Indices, Labels, as_labels, check_groups, members_of

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
        self.members, length = members_of(as_labels(self.labels)), self.length_before_new_iter
        if self.batch_size is not None:
            check_groups(self.batch_size, self.m, len(self.members))
        self.round = self.batch_size or min(self.m * len(self.members), length)
        if self.round > length:
            raise BadInput(
                f"length_before_new_iter = {length} is less than a batch of {self.round}"
            )
        self.list_size = length - length % self.round

    def __len__(self) -> int:
        return self.list_size

    def __iter__(self) -> Iterator[int]:
        random, number_of_classes = _generator(self.seed), -(-self.round // self.m)
        for _ in range(self.list_size // self.round):
            classes = random.permutation(len(self.members))[:number_of_classes]
            drawn = [_drawn(self.members[number], self.m, random) for number in classes]
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
        table, groups = np.asarray(torch.as_tensor(self.labels).cpu()), self.super_classes_per_batch
        if table.ndim != 2:
            raise BadInput(f"labels have shape {table.shape}; give a row of levels per image")
        per_class = 1 if self.samples_per_class == "all" else self.samples_per_class
        check_groups(self.batch_size, groups * per_class, self.batch_size)
        self.share = self.batch_size // groups
        inner = table[:, self.inner_label]
        self.classes_of = [
            [images[members] for members in members_of(as_labels(inner[images]))]
            for images in members_of(as_labels(table[:, self.outer_label]))
        ]
        self.tuples = list(combinations(self.classes_of, groups))

    def __len__(self) -> int:
        return len(self.tuples) * self.batches_per_super_tuple

    def __iter__(self) -> Iterator[list[int]]:
        random = _generator(self.seed)
        for number in random.permutation(len(self)):
            batch: list[int] = []
            for classes in self.tuples[number % len(self.tuples)]:
                batch += self._part(classes, random)
            yield random.permutation(batch).tolist()

    def _part(self, classes: list[Indices], random: np.random.Generator) -> list[int]:
        """Images of one super-class, whole classes at a time."""
        part: list[int] = []
        for number in random.permutation(len(classes)):
            images = classes[number]
            wanted = len(images) if self.samples_per_class == "all" else self.samples_per_class
            if len(part) + wanted <= self.share:
                part += _drawn(images, wanted, random).tolist()
        return part


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
        self.random = _generator(seed)
        triplets = []
        for _ in range(num_triplets):
            same, other = self.random.choice(len(members), 2, replace=False)
            pair = _drawn(members[same], 2, self.random)
            triplets.append([*pair, self.random.choice(members[other])])
        self.fixed_set_of_triplets = np.array(triplets)

    def __len__(self) -> int:
        return self.fixed_set_of_triplets.size

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
        self.weights = torch.zeros(self.size, dtype=torch.float64)
        if self.subset_size is not None and self.subset_size > self.size:
            raise BadInput(f"subset_size = {self.subset_size} is more than the {self.size} images")

    def __len__(self) -> int:
        return self.subset_size or self.size

    def __iter__(self) -> Iterator[int]:
        chosen = torch.randperm(self.size)[: len(self)]
        workers, collate = self.dataloader_num_workers, self.collate_fn
        part = Subset(self.dataset, chosen.tolist())
        loader = DataLoader(part, self.batch_size, num_workers=workers, collate_fn=collate)
        embeddings, labels = embedded(self.model, loader, self.data_device)
        named = torch.cat([part.flatten() for part in self.miner(embeddings, labels)]).cpu()
        times = torch.bincount(named, minlength=len(chosen)).double()
        self.weights = torch.zeros(self.size, dtype=torch.float64)
        self.weights[chosen] = times / times.max() if times.any() else torch.ones_like(times)
        return iter(WeightedRandomSampler(self.weights.tolist(), len(self), replacement=True))


@torch.no_grad()
def embedded(
    model: nn.Module, loader: Iterable[Any], device: torch.device | str | None
) -> tuple[Tensor, Tensor]:
    """The embeddings of all images of a loader, and their labels."""
    device = device or next(model.parameters(), torch.empty(0)).device
    learns = model.training
    model.eval()
    found = [(model(images.to(device)), labels) for images, labels in loader]
    model.train(learns)
    return torch.cat([rows for rows, _ in found]), torch.cat([y for _, y in found]).flatten()


def _generator(seed: int | None) -> np.random.Generator:
    """A generator; for None one whose seed ``np.random`` draws."""
    return np.random.default_rng(np.random.randint(2**31) if seed is None else seed)


def _drawn(items: Indices, number: int, random: np.random.Generator) -> Indices:
    """So many items, all different where there are that many."""
    return random.choice(items, number, replace=len(items) < number)
