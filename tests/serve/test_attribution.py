import numpy as np
import pytest
import torch
from PIL import Image

from lookalike import models
from lookalike.search import Blueprint, Embedder
from lookalike.serve.attribution import attribute, seen_part, shares, shifted


def embedder_with(pooling="avg", dim=0, transform="small"):
    torch.manual_seed(3)
    model = models.build("small-cnn", dim=dim, pooling=pooling)
    return Embedder(
        model, Blueprint(network="small-cnn", dim=dim, pooling=pooling, transform=transform)
    )


def unit(dim, seed=0):
    vector = np.random.default_rng(seed).normal(size=dim).astype(np.float32)
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("pooling", ["avg", "max", "avg+max", "gem"])
@pytest.mark.parametrize("dim", [0, 24])
def test_shares_add_up_to_the_similarity(picture, pooling, dim):
    """All poolings are homogeneous, so by Euler's theorem sum F dS/dF = S (there is no bias)."""
    embedder = embedder_with(pooling, dim)
    vector = unit(embedder.dim)
    batch = embedder.batch([embedder.prepare(picture())])
    (own,) = embedder.embed([picture()])
    found = shares(embedder, batch, vector)
    assert float(found.sum()) == pytest.approx(float(own @ vector), abs=2e-4)


def test_shares_of_average_pooling_are_products_place_by_place(picture):
    embedder = embedder_with()
    vector = unit(embedder.dim)
    batch = embedder.batch([embedder.prepare(picture())])
    features = embedder.model.features(batch)[0]
    length = float(features.mean((1, 2)).norm())
    rows, columns = features.shape[1:]
    naive = np.zeros((rows, columns))
    for row in range(rows):
        for column in range(columns):
            cell = features[:, row, column].numpy()
            naive[row, column] = float(cell @ vector) / (length * rows * columns)
    assert shares(embedder, batch, vector)[0].numpy() == pytest.approx(naive, abs=1e-5)


def test_the_place_that_matters_is_bright():
    """A vector that asks for what only the lower right corner shows finds it there."""
    embedder = embedder_with(transform="glyphs")
    blank = Image.new("RGB", (32, 32), "white")
    marked = blank.copy()
    marked.paste((255, 0, 0), (20, 20, 32, 32))
    with_mark = embedder.model(embedder.batch([embedder.prepare(marked)]))[0]
    without = embedder.model(embedder.batch([embedder.prepare(blank)]))[0]
    direction = (with_mark - without).numpy()
    found = attribute(embedder, marked, direction / np.linalg.norm(direction))
    rows, columns = found.shape
    row, column = np.unravel_index(found.argmax(), found.shape)
    assert row >= rows / 2
    assert column >= columns / 2


def test_the_map_has_twice_the_cells_and_the_same_sum(picture):
    embedder = embedder_with()
    vector = unit(embedder.dim)
    batch = embedder.batch([embedder.prepare(picture())])
    coarse = shares(embedder, batch, vector)[0]
    fine = attribute(embedder, picture(), vector)
    assert fine.shape == (2 * coarse.shape[0], 2 * coarse.shape[1])
    assert fine[::2, ::2] * 4 == pytest.approx(coarse.numpy(), abs=1e-5)
    assert fine.sum() == pytest.approx(float(coarse.sum()), abs=0.1)


def test_moving_a_picture():
    batch = torch.arange(16.0).reshape(1, 1, 4, 4)
    moved = shifted(batch, 1, 2)[0, 0]
    assert moved[0, 0] == batch[0, 0, 1, 2]
    assert moved[3].tolist() == batch[0, 0, 3, [2, 3, 3, 3]].tolist()


def test_the_box_is_the_centre_crop():
    embedder = embedder_with()  # short side 160, crop 128
    left, top, width, height = seen_part(embedder, Image.new("RGB", (400, 200)))
    assert (width, height) == pytest.approx((0.4, 0.8))
    assert (left, top) == pytest.approx((0.3, 0.1))
    assert seen_part(embedder_with(transform="glyphs"), Image.new("RGB", (9, 5))) == (0, 0, 1, 1)
    square = embedder_with(transform="simple-square")
    part = 227 / 256
    assert seen_part(square, Image.new("RGB", (400, 200))) == (
        (1 - part) / 2, (1 - part) / 2, part, part
    )  # fmt: skip
    assert square.prepare(Image.new("RGB", (400, 200))).shape == (3, 256, 256)
