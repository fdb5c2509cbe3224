"""What a finished run leaves behind: its model, and what it says about its test images."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from lookalike import data, models
from lookalike.data import ImageSet
from lookalike.errors import BadInput, LookalikeError
from lookalike.models.weights import read_tensors
from lookalike.runs.run import Run

__all__ = ["TestEmbeddings", "model_tensors", "test_embeddings"]


def model_tensors(run: Run) -> dict[str, Tensor]:
    """The weights of the whole chosen model of ``run``, by name.

    A run on frozen features keeps its head only; the network is that of its configuration.
    """
    wanted, kept = run.config.model, read_tensors(run.weights)
    if not wanted.frozen:
        return kept
    if models.fingerprint(wanted.network, wanted.weights) != run.result["weights_fingerprint"]:
        raise LookalikeError(
            f"the weights of '{wanted.network}' are not those that '{run.folder}' was trained with"
        )
    network = models.build(wanted.network, weights=wanted.weights, dim=0).backbone
    return {f"backbone.{name}": value for name, value in network.state_dict().items()} | kept


@dataclass(frozen=True)
class TestEmbeddings:
    """The embeddings of a run's test images, and what is known of these images."""

    __test__ = False  # not a test case

    embeddings: Tensor
    indices: NDArray[np.int64]
    images: ImageSet

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each row."""
        return self.images.labels[self.indices]

    @property
    def query(self) -> NDArray[np.bool_] | None:
        """The rows that ask, where the data set says which."""
        return None if self.images.query is None else self.images.query[self.indices]

    @property
    def gallery(self) -> NDArray[np.bool_] | None:
        """The rows that answer, where the data set says which."""
        return None if self.images.gallery is None else self.images.gallery[self.indices]


def test_embeddings(run: Run) -> TestEmbeddings:
    """Read what the final test of ``run`` left behind, and check that the data are the same."""
    config, result = run.config, run.result
    path = run.folder / "test.safetensors"
    if not path.is_file():
        raise BadInput(f"the run in '{run.folder}' was not tested (protocol.test=false)")
    images = data.load(config.data.name, config.data.root, config.data.skip_unreadable)
    if images.fingerprint != result["data_fingerprint"]:
        raise LookalikeError(
            f"the images of '{config.data.name}' are not those that '{run.folder}' was tested on"
        )
    tensors = load_file(str(path))
    return TestEmbeddings(tensors["embeddings"], tensors["indices"].numpy(), images)


test_embeddings.__test__ = False  # type: ignore[attr-defined]
