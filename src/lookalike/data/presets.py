"""What ``data.transform`` can be: a published crop, keys on top of it, or a function of one's own.

A published crop is named keys. A function draws random numbers from torch, which are seeded for
each image, in several threads at a time.
"""

import copy
import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from lookalike.config import ColorJitterConfig, ErasingConfig, RandAugmentConfig, TransformConfig
from lookalike.config.keys import flattened, identity
from lookalike.data.cache import Resize
from lookalike.data.image_random import ImageRandom
from lookalike.data.transforms import Drawing, Photo, Preset, Views
from lookalike.errors import BadInput, did_you_mean
from lookalike.registry import import_trusted

__all__ = ["NETWORK", "PRESETS", "own_transform", "preset", "preset_name"]

Sides = int | tuple[int, int]
"""The size of an image: of its shorter side, or height and width."""
Augmentation = Callable[[Tensor], Tensor]

NETWORK = "network"
"""The name of the transform that a network was published with."""
USUAL = "proxy-anchor"
"""The preset whose values count where a composition gives none."""
FOR_ALL = ("preset", "mean", "std", "test", "test.flip", "test.scales")
"""The keys that suit every preset; the others need one of crops."""


def compose(given: TransformConfig, base: Preset, name: str | None = None) -> Preset:
    """The transforms of ``base`` with what ``given`` sets.

    Args:
        given: The keys of a configuration.
        base: Where the others come from.
        name: What they are called; None: ``base`` and the keys.

    Returns:
        The transforms.

    Raises:
        BadInput: The keys do not fit together, or not on this preset.
    """
    keys = _set_keys(given)
    if name is None:
        own = [f"{key}={json.dumps(value)}" for key, value in keys.items() if key != "preset"]
        name = " ".join([base.name, *own])
    values: dict[str, Any] = {"name": name}
    if given.mean not in (None, "network"):
        values |= {"mean": given.mean, "std": given.std}
    if given.test:
        values["views"] = Views(given.test.flip, given.test.scales)
    if type(base) is Photo:
        photo = replace(base, **values | _changes(given, base))
        _require_smaller_crops(photo)
        return photo
    if others := sorted(set(keys) - set(FOR_ALL)):
        raise BadInput(
            f"data.transform.{others[0]} cannot change '{base.name}', which is not made of keys; "
            "set data.transform.preset to another one"
        )
    return replace(base, **values)


def _set_keys(given: TransformConfig) -> dict[str, Any]:
    """The keys that are set, dotted; a section that is set to its defaults is one too."""
    keys = identity(given)
    sections = {key: value for key, value in keys.items() if value == {}}
    return sections | flattened(keys)


def _jitter(strength: float) -> ColorJitterConfig:
    """Brightness, contrast, saturation and hue by one strength; one image in five is grey."""
    return ColorJitterConfig(
        brightness=strength, contrast=strength, saturation=strength, hue=strength, grayscale=0.2
    )


SHORT: Mapping[str, Callable[[Any], Any]] = {
    "color_jitter": _jitter,
    "rand_augment": lambda magnitude: RandAugmentConfig(magnitude=magnitude),
    "erasing": lambda probability: ErasingConfig(probability=probability),
}
"""What one number means, where a section of keys may be; 0 switches it off."""


def _changes(given: TransformConfig, base: Photo) -> dict[str, Any]:
    """The fields of the new transforms that differ from those of ``base``."""
    same = ("size", "crop", "scale", "ratio", "interpolation", "flip", *SHORT)
    found = {key: value for key in same if (value := getattr(given, key)) is not None}
    for key, meaning in SHORT.items():
        if isinstance(found.get(key), int | float):
            found[key] = meaning(found[key]) if found[key] else None
    size, test = found.get("size", base.size), given.test
    resize = given.resize or _in_proportion(base, size, found.get("crop", base.crop))
    if test is None or (test.size is None and test.resize is None):
        return found | {"resize": resize}
    if test.resize is not None and isinstance(resize, tuple):
        raise BadInput(
            "data.transform.test.resize is the shorter side, and images are stored by height and "
            "width; leave it out"
        )
    centre = test.size or size
    tested = test.resize or _scaled(resize, centre / size)
    return found | {
        "resize": max(resize, tested, key=_least),  # which serves training and test
        "crop_resize": resize,
        "centre_size": centre,
        "centre_resize": tested,
    }


def _in_proportion(base: Photo, size: int, crop: str) -> Sides:
    """The size of stored images for another size of crops."""
    resize = base.crop_resize or base.resize
    if crop == "none" or resize is None:
        return size, size
    return _scaled(resize, size / base.size)


def _scaled(sides: Sides, factor: float) -> Sides:
    if isinstance(sides, tuple):
        return round(sides[0] * factor), round(sides[1] * factor)
    return round(sides * factor)


def _least(sides: Sides) -> int:
    return min(sides) if isinstance(sides, tuple) else sides


def _require_smaller_crops(photo: Photo) -> None:
    if photo.crop == "none":
        return
    tested = "test.size" if photo.centre_size else "size"
    pairs = [(tested, photo.test_size, photo.centre_resize or photo.resize)]
    if photo.crop != "random-resized":
        pairs.append(("size", photo.size, photo.crop_resize or photo.resize))
    for key, size, resize in pairs:
        if resize is not None and size > _least(resize):
            raise BadInput(
                f"data.transform.{key} = {size} is larger than the images, which are resized to "
                f"{_least(resize)}; set data.transform.{key.replace('size', 'resize')}"
            )


_PUBLISHED: Mapping[str, TransformConfig] = {
    "reality-check": TransformConfig(resize=256, size=227, scale=(0.16, 1)),
    "proxy-anchor": TransformConfig(resize=256, size=224),
    "simple": TransformConfig(resize=256, size=227, crop="random"),
    "simple-square": TransformConfig(resize=(256, 256), size=227, crop="random"),
    "simple-224": TransformConfig(resize=256, size=224, crop="random"),
    "large": TransformConfig(resize=256, size=256),
    "colour": TransformConfig(resize=256, size=224, color_jitter=0.2),
    "small": TransformConfig(resize=160, size=128, scale=(0.16, 1)),
    "small-plain": TransformConfig(resize=160, size=128, crop="random"),
    "small-colour": TransformConfig(resize=160, size=128, scale=(0.16, 1), color_jitter=0.2),
    "small-160": TransformConfig(resize=200, size=160, scale=(0.16, 1)),
}
_DRAWN = "size 0.87 to 1.15, turn 10 degrees, no flip"
PRESETS: dict[str, Preset] = {
    **{name: compose(keys, Photo(name, 256, 224), name) for name, keys in _PUBLISHED.items()},
    "glyphs": Drawing("glyphs", None, 32, f"32 px drawings: shift 2 px, {_DRAWN}"),
    "handwriting": Drawing("handwriting", 64, 64, f"64 px: shift 4 px, {_DRAWN}", paper=True),
    "none": Preset("none", None, None, "images of one size, unchanged"),
}


def preset_name(transform: str | TransformConfig) -> str:
    """The name of a transform, or of the preset that a composition builds on."""
    return transform if isinstance(transform, str) else transform.preset or USUAL


def preset(transform: str | TransformConfig, of_network: Preset | None = None) -> Preset:
    """The transforms that a configuration gives.

    Args:
        transform: A key of ``PRESETS``, ``package.module:name`` of one's own, ``network``, or a
            composition.
        of_network: The transforms that ``network`` means
            (:func:`lookalike.models.preset_of` finds them).

    Returns:
        The transforms.

    Raises:
        BadInput: There is no such preset, or a composition does not fit.

    >>> preset("small").size, preset(TransformConfig(size=336)).resize
    (128, 384)
    """
    name = preset_name(transform)
    if ":" in name:
        found = _imported(name)
    elif name == NETWORK and of_network is not None:
        found = of_network
    elif name == NETWORK:
        raise BadInput("the transforms 'network' need to know the network")
    elif name in PRESETS:
        found = PRESETS[name]
    else:
        hint = did_you_mean(name, [*PRESETS, NETWORK])
        raise BadInput(f"there are no transforms called '{name}'; {hint}")
    return found if isinstance(transform, str) else compose(transform, found)


TRIED = 1024
"""The side of the image by which the output size of a function is found."""
STORED = 256 / 224
"""The size of stored images relative to the crops, as of the published presets."""
DRAWS = frozenset(
    {"bernoulli", "bernoulli_", "exponential_", "multinomial", "normal", "normal_", "poisson"}
    | {"rand", "randint", "randn", "random_", "randperm", "uniform_"}
    | {"_sample_dirichlet"}  # of AugMix
)
"""The functions of torch that take random numbers from a generator."""


class SeededDraws(TorchFunctionMode):
    """Lets torch's functions draw from a generator of this block, and of this thread alone.

    >>> with SeededDraws(3):
    ...     drawn = torch.rand(2)
    >>> torch.equal(drawn, torch.rand(2, generator=torch.Generator().manual_seed(3)))
    True
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call ``func``, with the generator where it draws and was given none."""
        named = dict(kwargs or {})
        if getattr(func, "__name__", "") in DRAWS and named.get("generator") is None:
            named["generator"] = self.generator
        return func(*args, **named)


@dataclass(frozen=True)
class _Own(Photo):
    """Random views by a user's function; the view for testing is the centre crop."""

    augmentation: Augmentation = torch.clone

    def augment(self, pixels: Sequence[Tensor], random: ImageRandom) -> Tensor:
        return torch.stack(list(map(self._view, pixels, random.seeds())))

    def _view(self, image: Tensor, seed: int) -> Tensor:
        with SeededDraws(seed):
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
        return found.as_subclass(Tensor)  # torchvision has subclasses

    @property
    def summary(self) -> str:
        return ", ".join([self.note, *self.tested()])


def own_transform(
    augmentation: Augmentation, *, size: int, resize: Resize = None, summary: str = "own"
) -> Preset:
    """Transforms by a function of one image; ``data.transform=my_module:NAME`` uses them.

    The function draws random numbers from torch, which are seeded for each image, so that a run can
    be repeated; several threads call it. Tests use the centre crop of ``size`` pixels.

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


def _imported(path: str) -> Preset:
    """The transforms ``package.module:name``: of :func:`own_transform`, or a function of an image.

    The output size of a function is found by trying.
    """
    found = import_trusted(path, "for data.transform")
    if isinstance(found, Preset):
        return replace(found, name=path)
    if not callable(found) or isinstance(found, type):
        is_class = isinstance(found, type)
        kind = f"the class {found.__name__}" if is_class else type(found).__name__
        raise BadInput(
            f"data.transform = '{path}' is {kind}, not a function of one image; "
            "lookalike.data.own_transform(function, size=...) makes transforms of one"
        )
    augmentation = _of_albumentations(found) or found
    try:
        with SeededDraws(0):
            tried = augmentation(torch.zeros(3, TRIED, TRIED, dtype=torch.uint8))
    except Exception as error:  # a user's function may raise anything
        raise BadInput(f"data.transform = '{path}' fails on an image: {error}") from error
    shape = tuple(tried.shape) if isinstance(tried, Tensor) else (type(tried).__name__,)
    if len(shape) != 3 or shape[1] != shape[2] or shape[1] == TRIED:
        raise BadInput(
            f"data.transform = '{path}' makes {' x '.join(map(str, shape))} of an image of 3 x "
            f"{TRIED} x {TRIED}; it must end in squares of one size, or be wrapped: "
            "lookalike.data.own_transform(function, size=...)"
        )
    size = int(shape[1])
    return _Own(path, round(STORED * size), size, f"own, size {size}", augmentation=augmentation)


def _of_albumentations(found: Any) -> Augmentation | None:
    """A transform of albumentations as a function of a tensor; None: it is not one of them."""
    library: Any = sys.modules.get("albumentations")  # imported by the module of the transform
    if library is None or not isinstance(found, library.BaseCompose | library.BasicTransform):
        return None
    own = threading.local()  # each has random numbers of its own

    def view(image: Tensor) -> Tensor:
        if not hasattr(own, "transform"):
            own.transform = copy.deepcopy(found)
        own.transform.set_random_seed(int(torch.randint(2**32, (1,))))
        made = own.transform(image=image.permute(1, 2, 0).numpy())["image"]
        return made if isinstance(made, Tensor) else torch.from_numpy(made).permute(2, 0, 1)

    return view
