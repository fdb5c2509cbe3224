"""The transforms that ``data.transform`` can name: published crops, one's own, and compositions."""

from dataclasses import replace

from lookalike.config import TransformConfig
from lookalike.data.composition import compose, describe, even_jitter
from lookalike.data.drawing import Drawing
from lookalike.data.photo import Photo
from lookalike.data.transforms import Preset
from lookalike.errors import BadInput, did_you_mean

__all__ = ["NETWORK", "PRESETS", "preset", "preset_name"]

NETWORK = "network"
"""The name of the transform that a network was published with."""
USUAL = "proxy-anchor"
"""The preset whose values count where a composition gives none."""


def _photo(
    name: str,
    resize: int | tuple[int, int],
    size: int,
    scale: tuple[float, float] | None = None,
    colours: float = 0,
) -> Photo:
    """A published crop: random-resized with a ``scale``, else random."""
    photo = Photo(name, resize, size, "", crop="random", color_jitter=even_jitter(colours))
    if scale is not None:
        photo = replace(photo, crop="random-resized", scale=scale)
    return replace(photo, summary=describe(photo))


PRESETS: dict[str, Preset] = {
    made.name: made
    for made in (
        _photo("reality-check", 256, 227, (0.16, 1)),
        _photo("proxy-anchor", 256, 224, (0.08, 1)),
        _photo("simple", 256, 227),
        _photo("simple-square", (256, 256), 227),
        _photo("simple-224", 256, 224),
        _photo("large", 256, 256, (0.08, 1)),
        _photo("colour", 256, 224, (0.08, 1), colours=0.2),
        _photo("small", 160, 128, (0.16, 1)),
        _photo("small-plain", 160, 128),
        _photo("small-colour", 160, 128, (0.16, 1), colours=0.2),
        _photo("small-160", 200, 160, (0.16, 1)),
        Drawing(
            "glyphs",
            None,
            32,
            "32 px drawings: shift 2 px, size 0.87 to 1.15, turn 10 degrees, no flip",
        ),
        Drawing(
            "handwriting",
            64,
            64,
            "64 px: shift 4 px, size 0.87 to 1.15, turn 10 degrees, no flip",
            paper=True,
        ),
        Preset("none", None, None, "images of one size, unchanged"),
    )
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
        from lookalike.data.own_transforms import imported_preset

        found = imported_preset(name)
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
