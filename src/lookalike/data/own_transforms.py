"""Transforms of one's own: any function of one image, of torchvision or of albumentations.

Such functions draw from torch's global generator or from one of their own, which are seeded for
each image, one image at a time in the whole process.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from lookalike.data.cache import Resize
from lookalike.data.image_random import ImageRandom
from lookalike.data.photo import Photo
from lookalike.data.transforms import Preset
from lookalike.errors import BadInput
from lookalike.registry import import_trusted

__all__ = ["imported_preset", "own_transform"]

Augmentation = Callable[[Tensor], Tensor]

TRIED = 1024
"""The side of the image by which the output size of a function is found."""
STORED = 256 / 224
"""The size of stored images relative to the crops, as of the published presets."""
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class _Own(Photo):
    """Random views by a user's function; the view for testing is the centre crop."""

    augmentation: Augmentation | None = None

    def augment(self, pixels: Sequence[Tensor], random: ImageRandom) -> Tensor:
        return torch.stack(list(map(self._view, pixels, random.seeds())))

    def _view(self, image: Tensor, seed: int) -> Tensor:
        assert self.augmentation is not None
        found = _seeded(self.augmentation, image, seed)
        wanted = (image.shape[0], self.size, self.size)
        if not isinstance(found, Tensor) or tuple(found.shape) != wanted:
            shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise BadInput(f"data.transform = '{self.name}' gave {shape}, not a tensor {wanted}")
        if found.dtype != torch.uint8:
            raise BadInput(
                f"data.transform = '{self.name}' gave {found.dtype}; it must leave pixels as uint8 "
                "from 0 to 255, which are normalised afterwards as the network expects"
            )
        return found.as_subclass(Tensor)  # torchvision has subclasses


def _seeded(augmentation: Augmentation, image: Tensor, seed: int) -> Any:
    """What a function makes of an image, with its random numbers from ``seed``."""
    with _one_at_a_time, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # not those of GPUs, which training uses
        return augmentation(image)


def own_transform(
    augmentation: Augmentation, *, size: int, resize: Resize = None, summary: str = "own"
) -> Preset:
    """Transforms by a function of one image; ``data.transform=my_module:NAME`` uses them.

    The function draws random numbers from torch's global generator, which is seeded for each image,
    so that a run can be repeated. Tests use the centre crop of ``size`` pixels.

    Args:
        augmentation: From pixels, uint8 [C, H, W], to a random view, uint8 [C, size, size].
        size: The size of the images of a batch.
        resize: The shorter side of the stored images, or their height and width; None: as
            ``size``.
        summary: A description for tables.

    Returns:
        What a module must have under the name that ``data.transform`` gives.

    >>> upside_down = own_transform(lambda image: image.flip(1), size=8)
    >>> upside_down.size, upside_down.resize
    (8, 8)
    """
    return _Own("own", resize or size, size, summary, augmentation=augmentation)


def imported_preset(path: str) -> Preset:
    """The transforms called ``package.module:name``.

    Args:
        path: Where they are: what :func:`own_transform` returns, a function of one image such as a
            ``Compose`` of torchvision, or a ``Compose`` of albumentations.

    Returns:
        The transforms, under this name.

    Raises:
        BadInput: There is no such thing, or it is not a function of one image.
    """
    found = import_trusted(path, "for data.transform")
    if not isinstance(found, Preset):
        found = _bare(path, found)
    return replace(found, name=path)


def _bare(path: str, found: Any) -> Preset:
    """Transforms by a function that is not wrapped: its output size is found by trying."""
    if not callable(found) or isinstance(found, type):
        raise BadInput(
            f"data.transform = '{path}' is {_kind(found)}, not a function of one image; "
            "lookalike.data.own_transform(function, size=...) makes transforms of one"
        )
    augmentation = _of_albumentations(found) or found
    image = torch.zeros(3, TRIED, TRIED, dtype=torch.uint8)
    try:
        tried = _seeded(augmentation, image, 0)
    except Exception as error:  # a user's function may raise anything
        raise BadInput(f"data.transform = '{path}' fails on an image: {error}") from error
    shape = tuple(tried.shape) if isinstance(tried, Tensor) else (type(tried).__name__,)
    if len(shape) != 3 or shape[1] != shape[2] or shape[1] == TRIED:
        raise BadInput(
            f"data.transform = '{path}' makes {' x '.join(map(str, shape))} of an image of 3 x "
            f"{TRIED} x {TRIED}; it must end in squares of one size, or be wrapped: "
            "lookalike.data.own_transform(function, size=...)"
        )
    size = shape[1]
    summary = f"own, size {size}"
    return own_transform(augmentation, size=size, resize=round(STORED * size), summary=summary)


def _kind(found: Any) -> str:
    return f"the class {found.__name__}" if isinstance(found, type) else type(found).__name__


def _of_albumentations(found: Any) -> Augmentation | None:
    """A transform of albumentations as a function of a tensor; None: it is not one of them."""
    library: Any = sys.modules.get("albumentations")  # imported by the module of the transform
    if library is None or not isinstance(found, library.BaseCompose | library.BasicTransform):
        return None

    def view(image: Tensor) -> Tensor:
        found.set_random_seed(int(torch.randint(2**32, (1,))))
        made = found(image=image.permute(1, 2, 0).numpy())["image"]
        return made if isinstance(made, Tensor) else torch.from_numpy(made).permute(2, 0, 1)

    return view
