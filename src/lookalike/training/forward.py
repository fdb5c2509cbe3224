"""Every way through the model, each with the precision and the strategy of the run.

Fabric takes care of what goes through ``forward`` only (its ``mark_forward_method`` does nothing on
a single device), so the passes are one module with one ``forward``.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, Protocol, TypeAlias

from torch import Tensor, nn

from lookalike.models import EmbeddingModel

__all__ = ["Embedder", "Passes", "Prepared"]

Way: TypeAlias = Literal["whole", "features", "embed"]


class Embedder(Protocol):
    """What an objective needs of a model."""

    def __call__(self, images: Tensor) -> Tensor:
        """Images to embeddings."""
        ...

    def features(self, images: Tensor) -> Tensor:
        """Images to feature maps."""
        ...

    def embed(self, features: Tensor) -> Tensor:
        """Feature maps, or pooled ones, to embeddings."""
        ...

    @property
    def pooling(self) -> nn.Module:
        """Feature maps to vectors, outside of what the strategy looks after."""
        ...


class Passes(nn.Module):
    """A model whose parts are called through one ``forward``."""

    def __init__(self, model: EmbeddingModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Tensor, way: Way) -> Tensor:
        """The batch through the whole model, its backbone, or its head."""
        if way == "features":
            return self.model.features(batch)
        if way == "embed":
            return self.model.embed(batch)
        embeddings: Tensor = self.model(batch)
        return embeddings


class Prepared:
    """``Passes`` as Fabric gave it back, with the face of a model.

    ``drawing`` is entered for each pass: what the random layers of the network draw from.
    """

    def __init__(
        self,
        passes: nn.Module,
        drawing: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.passes = passes
        self.drawing = drawing

    def __call__(self, images: Tensor) -> Tensor:
        """Images to embeddings."""
        return self._through(images, "whole")

    def features(self, images: Tensor) -> Tensor:
        """Images to feature maps."""
        return self._through(images, "features")

    def embed(self, features: Tensor) -> Tensor:
        """Feature maps, or pooled ones, to embeddings."""
        return self._through(features, "embed")

    @property
    def pooling(self) -> nn.Module:
        """Feature maps to vectors, outside of what the strategy looks after."""
        model: Any = self.passes.model
        found: nn.Module = model.pooling
        return found

    def _through(self, batch: Tensor, way: Way) -> Tensor:
        with self.drawing():
            found: Tensor = self.passes(batch, way)
        return found
