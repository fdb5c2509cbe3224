"""The transforms that ``data.transform`` can name: published crops, one's own, and compositions."""

from lookalike.config import ColorJitterConfig, TransformConfig
from lookalike.data.composition import compose, even_jitter
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
    summary: str,
    scale: tuple[float, float] | None = None,
    color_jitter: ColorJitterConfig | None = None,
) -> Photo:
    """A published crop: random-resized with a ``scale``, else random."""
    if scale is None:
        return Photo(name, resize, size, summary, crop="random", color_jitter=color_jitter)
    return Photo(name, resize, size, summary, scale=scale, color_jitter=color_jitter)


PRESETS: dict[str, Preset] = {
    made.name: made
    for made in (
        _photo(
            "reality-check", 256, 227, "256, RandomResizedCrop 227 (0.16 to 1), flip", (0.16, 1.0)
        ),
        _photo("proxy-anchor", 256, 224, "256, RandomResizedCrop 224 (0.08 to 1), flip", (0.08, 1)),
        _photo("simple", 256, 227, "256, random crop 227, flip"),
        _photo("simple-square", (256, 256), 227, "256 x 256, random crop 227, flip"),
        _photo("simple-224", 256, 224, "256, random crop 224, flip"),
        _photo("large", 256, 256, "256, RandomResizedCrop 256 (0.08 to 1), flip", (0.08, 1)),
        _photo(
            "colour",
            256,
            224,
            "as proxy-anchor, with colours changed by 0.2",
            (0.08, 1),
            even_jitter(0.2),
        ),
        _photo("small", 160, 128, "160, RandomResizedCrop 128 (0.16 to 1), flip", (0.16, 1.0)),
        _photo("small-plain", 160, 128, "160, random crop 128, flip"),
        _photo(
            "small-colour",
            160,
            128,
            "as small, with colours changed by 0.2",
            (0.16, 1.0),
            even_jitter(0.2),
        ),
        _photo("small-160", 200, 160, "200, RandomResizedCrop 160 (0.16 to 1), flip", (0.16, 1.0)),
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
