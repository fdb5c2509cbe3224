import pytest
import torch

from lookalike import losses


@pytest.fixture
def batch():
    """Unit embeddings in float64 and labels: several classes of unequal size, one of one image."""

    def make(labels=(3, 8, 3, 5, 8, 3, 1, 5, 8), dim=5, seed=0, dtype=torch.float64):
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randn(len(labels), dim, generator=generator, dtype=dtype)
        rows = torch.nn.functional.normalize(rows, dim=1)
        return rows.requires_grad_(), torch.tensor(labels)

    return make


@pytest.fixture
def built():
    """A loss by name, in float64, with sizes where it wants them."""

    def make(name, embedding_size=5, num_classes=10, **arguments):
        sizes = {"num_classes": num_classes, "embedding_size": embedding_size}
        wanted = losses.LOSSES.arguments(name) or {}
        torch.manual_seed(1)
        arguments = {k: v for k, v in sizes.items() if k in wanted} | arguments
        return losses.create(name, **arguments).double()

    return make
