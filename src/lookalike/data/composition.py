"""Transforms composed by keys of the configuration, on top of a preset."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lookalike.config import ColorJitterConfig, ErasingConfig, RandAugmentConfig, TransformConfig
from lookalike.config.keys import flattened, identity
from lookalike.data.photo import Photo
from lookalike.data.transforms import Preset, Views
from lookalike.errors import BadInput

__all__ = ["compose", "describe", "even_jitter"]

Sides = int | tuple[int, int]
"""The size of an image: of its shorter side, or height and width."""
FOR_ALL = ("preset", "mean", "std", "test", "test.flip", "test.scales")
"""The keys that suit every preset; the others need one of crops."""


def even_jitter(strength: float) -> ColorJitterConfig | None:
    """Brightness, contrast, saturation and hue by one strength; one image in five is grey."""
    if not strength:
        return None
    return ColorJitterConfig(
        brightness=strength, contrast=strength, saturation=strength, hue=strength, grayscale=0.2
    )


def compose(given: TransformConfig, base: Preset) -> Preset:
    """The transforms of ``base`` with what ``given`` sets.

    Args:
        given: The keys of a configuration.
        base: Where the others come from.

    Returns:
        The transforms; their name lists the keys.

    Raises:
        BadInput: The keys do not fit together, or not on this preset.
    """
    keys = _set_keys(given)
    name = " ".join(
        [base.name, *(f"{k}={json.dumps(v)}" for k, v in keys.items() if k != "preset")]
    )
    values: dict[str, Any] = {"name": name}
    if given.mean not in (None, "network"):
        values |= {"mean": given.mean, "std": given.std}
    if given.test:
        values["views"] = Views(given.test.flip, given.test.scales)
    if type(base) is not Photo:
        others = sorted(set(keys) - set(FOR_ALL))
        if others:
            raise BadInput(
                f"data.transform.{others[0]} cannot change '{base.name}', which is not made of "
                "keys; set data.transform.preset to another one"
            )
        other = replace(base, **values)
        return replace(other, summary=", ".join([base.summary, *_tested(other)]))
    photo = replace(base, **values | _changes(given, base))
    _check(photo)
    return replace(photo, summary=describe(photo))


def _set_keys(given: TransformConfig) -> dict[str, Any]:
    """The keys that are set, dotted; a section that is set to its defaults is one too."""
    keys = identity(given)
    sections = {key: value for key, value in keys.items() if value == {}}
    return sections | flattened(keys)


def _changes(given: TransformConfig, base: Photo) -> dict[str, Any]:
    """The fields of the new transforms that differ from those of ``base``."""
    same = ("size", "crop", "scale", "ratio", "interpolation", "flip")
    found = {key: value for key in same if (value := getattr(given, key)) is not None}
    size, crop = found.get("size", base.size), found.get("crop", base.crop)
    resize = given.resize or _in_proportion(base, size, crop)
    jitter, ops, erasing = given.color_jitter, given.rand_augment, given.erasing
    if jitter is not None:
        found["color_jitter"] = (
            jitter if isinstance(jitter, ColorJitterConfig) else even_jitter(jitter)
        )
    if isinstance(ops, RandAugmentConfig):
        found["rand_augment"] = ops
    elif ops is not None:
        found["rand_augment"] = RandAugmentConfig(magnitude=ops) if ops else None
    if isinstance(erasing, ErasingConfig):
        found["erasing"] = erasing
    elif erasing is not None:
        found["erasing"] = ErasingConfig(probability=erasing) if erasing else None
    return found | _stored(given, size, resize)


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


def _stored(given: TransformConfig, size: int, resize: Sides) -> dict[str, Any]:
    """The size of stored images, which serves training and test, and what each makes of it."""
    test = given.test
    if test is None or (test.size is None and test.resize is None):
        return {"resize": resize}
    if test.resize is not None and isinstance(resize, tuple):
        raise BadInput(
            "data.transform.test.resize is the shorter side, and images are stored by height and "
            "width; leave it out"
        )
    centre = test.size or size
    tested = test.resize or _scaled(resize, centre / size)
    return {
        "resize": max(resize, tested, key=_least),
        "crop_resize": resize,
        "centre_size": centre,
        "centre_resize": tested,
    }


def _check(photo: Photo) -> None:
    """Refuse crops that are larger than the images."""
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


def describe(photo: Photo) -> str:
    """The transforms as text for tables."""
    resize = photo.crop_resize or photo.resize
    size = " x ".join(map(str, resize)) if isinstance(resize, tuple) else str(resize)
    crops = {
        "random-resized": f"RandomResizedCrop {photo.size} "
        f"({photo.scale[0]:g} to {photo.scale[1]:g})",
        "random": f"random crop {photo.size}",
        "centre": f"centre crop {photo.size}",
        "none": f"whole image {photo.size}",
    }
    parts = [size, crops[photo.crop]]
    low, high = photo.ratio
    if photo.crop == "random-resized" and photo.ratio != Photo.ratio:
        parts.append(f"width by height {low:g} to {high:g}")
    if photo.interpolation != Photo.interpolation:
        parts.append(photo.interpolation)
    if photo.flip:
        parts.append("flip" if photo.flip == Photo.flip else f"flip {photo.flip:g}")
    if photo.color_jitter:
        changed = photo.color_jitter.model_dump(exclude_defaults=True)
        parts.append("colours " + ", ".join(f"{name} {by:g}" for name, by in changed.items()))
    if photo.rand_augment:
        parts.append(f"RandAugment {photo.rand_augment.num_ops} x {photo.rand_augment.magnitude}")
    if photo.erasing:
        parts.append(f"erasing {photo.erasing.probability:g}")
    if photo.centre_size:
        parts.append(f"tested at {photo.centre_size} of {photo.centre_resize}")
    return ", ".join([*parts, *_tested(photo)])


def _tested(preset: Preset) -> Iterator[str]:
    """What holds for every preset, as text."""
    if preset.mean is not None:
        yield "own mean and std"
    if preset.views.flip:
        yield "tested with mirrored images"
    if preset.views.scales != Views.scales:
        yield "tested at scales " + " ".join(f"{scale:g}" for scale in preset.views.scales)
