"""Transforms composed by keys, each step against torchvision's own."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp
from torchvision.transforms import InterpolationMode, RandomErasing, functional

from lookalike.config import ErasingConfig, RandAugmentConfig, parse
from lookalike.config.loading import nested
from lookalike.data import PRESETS, Normalisation, preset
from lookalike.data.augmentation import FILL, apply_erasing, apply_rand_augment, operations
from lookalike.data.image_random import ImageRandom
from lookalike.errors import BadInput


def composed(*settings):
    return preset(parse(nested(f"data.transform{one}" for one in settings)).data.transform)


def chance(count, seed=0):
    return ImageRandom(seed, 0, range(count))


def pictures(resize, count=6):
    """Random images as the cache holds them, of several shapes."""
    random = np.random.default_rng(0)
    shapes = [(resize, resize + 7 * i)[:: 1 - 2 * (i % 2)] for i in range(count)]
    arrays = [random.integers(0, 256, (*shape, 3), dtype=np.uint8) for shape in shapes]
    return [torch.from_numpy(array).permute(2, 0, 1) for array in arrays]


def test_a_preset_written_as_keys_gives_the_same_batches():
    name, by_keys = "small-colour", "={size: 128, resize: 160, scale: [0.16, 1], color_jitter: 0.2}"
    images, (one, other) = pictures(160), (preset(name), composed(by_keys))
    assert torch.equal(one.augment(images, chance(6)), other.augment(images, chance(6)))
    assert torch.equal(one.centre(images), other.centre(images))


def test_keys_on_top_of_a_preset_change_it_alone():
    made = composed("=reality-check", ".size=96")
    assert (made.size, made.resize, made.scale) == (96, round(256 * 96 / 227), (0.16, 1.0))
    assert made.name == "reality-check size=96"
    assert composed("=colour", ".color_jitter=0").color_jitter is None
    assert composed(".size=336").resize == 384


@pytest.mark.parametrize(
    "given",
    [
        "={size: 40, resize: 48, crop: centre, flip: 1}",
        "={size: 40, crop: none}",
        "={size: 40, scale: [0.3, 0.5], ratio: [1, 1], interpolation: bicubic}",
        "={size: 40, color_jitter: {brightness: 0.8, hue: 0.1, grayscale: 0.5}}",
        "={size: 40, rand_augment: {num_ops: 3, magnitude: 20}, erasing: 1, color_jitter: 0.3}",
        "={size: 40, resize: 48, crop: random, test: {size: 56}}",
    ],
)
def test_a_batch_depends_on_its_streams_alone_and_parts_are_those_of_the_whole(given):
    chosen = composed(given)
    images = pictures(48) if chosen.crop != "none" else [i[:, :48, :48] for i in pictures(48)]
    if chosen.resize == 67:  # stored larger, for the test
        images = pictures(67)
    torch.manual_seed(1)
    whole = chosen.augment(images, chance(len(images)))
    assert whole.shape == (6, 3, 40, 40)
    torch.manual_seed(2)
    parts = [(0, 1), (1, 4), (4, 6)]
    made = [
        chosen.augment(images[start:stop], ImageRandom(0, 0, range(start, stop)))
        for start, stop in parts
    ]
    assert torch.equal(torch.cat(made), whole)
    side = chosen.test_size
    assert chosen.centre(images).shape == (6, 3, side, side)


def test_whole_and_centre_crops_are_those_of_torchvision():
    images = [image // 2 + 64 for image in pictures(48)]  # bicubic curves do not leave 0..255
    whole = composed("={size: 40, crop: none, flip: 1, interpolation: bicubic}")
    found = whole.augment(images, chance(6))
    for image, view in zip(images, found, strict=True):
        expected = functional.resize(image, [40, 40], InterpolationMode.BICUBIC, antialias=True)
        assert (view.flip(2).int() - expected.int()).abs().max() <= 1
    centre = composed("={size: 40, resize: 48, crop: centre, flip: 0}")
    found = centre.augment(images, chance(6))
    assert torch.equal(found, torch.stack([functional.center_crop(i, 40) for i in images]))
    assert torch.equal(found, centre.centre(images))


def test_flip_is_a_probability():
    ramp = [torch.arange(60, dtype=torch.uint8).expand(3, 60, 60)] * 1000
    for share in (0.0, 0.2, 1.0):
        made = composed(f"={{size: 56, resize: 60, crop: random, flip: {share}}}")
        batch = made.augment(ramp, chance(1000)).int()
        found = (batch[:, 0, 0, 0] > batch[:, 0, 0, -1]).float().mean()
        assert abs(found - share) < 4 * (share * (1 - share) / 1000) ** 0.5 + 1e-9


def test_the_numbers_of_the_operations_of_rand_augment_mean_the_same():
    assert list(operations()) == [
        "Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color",
        "Contrast", "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize",
    ]  # fmt: skip


@pytest.mark.parametrize("magnitude", [0, 9, 30])
def test_rand_augment_makes_what_torchvision_can_make(magnitude):
    (image,) = pictures(33, 1)
    level = magnitude / 30
    shear, shift = math.degrees(math.atan(0.3 * level)), int(150 / 331 * 33 * level)
    possible = [
        image,
        functional.posterize(image, 8 - round(level * 4)),
        functional.solarize(image, 255 * (1 - level)),
        functional.autocontrast(image),
        functional.equalize(image),
    ]
    for sign in (-1, 1):
        factor = 1 + sign * 0.9 * level
        possible += [
            functional.affine(image, 0, [0, 0], 1, [sign * shear, 0], center=[0, 0]),
            functional.affine(image, 0, [0, 0], 1, [0, sign * shear], center=[0, 0]),
            functional.affine(image, 0, [sign * shift, 0], 1, [0, 0]),
            functional.affine(image, 0, [0, sign * shift], 1, [0, 0]),
            functional.rotate(image, sign * 30 * level),
            functional.adjust_brightness(image, factor),
            functional.adjust_saturation(image, factor),
            functional.adjust_contrast(image, factor),
            functional.adjust_sharpness(image, factor),
        ]
    batch = image[None].repeat(200, 1, 1, 1)
    apply_rand_augment(batch, RandAugmentConfig(num_ops=1, magnitude=magnitude), chance(200))
    differences = batch[:, None].int() - torch.stack(possible)[None].int()
    differences = differences.abs().flatten(2).amax(2)
    assert differences.amin(1).max() <= 1  # of rounding, where a level is not exact
    found = set(differences.argmin(1).tolist())
    assert len(found) >= (3 if magnitude == 0 else 18)


def test_erased_rectangles_are_distributed_as_torchvision_draws_them():
    count, side, given = 3000, 32, ErasingConfig(probability=1)
    batch = torch.zeros(count, 3, side, side, dtype=torch.uint8)
    apply_erasing(batch, given, chance(count))
    erased = batch[:, 0] > 0
    assert torch.equal(batch, torch.tensor(FILL, dtype=torch.uint8).view(3, 1, 1) * erased[:, None])
    torch.manual_seed(0)
    image = torch.zeros(3, side, side)
    boxes = [
        RandomErasing.get_params(image, given.scale, given.ratio, [1.0])[:4] for _ in range(count)
    ]
    theirs = np.array(boxes)
    rows, columns = erased.any(2), erased.any(1)
    ours = np.stack(
        [
            rows.to(torch.uint8).argmax(1),
            columns.to(torch.uint8).argmax(1),
            rows.sum(1),
            columns.sum(1),
        ],
        axis=1,
    )
    assert (erased.flatten(1).sum(1) == torch.from_numpy(ours[:, 2] * ours[:, 3])).all()
    for axis in range(4):
        assert ks_2samp(ours[:, axis], theirs[:, axis]).pvalue > 1e-4, axis


def test_erasing_has_a_probability_and_leaves_grey_images_grey():
    batch = torch.zeros(1000, 1, 16, 16, dtype=torch.uint8)
    apply_erasing(batch, ErasingConfig(probability=0.3), chance(1000))
    assert 0.24 < (batch > 0).flatten(1).any(1).float().mean() < 0.36


def test_a_larger_test_view_is_cut_from_images_stored_for_it():
    """Training sees the same share of an image as without the test's size."""
    made = composed("={size: 40, resize: 48, crop: random, test: {size: 80, resize: 88}}")
    assert (made.resize, made.size, made.test_size) == (88, 40, 80)
    images = pictures(88)
    expected = torch.stack([functional.center_crop(image, 80) for image in images])
    assert torch.equal(made.centre(images), expected)
    ramp = torch.arange(88, dtype=torch.uint8).mul(2).expand(3, 88, 88)
    seen = made.augment([ramp] * 50, chance(50)).float()
    width = (seen.amax((1, 2, 3)) - seen.amin((1, 2, 3))) / 2
    assert ((width - 88 * 40 / 48).abs() < 3).all()


def test_own_mean_and_std():
    made = composed(".mean=[0.1, 0.2, 0.3]", ".std=[1, 2, 4]")
    batch = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8)
    for network in (Normalisation(), Normalisation((104, 117, 128), (1, 1, 1), 1, bgr=True)):
        found = made.normalisation(network)(batch, torch.contiguous_format)
        mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1.0, 2.0, 4.0])
        expected = (batch / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1)
        torch.testing.assert_close(found, expected.flip(1) if network.bgr else expected)
    grey = made.normalisation(Normalisation((0.5,), (0.5,), channels=1))
    assert grey.mean == pytest.approx((0.2,))
    assert composed(".mean=network").normalisation(Normalisation()) == Normalisation()
    assert PRESETS["small"].normalisation(Normalisation()) == Normalisation()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ([".preset=smal"], "did you mean 'small'"),
        (["=glyphs", ".size=40"], "data.transform.size cannot change 'glyphs'"),
        (["={size: 300, resize: 256, crop: random}"], "size = 300 is larger than the images"),
        ([".test={size: 300, resize: 256}"], "test.size = 300 is larger than the images"),
        ([".crop=none", ".test.resize=300"], "test.resize is the shorter side"),
        ([".mean=[0, 0, 0]"], "mean and std go together"),
        ([".flip=true"], "a number from 0 to 1"),
        ([".sise=3"], "no key 'data.transform.sise'; did you mean 'data.transform.size'"),
        ([".color_jitter.hue=0.6"], "data.transform.color_jitter.hue = 0.6 is invalid"),
        ([".color_jitter=0.6"], "data.transform.color_jitter = 0.6 is invalid"),
        ([".resize=small"], "data.transform.resize = 'small' is invalid"),
        ([".scale=[1, 0.1]"], "must not be above the second"),
        (["=network"], "need to know the network"),
    ],
)
def test_wrong_keys_get_a_sentence(settings, sentence):
    with pytest.raises(BadInput, match=sentence.replace("[", r"\[")):
        composed(*settings)


@pytest.mark.parametrize("section", ["rand_augment", "erasing", "color_jitter"])
def test_a_section_of_defaults_is_part_of_the_name(section):
    """Features of a frozen network are kept by that name."""
    made = composed("=colour", f".{section}={{}}")
    assert made.name == f"colour {section}={{}}"
    assert made != preset("colour")
    with pytest.raises(BadInput, match=f"data.transform.{section} cannot change 'glyphs'"):
        composed("=glyphs", f".{section}={{}}")
    assert composed("=glyphs", ".test={}").views.is_single
