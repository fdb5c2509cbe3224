"""Transforms of one's own: any function of one image, such as a torchvision transform."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock

import torch
from torch import Tensor

from lookalike.data.cache import Resize
from lookalike.data.transforms import Part, Photo, Preset
from lookalike.errors import BadInput

__all__ = ["imported_preset", "own_transform"]

Augmentation = Callable[[Tensor], Tensor]

_ONE_AT_A_TIME = Lock()
"""All threads share the global generator that a user's function draws from."""


@dataclass(frozen=True)
class _Own(Photo):
    """Random views by a user's function; the view for testing is the centre crop."""

    augmentation: Augmentation | None = None

    def augment(self, pixels: Sequence[Tensor], generator: torch.Generator, part: Part) -> Tensor:
        seeds = part.of(torch.randint(2**62, (part.whole,), generator=generator)).tolist()
        return torch.stack([self._view(*pair) for pair in zip(pixels, seeds, strict=True)])

    def _view(self, image: Tensor, seed: int) -> Tensor:
        assert self.augmentation is not None
        with _ONE_AT_A_TIME, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            found = self.augmentation(image)
        wanted = (image.shape[0], self.size, self.size)
        if not isinstance(found, Tensor) or tuple(found.shape) != wanted:
            shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise BadInput(f"data.transform = '{self.name}' gave {shape}, not a tensor {wanted}")
        if found.dtype != torch.uint8:
            raise BadInput(
                f"data.transform = '{self.name}' gave {found.dtype}; it must leave pixels as uint8 "
                "from 0 to 255, which are normalised afterwards as the network expects"
            )
        return found


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
        path: Where they are.

    Returns:
        The transforms, under this name.

    Raises:
        BadInput: There is no such thing, or it is not what :func:`own_transform` returns.
    """
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # a module may raise anything while it is imported
        raise BadInput(f"cannot import data.transform = '{path}': {error}") from error
    if not isinstance(found, Preset):
        raise BadInput(
            f"data.transform = '{path}' is {type(found).__name__}; wrap a function of one image in "
            "lookalike.data.own_transform(function, size=...)"
        )
    fields = {key: getattr(found, key) for key in found.__dataclass_fields__}
    return type(found)(**fields | {"name": path})
