"""From pictures to unit vectors, with any runtime."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from lookalike.data import Normalisation, Preset
from lookalike.data.cache import resized_image
from lookalike.errors import LookalikeError
from lookalike.inference.pictures import Pictures, as_pictures
from lookalike.ops.rows import normalize_rows

Vectors = NDArray[np.float32]


class Encoder(ABC):
    """Prepares pictures as in the network's test, runs it, and scales vectors to unit length.

    Args:
        preset: The transform by which pictures become the input.
        normalisation: How pixels are scaled.
        dim: The length of a vector.
        fingerprint: Identifies weights, transform and network: vectors of two encoders can be
            compared only where it is equal.
    """

    def __init__(
        self, preset: Preset, normalisation: Normalisation, dim: int, fingerprint: str
    ) -> None:
        self.preset = preset
        self.normalisation = normalisation
        self.dim = dim
        self.fingerprint = fingerprint

    def prepare(self, image: Image.Image) -> Tensor:
        """The pixels of one picture as the image cache stores them, uint8 [C, H, W]."""
        image = image if image.mode == "RGB" else image.convert("RGB")  # which would copy it
        size = self.preset.size
        if self.preset.resize is None and size is not None:
            image = image.resize((size, size)) if image.size != (size, size) else image
        else:
            image = resized_image(image, self.preset.resize)
        return torch.from_numpy(np.array(image)).permute(2, 0, 1)

    def batch(self, pixels: Sequence[Tensor]) -> Tensor:
        """Prepared pictures as the input of the network, float32 [B, C, S, S]."""
        return self.normalisation(self.preset.centre(pixels), torch.channels_last)

    @abstractmethod
    def run(self, batch: Tensor) -> Tensor:
        """The embeddings of a batch, not yet of unit length."""

    def embed_prepared(self, pixels: Sequence[Tensor], batch_size: int = 64) -> Vectors:
        """The unit vectors of prepared pictures, float32 [n, dim]."""
        found = np.empty((len(pixels), self.dim), np.float32)
        for start in range(0, len(pixels), batch_size):
            part = pixels[start : start + batch_size]
            found[start : start + len(part)] = self.embed_batch(self.batch(part))
        return found

    def embed_batch(self, batch: Tensor) -> Vectors:
        """The unit vectors of the network's input, float32 [B, dim]."""
        vectors = normalize_rows(self.run(batch).float())
        if not torch.isfinite(vectors).all():
            raise LookalikeError("the network computes embeddings that are not finite")
        found: Vectors = vectors.cpu().numpy()
        return found

    def embed(self, images: Pictures, batch_size: int = 64) -> Vectors:
        """Embed pictures.

        Args:
            images: Paths, PIL images, arrays [H, W, 3] or tensors [3, H, W] (whole numbers up to
                255, or fractions of 1), or batches of these, as a ``DataLoader`` gives them; of
                pairs such as (images, labels) the first counts.
            batch_size: How many the network sees at a time.

        Returns:
            Unit vectors, float32 [n, dim].

        Raises:
            BadInput: A file cannot be read, or something is not a picture.
        """
        found = [np.empty((0, self.dim), np.float32)]
        waiting: list[Tensor] = []
        for picture in as_pictures(images):
            waiting.append(self.prepare(picture))
            if len(waiting) == batch_size:
                found.append(self.embed_prepared(waiting, batch_size))
                waiting = []
        return np.concatenate([*found, self.embed_prepared(waiting, batch_size)])

    __call__ = embed
