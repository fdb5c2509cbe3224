import numpy as np
import pytest
from PIL import Image

from lookalike.search import Index

COLOURS = {"red": (220, 40, 30), "green": (30, 180, 60), "blue": (30, 60, 210)}


@pytest.fixture
def photos(tmp_path):
    """Four noisy pictures of each of three colours, one folder a colour."""
    random = np.random.default_rng(3)
    for name, colour in COLOURS.items():
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for number in range(4):
            pixels = np.array(colour) + random.normal(0, 20, (200, 180 + 10 * number, 3))
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{number}.png")
    return tmp_path / "photos"


@pytest.fixture
def index(tmp_path, embedder, photos):
    return Index.create(tmp_path / "colours.index", embedder, photos)
