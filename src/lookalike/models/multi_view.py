"""Embeddings of several views of an image, averaged."""

from torch import Tensor, nn

from lookalike.data import Views
from lookalike.models.embedding import EmbeddingModel
from lookalike.models.head import l2_normalise

__all__ = ["MultiView", "multi_view"]


class MultiView(nn.Module):
    """The mean of the embeddings of several views, of length 1 where each embedding is.

    Args:
        model: The model.
        views: The views that are made of its input.
    """

    def __init__(self, model: EmbeddingModel, views: Views) -> None:
        super().__init__()
        self.model = model
        self.views = views
        self.training = model.training

    def forward(self, images: Tensor) -> Tensor:
        """The embeddings of images."""
        found = [self.model(view) for view in self.views.of(images)]
        mean = sum(found[1:], start=found[0]) / len(found)
        return l2_normalise(mean) if self.model.head.normalize else mean


def multi_view(model: EmbeddingModel, views: Views) -> nn.Module:
    """A model on several views of its input.

    Args:
        model: The model.
        views: The views.

    Returns:
        Images in, averaged embeddings out; the model itself where there is only one view.
    """
    return model if views.is_single else MultiView(model, views)
