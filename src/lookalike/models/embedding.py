"""The whole model: backbone, head, and which parameters are trainable."""

from collections.abc import Iterator
from typing import Self

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from lookalike.data import ONE_VIEW, Views
from lookalike.data.transforms import Normalisation
from lookalike.models.backbone import Backbone
from lookalike.models.head import Head, l2_normalise


class EmbeddingModel(nn.Module):
    """Images -> embeddings: ``head(backbone(images))``.

    Mixing works between the two: ``features`` returns the map before pooling, ``embed`` continues
    from a map. Frozen parts stay frozen in ``train()`` and during warm-up. In evaluation the
    embedding is the mean of those of several views, of length 1 where each of them is.

    Args:
        backbone: Images to feature maps.
        head: Feature maps to embeddings.
        views: The views of its input that are averaged in evaluation.
    """

    def __init__(self, backbone: Backbone, head: Head, views: Views = ONE_VIEW) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.views = views
        self._used = {name for name, p in backbone.named_parameters() if p.requires_grad}
        self._frozen_statistics = False
        self._frozen_affine = False
        self._frozen_backbone = False
        self._warming_up = False

    @property
    def normalisation(self) -> Normalisation:
        """The normalisation of the input."""
        return self.backbone.normalisation

    @property
    def dim(self) -> int:
        """The size of an embedding."""
        return self.head.dim

    @property
    def pooling(self) -> nn.Module:
        """From feature maps to vectors, which ``embed`` accepts too."""
        return self.head.pool

    def features(self, images: Tensor) -> Tensor:
        """The feature map [B, C, H, W] before pooling."""
        found: Tensor = self.backbone(images)
        return found

    def embed(self, features: Tensor) -> Tensor:
        """The embeddings of feature maps, pooled or not."""
        embeddings: Tensor = self.head(features)
        return embeddings

    def forward(self, images: Tensor) -> Tensor:
        """The embeddings of images."""
        if self.training or self.views.is_single:
            return self.embed(self.features(images))
        embedded = [self.embed(self.features(view)) for view in self.views.of(images)]
        mean = sum(embedded[1:], start=embedded[0]) / len(embedded)
        return l2_normalise(mean) if self.head.normalize else mean

    @classmethod
    def of_features(
        cls, width: int, *, dim: int, layer_norm: bool = False, normalize: bool = True
    ) -> Self:
        """A model of pooled features [B, width, 1, 1]: a head without a network."""
        nothing = Backbone(nn.Identity(), width=width, normalisation=Normalisation())
        return cls(nothing, Head(width, dim=dim, layer_norm=layer_norm, normalize=normalize))

    def without_linear(self) -> "EmbeddingModel":
        """A model that returns the input of this head's linear layer."""
        head = Head(self.backbone.width, dim=0, normalize=False)
        head.pool, head.norm = self.head.pool, self.head.norm
        return EmbeddingModel(self.backbone, head, self.views)

    def freeze(
        self, *, bn_statistics: bool = False, bn_affine: bool = False, backbone: bool = False
    ) -> None:
        """Freeze parts of the model; each call replaces the settings of the last.

        Args:
            bn_statistics: Batch norm uses its running mean and variance and does not update them.
            bn_affine: Batch norm's scale and shift have no gradient.
            backbone: The backbone has no gradient and is always in evaluation mode.
        """
        self._frozen_statistics = bn_statistics
        self._frozen_affine = bn_affine
        self._frozen_backbone = backbone
        self._apply_gradients()
        self.train(self.training)

    def set_backbone_trainable(self, trainable: bool) -> None:
        """Warm-up: False trains the head only, True ends it; frozen parts stay frozen.

        Only gradients are switched; batch norm's statistics are left to :meth:`freeze`.
        """
        self._warming_up = not trainable
        self._apply_gradients()

    def train(self, mode: bool = True) -> Self:
        """Training or evaluation mode, except for what is frozen."""
        super().train(mode)
        if self._frozen_backbone:
            self.backbone.eval()
        if self._frozen_statistics:
            for layer in self._batch_norms():
                layer.eval()
        return self

    def _apply_gradients(self) -> None:
        learns = not (self._warming_up or self._frozen_backbone)
        for name, parameter in self.backbone.named_parameters():
            parameter.requires_grad_(learns and name in self._used)
        if self._frozen_affine:
            for layer in self._batch_norms():
                for parameter in layer.parameters(recurse=False):
                    parameter.requires_grad_(False)

    def _batch_norms(self) -> Iterator[nn.Module]:
        return (layer for layer in self.backbone.modules() if isinstance(layer, _BatchNorm))
