import base64
import io

import numpy as np
import pytest
from PIL import Image

from lookalike.data import ImageSet, open_store
from lookalike.report.embeddings import Pictures, class_label, class_title


def opened(uri):
    head, _, data = uri.partition(",")
    return head, np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


@pytest.fixture
def pictures_of(tmp_path):
    """Pictures of images given as arrays [H, W, C]."""

    def make(arrays):
        count = len(arrays)
        images = ImageSet(
            name="made",
            files=tuple(f"{i}.png" for i in range(count)),
            labels=np.zeros(count, np.int64),
            class_names=("only",),
            test=np.ones(count, bool),
            decode=lambda index: arrays[index],
            fingerprint="made",
            stamp=f"made{[a.shape for a in arrays]}",
        )
        return Pictures(open_store(images, None, folder=tmp_path))

    return make


def noise(height, width, channels):
    return np.random.default_rng(0).integers(0, 256, (height, width, channels)).astype(np.uint8)


def test_tiny_pictures_keep_every_pixel(pictures_of):
    glyph = noise(32, 32, 1)
    head, pixels = opened(pictures_of([glyph]).uri(0, side=128))
    assert head == "data:image/png;base64"
    assert np.array_equal(pixels, glyph[:, :, 0])


def test_photos_become_small_and_keep_their_shape(pictures_of):
    pictures = pictures_of([noise(160, 320, 3)])
    head, pixels = opened(pictures.uri(0, side=128))
    assert head == "data:image/jpeg;base64"
    assert pixels.shape == (64, 128, 3)
    assert not pictures.are_tiny([0])


def test_single_characters_get_their_code():
    assert class_label("\u0301") == "\u25cc\u0301 0301"
    assert class_title("é") == "U+00E9 LATIN SMALL LETTER E WITH ACUTE"
    assert class_label("red_chair") == class_title("red_chair") == "red chair"
