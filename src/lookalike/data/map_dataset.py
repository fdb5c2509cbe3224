"""Any data set with a length and items (image, class), such as a torch Dataset, as an ImageSet."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from lookalike.data.content import item_digests
from lookalike.data.image_set import ImageSet, UnreadableImage, digest
from lookalike.data.listed_images import halves
from lookalike.errors import BadInput

__all__ = ["from_dataset"]


class _Items:
    """The pixels of the items of a data set."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __call__(self, index: int) -> NDArray[np.uint8]:
        try:
            image = self.dataset[index][0]
        except Exception as error:  # a user's code raises anything
            reason = f"{type(error).__name__}: {error}"
            raise UnreadableImage(f"item {index}", reason) from error
        return _pixels(image)


def _pixels(image: Any) -> NDArray[np.uint8]:
    """A PIL image, an array [H, W, C] or a tensor [C, H, W] as an array [H, W, C]."""
    if isinstance(image, Image.Image):
        return np.array(image.convert("RGB"))
    pixels = image.permute(1, 2, 0).numpy() if isinstance(image, Tensor) else image
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.ndim != 3:
        kind = f"{pixels.dtype} {pixels.shape}" if isinstance(pixels, np.ndarray) else type(image)
        raise BadInput(
            f"the items of a data set must begin with a PIL image or uint8 pixels, not {kind}; "
            "leave transforms and normalisation to data.transform"
        )
    return np.ascontiguousarray(pixels)


def _classes(dataset: Any, name: str) -> Sequence[Any]:
    """The class of each item."""
    try:
        given: Sequence[Any] | None = getattr(dataset, "targets", None)
        return given if given is not None else [dataset[i][1] for i in range(len(dataset))]
    except Exception as error:  # a user's code raises anything
        raise BadInput(
            f"the data set '{name}' must return a lookalike.data.ImageSet, or a data set with a "
            f"length and items (image, class), not {type(dataset).__name__}: "
            f"{type(error).__name__}: {error}"
        ) from error


def from_dataset(dataset: Any, name: str) -> ImageSet:
    """An ImageSet of a torch Dataset, of a Hugging Face data set, or of anything like them.

    ``data.name=package.module:function`` may name a function of the root that returns one. Half of
    the classes is for testing (``protocol.order``).

    Args:
        dataset: A ``datasets.Dataset``, or something with a length and items (image, class), whose
            classes are in ``targets`` or else read from all items.
        name: The value of ``data.name``.

    Returns:
        The images; a hash of all of them is part of the fingerprint.

    Raises:
        BadInput: It is nothing of the kind.
    """
    if type(dataset).__module__.partition(".")[0] == "datasets":
        from lookalike.data.huggingface import from_huggingface

        return from_huggingface(dataset)
    given = _classes(dataset, name)
    values, indices = np.unique(np.asarray(given), return_inverse=True)
    labels = indices.reshape(-1).astype(np.int64)
    if len(labels) != len(dataset):
        raise BadInput(f"the data set '{name}' has {len(labels)} classes for {len(dataset)} items")
    classes = getattr(dataset, "classes", None)
    named = classes is not None and len(classes) == len(values)
    class_names = tuple(map(str, classes if named else values))  # type: ignore[arg-type]
    test, _ = halves(name, labels, len(class_names), None)
    items = _Items(dataset)
    content = item_digests(items, len(labels))
    fingerprint = digest(name, "\n".join(class_names), labels, content)
    return ImageSet(
        name=name.replace(":", ".").replace("/", "."),
        files=tuple(f"item {index}" for index in range(len(labels))),
        labels=labels,
        class_names=class_names,
        test=test,
        decode=items,
        fingerprint=fingerprint,
        stamp=fingerprint,
        has_split=False,
    )
