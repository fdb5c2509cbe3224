import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp
from torchvision.transforms import InterpolationMode, RandomResizedCrop, v2
from torchvision.transforms.functional import center_crop, resize, rgb_to_grayscale

from lookalike.data import PRESETS, Normalisation, load, open_store, preset
from lookalike.data.image_random import ImageRandom
from lookalike.data.presets import SeededDraws
from lookalike.data.transforms import Photo, crop_views, random_sides
from lookalike.errors import BadInput
from lookalike.registry import trust

PLAIN = Normalisation(mean=(0, 0, 0), std=(1, 1, 1), scale=1)
PHOTO = ["reality-check", "simple-square", "colour", "small-plain"]


def chance(count, seed=0):
    return ImageRandom(seed, 0, range(count))


def pictures(resize, count=6):
    """Random images as the cache holds them: channels last in memory, resized."""
    random = np.random.default_rng(0)
    shapes = [resize] * count
    if isinstance(resize, int):
        shapes = [(resize, resize + 17 * i) for i in range(count)]
        shapes = [shape[:: 1 - 2 * (i % 2)] for i, shape in enumerate(shapes)]
    arrays = [random.integers(0, 256, (*shape, 3), dtype=np.uint8) for shape in shapes]
    return [torch.from_numpy(array).permute(2, 0, 1) for array in arrays]


def test_published_sizes():
    """Those of the table in docs/data.md, which says the size in the cache and of the test."""
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    for name, made in PRESETS.items():
        assert made.summary
        (row,) = re.findall(rf"^\| `{name}` \| (.*?) \|.* \| (.*?) \|$", page, re.MULTILINE)
        resize = (
            " x ".join(map(str, made.resize)) if isinstance(made.resize, tuple) else made.resize
        )
        test = f"centre {made.size}" if isinstance(made, Photo) else row[1]
        assert row == (str(resize or "unchanged"), test)


@pytest.mark.parametrize("name", PHOTO)
def test_test_view_is_the_centre_crop(name):
    chosen = preset(name)
    images = pictures(chosen.resize)
    expected = torch.stack([center_crop(image, chosen.size) for image in images])
    assert torch.equal(chosen.centre(images), expected)
    views = chosen.augment(images, chance(len(images)))
    assert (views.shape, views.dtype) == (expected.shape, torch.uint8)


@pytest.mark.parametrize("name", [*PHOTO, "glyphs"])
def test_chance_comes_from_the_streams_alone(name):
    chosen = preset(name)
    images = pictures(chosen.resize) if chosen.resize else pictures(32, 1) * 6
    before = images[0].clone()
    torch.manual_seed(1)
    first = chosen.augment(images, chance(len(images), 5))
    assert torch.equal(images[0], before)
    torch.manual_seed(2)
    assert torch.equal(chosen.augment(images, chance(len(images), 5)), first)
    assert not torch.equal(chosen.augment(images, chance(len(images), 6)), first)
    state = torch.get_rng_state()
    chosen.augment(images, chance(len(images), 7))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("shape", [(160, 240), (300, 160), (160, 160), (160, 900), (700, 160)])
def test_random_crops_are_distributed_as_torchvision_draws_them(shape):
    scale = (0.16, 1.0)
    count = 4_000
    sides, centred = random_sides(
        torch.tensor([shape] * count), scale, (3 / 4, 4 / 3), chance(count)
    )
    torch.manual_seed(0)
    image = torch.empty(3, *shape)
    theirs = np.array(
        [RandomResizedCrop.get_params(image, scale, (3 / 4, 4 / 3))[2:] for _ in range(count)]
    )
    ours = sides.numpy()
    assert (ours >= 1).all()
    assert (ours <= np.array(shape)).all()
    for axis in (0, 1):
        assert ks_2samp(ours[:, axis], theirs[:, axis]).pvalue > 1e-4
    areas = ours.prod(1) / np.prod(shape)
    assert ks_2samp(areas, theirs.prod(1) / np.prod(shape)).pvalue > 1e-4
    if shape == (160, 160):
        assert not centred.all()


def test_an_image_too_long_for_any_crop_gets_the_largest_in_the_middle():
    shapes = torch.tensor([[10, 1000], [1000, 10]])
    sides, centred = random_sides(shapes, (0.9, 1.0), (3 / 4, 4 / 3), chance(2))
    assert sides.tolist() == [[10, 13], [13, 10]]
    assert centred.all()


def test_crops_are_resized_as_torchvision_does():
    images = pictures(160)
    corners = torch.tensor([[3, 7]] * 6)
    sides = torch.tensor([[150, 90], [60, 100], [128, 128], [20, 20], [129, 127], [157, 153]])
    mirrored = [False, True, True, False, True, False]
    views = crop_views(images, corners, sides, 128, mirrored)
    boxes = sides.tolist()
    for image, view, mirror, (height, width) in zip(images, views, mirrored, boxes, strict=True):
        crop = image[:, 3 : 3 + height, 7 : 7 + width]
        expected = resize(crop, [128, 128], InterpolationMode.BILINEAR, antialias=True)
        expected = expected.flip(2) if mirror else expected
        assert (view.int() - expected.int()).abs().max() <= 1


def test_simple_crops_do_not_resize():
    image = torch.arange(256 * 256, dtype=torch.int32).remainder(251).to(torch.uint8)
    image = image.view(1, 256, 256).expand(3, -1, -1)
    batch = preset("simple").augment([image] * 40, chance(40))
    windows = image[0].unfold(0, 227, 1).unfold(1, 227, 1).reshape(-1, 227, 227)
    flipped = 0
    for view in batch[:, 0]:
        straight = (windows[:, 0, :] == view[0]).all(1).any()
        mirrored = (windows[:, 0, :] == view[0].flip(0)).all(1).any()
        assert straight or mirrored
        flipped += int(mirrored and not straight)
    assert 8 <= flipped <= 32


def test_each_image_is_mirrored_with_probability_one_half():
    ramp = torch.arange(160, dtype=torch.uint8).expand(3, 160, 160)
    batch = preset("small").augment([ramp] * 1000, chance(1000)).int()
    mirrored = (batch[:, 0, 64, 0] > batch[:, 0, 64, -1]).float().mean()
    assert 0.42 < mirrored < 0.58


def test_images_smaller_than_the_crop_are_refused():
    with pytest.raises(ValueError, match="resize images first"):
        preset("small").centre(pictures(100))
    with pytest.raises(ValueError, match="resize images first"):
        preset("simple").augment(pictures(200), chance(6))


def test_normalisation_is_the_formula():
    batch = torch.randint(0, 256, (4, 3, 5, 6), dtype=torch.uint8)
    rule = Normalisation()
    mean, std = torch.tensor(rule.mean).view(3, 1, 1), torch.tensor(rule.std).view(3, 1, 1)
    expected = (batch / 255 - mean) / std
    for given in (batch, batch.float()):
        for memory_format in (torch.channels_last, torch.contiguous_format):
            found = rule(given, memory_format)
            torch.testing.assert_close(found, expected)
            assert found.is_contiguous(memory_format=memory_format)


def test_bn_inception_takes_blue_first_and_0_to_255():
    batch = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8)
    rule = Normalisation(mean=(104, 117, 128), std=(1, 1, 1), scale=1, bgr=True)
    out = rule(batch, torch.contiguous_format)
    torch.testing.assert_close(out[:, 0], batch[:, 2].float() - 104)
    torch.testing.assert_close(out[:, 2], batch[:, 0].float() - 128)


def test_grey_and_colour_meet_either_network():
    grey = torch.randint(0, 256, (2, 1, 4, 4), dtype=torch.uint8)
    spread = PLAIN(grey, torch.channels_last)
    assert spread.shape == (2, 3, 4, 4)
    assert torch.equal(spread[:, 2:], grey.float())
    spread[:, 0].zero_()
    assert torch.equal(spread[:, 2:], grey.float())
    colour = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8)
    one = Normalisation((0,), (1,), 1, channels=1)
    torch.testing.assert_close(
        one(colour, torch.contiguous_format), rgb_to_grayscale(colour.float()), atol=0.1, rtol=0
    )


@pytest.mark.parametrize("wrong", [{"channels": 2}, {"channels": 1}, {"mean": (0.0,)}])
def test_a_normalisation_that_does_not_fit_is_refused(wrong):
    with pytest.raises(BadInput):
        Normalisation(**wrong)


def test_glyphs_are_moved_a_little():
    images = load("glyphs")
    store = open_store(images, None)
    pixels = store.read_batch(np.flatnonzero(images.labels < 20))
    still = preset("glyphs").centre(pixels)
    assert torch.equal(still, torch.stack(pixels))
    moved = preset("glyphs").augment(pixels, chance(len(pixels)))
    assert moved.shape == still.shape
    assert not torch.equal(moved, still)
    ink = moved.sum((1, 2, 3)) / still.sum((1, 2, 3))
    assert ink.min() > 0.5
    assert ink.max() < 1.6


def test_glyphs_are_never_mirrored_and_moved_by_few_pixels():
    drawing = torch.zeros(1, 32, 32, dtype=torch.uint8)
    drawing[:, 14:18, 4:8] = 255
    moved = preset("glyphs").augment([drawing] * 500, chance(500))[:, 0]
    weight = moved / moved.sum((1, 2), keepdim=True)
    along = torch.arange(32.0)
    x, y = (weight.sum(1) @ along), (weight.sum(2) @ along)
    assert (x - 5.5).abs().max() < 5
    assert (y - 15.5).abs().max() < 5
    assert x.std() > 0.5
    assert y.std() > 0.5


def test_handwriting_is_moved_over_its_own_paper():
    drawing = torch.full((1, 64, 64), 255, dtype=torch.uint8)
    drawing[:, 28:36, 8:16] = 0
    moved = preset("handwriting").augment([drawing] * 100, chance(100))[:, 0]
    assert moved[:, [0, 0, -1, -1], [0, -1, 0, -1]].min() > 254  # no black corners
    ink = (255 - moved).sum((1, 2)) / (255 * 64)
    assert ink.min() > 0.7
    assert ink.max() < 1.4


def test_images_of_several_sizes_need_another_preset():
    with pytest.raises(BadInput, match="images of one size"):
        preset("none").centre(pictures(20))
    same = pictures(20, 1) * 3
    assert preset("none").augment(same, chance(len(same))).shape == (3, 3, 20, 20)


def test_an_unknown_preset_gets_the_nearest():
    with pytest.raises(BadInput, match="did you mean 'reality-check'"):
        preset("reality_check")


def test_colours_change_within_their_bounds():
    """Plain orange pictures stay plain; one in five is grey, the others keep near their colour."""
    orange = torch.tensor([200, 120, 40], dtype=torch.uint8).view(3, 1, 1).expand(3, 256, 256)
    batch = preset("colour").augment([orange] * 120, chance(120, 3)).float()
    spread = (batch.amax((2, 3)) - batch.amin((2, 3))).amax()
    assert spread <= 2  # of rounding
    seen = batch.mean((2, 3))
    grey = (seen.amax(1) - seen.amin(1)) < 2
    assert 10 <= grey.sum() <= 40
    luma = torch.tensor([0.299, 0.587, 0.114])
    assert ((seen[grey] @ luma) / (orange[:, 0, 0].float() @ luma)).sub(1).abs().max() < 0.25
    assert seen[~grey].std(0).min() > 5
    assert torch.equal(preset("colour").centre([orange]), preset("proxy-anchor").centre([orange]))


@pytest.mark.parametrize("name", ["reality-check", "simple", "colour", "glyphs", "none"])
def test_parts_of_a_batch_are_those_of_the_whole(name):
    chosen = preset(name)
    images = pictures(chosen.resize or 32)
    if chosen.resize is None:
        images = [image[:, :32, :32] for image in images]
    whole = chosen.augment(images, chance(len(images)))
    parts = [(0, 1), (1, 4), (4, 6)]
    made = [
        chosen.augment(images[start:stop], ImageRandom(0, 0, range(start, stop)))
        for start, stop in parts
    ]
    assert torch.equal(torch.cat(made), whole)


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """A module with transforms of one's own, right and wrong ones."""
    (tmp_path / "my_views.py").write_text(
        "import torch\n"
        "from torchvision.transforms import v2\n"
        "from lookalike.data import own_transform\n"
        "crops = own_transform(v2.RandomCrop(8), size=8, resize=12)\n"
        "large = own_transform(lambda image: image, size=8, resize=12)\n"
        "floats = own_transform(lambda image: image[:, :8, :8] / 255, size=8, resize=12)\n"
        "bare = v2.Compose([v2.ToImage(), v2.RandomCrop(8), v2.ColorJitter(0.5)])\n"
        "number = 3\n"
        "kind = v2.RandomCrop\n"
        "uncropped = v2.ColorJitter(0.5)\n"
        "failing = v2.RandomCrop(4000)\n"
        "normalised = v2.Compose([v2.RandomCrop(8), v2.ToDtype(torch.float32, scale=True)])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(("name", "resize"), [("crops", 12), ("bare", 9)])
def test_transforms_of_ones_own(own_module, name, resize):
    trust(f"my_views:{name}")
    own = preset(f"my_views:{name}")
    assert (own.name, own.resize, own.size) == (f"my_views:{name}", resize, 8)
    assert_own(own)


def test_albumentations(tmp_path, monkeypatch):
    pytest.importorskip("albumentations")
    (tmp_path / "my_album.py").write_text(
        "import albumentations as A\n"
        "views = A.Compose([A.RandomCrop(8, 8), A.HorizontalFlip(), A.ColorJitter()])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    trust("my_album:views")
    own = preset("my_album:views")
    assert (own.size, own.resize) == (8, 9)
    assert_own(own)


def assert_own(own):
    """Views depend on the streams of the images alone, in several threads too."""
    pixels = list(torch.randint(0, 255, (4, 3, 12, 12), dtype=torch.uint8))

    def batch(seed, first=0):
        return own.augment(pixels[first:], ImageRandom(seed, 0, range(first, 4)))

    before = torch.random.get_rng_state()
    assert torch.equal(batch(1), batch(1))
    assert not torch.equal(batch(1), batch(2))
    assert torch.equal(batch(1, 2), batch(1)[2:])  # a rank draws its part of the whole
    assert torch.equal(torch.random.get_rng_state(), before)
    assert own.centre(pixels).shape == (4, 3, 8, 8)
    assert type(own.augment(pixels, chance(4))) is torch.Tensor
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(batch, [1, 2] * 8))
    assert all(torch.equal(one, batch(1 + n % 2)) for n, one in enumerate(found))


def test_draws_are_those_of_the_global_generator_with_that_seed():
    image = torch.randint(0, 255, (3, 12, 12), dtype=torch.uint8)
    views = v2.Compose([v2.RandomResizedCrop(8), v2.RandAugment(), v2.AugMix(), v2.RandomErasing()])
    for seed in range(5):
        with SeededDraws(seed):
            drawn = views(image)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            assert torch.equal(drawn, views(image))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("number", "is int, not a function of one image"),
        ("kind", "is the class RandomCrop, not a function of one image"),
        ("uncropped", "makes 3 x 1024 x 1024 of an image .* must end in squares of one size"),
        ("failing", "fails on an image"),
        ("normalised", "leave pixels as uint8"),
        ("missing", "cannot import"),
        ("large", r"gave \(3, 12, 12\), not a tensor \(3, 8, 8\)"),
        ("floats", "leave pixels as uint8"),
    ],
)
def test_wrong_transforms_get_a_sentence(own_module, name, sentence):
    image = torch.zeros(3, 12, 12, dtype=torch.uint8)
    with pytest.raises(BadInput, match=sentence):
        trust(f"my_views:{name}")
        preset(f"my_views:{name}").augment([image], chance(1))
