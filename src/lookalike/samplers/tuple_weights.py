"""Images drawn by how often a miner names them."""

from collections.abc import Callable, Iterator, Sized
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler, Subset, WeightedRandomSampler

from lookalike.errors import BadInput

__all__ = ["TuplesToWeightsSampler"]


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

    def __init__(
        self,
        model: nn.Module,
        miner: Callable[[Tensor, Tensor], Any],
        dataset: Dataset[Any],
        subset_size: int | None = None,
        batch_size: int = 32,
        dataloader_num_workers: int = 0,
        data_device: torch.device | str | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        assert isinstance(dataset, Sized)
        self.size = len(dataset)
        if subset_size is not None and subset_size > self.size:
            raise BadInput(f"subset_size = {subset_size} is more than the {self.size} images")
        self.model = model
        self.miner = miner
        self.dataset = dataset
        self.subset_size = subset_size
        self.loading: dict[str, Any] = {
            "batch_size": batch_size,
            "num_workers": dataloader_num_workers,
            "collate_fn": collate_fn,
        }
        self.device = data_device
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
        device = self.device or next(self.model.parameters(), torch.empty(0)).device
        loader = DataLoader(Subset(self.dataset, chosen.tolist()), **self.loading)
        learns = self.model.training
        self.model.eval()
        try:
            found = [(self.model(images.to(device)), labels) for images, labels in loader]
        finally:
            self.model.train(learns)
        return torch.cat([rows for rows, _ in found]), torch.cat([y for _, y in found]).flatten()
