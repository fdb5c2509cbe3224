import io

import numpy as np
import pytest
from PIL import Image

from lookalike.errors import LookalikeError
from lookalike.search import Embedder, Index
from lookalike.search.duplicates import calibrate, find_duplicates, threshold_for


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    """24 different drawings in four folders; one lies there again, re-saved and smaller."""
    folder = tmp_path_factory.mktemp("gallery")
    random = np.random.default_rng(8)
    for number in range(24):
        home = folder / "photos" / f"class{number % 4}"
        home.mkdir(parents=True, exist_ok=True)
        blocks = random.integers(0, 255, (5, 5, 3), np.uint8)
        Image.fromarray(blocks).resize((240, 200), Image.Resampling.BICUBIC).save(
            home / f"{number}.png"
        )
    with Image.open(folder / "photos" / "class1" / "5.png") as image:
        image.resize((180, 150)).save(folder / "photos" / "class2" / "again.jpg", quality=60)
    return Index.create(
        folder / "i", Embedder.from_network("efficientnet-lite0"), folder / "photos"
    )


def test_calibration_knows_copies_from_strangers(gallery):
    found = calibrate(gallery)
    assert found.found > 0.5
    assert found.false_alarms < 0.2
    assert found.copies + found.others == 65  # 13 pictures did not choose: four copies, a stranger


def test_groups_are_those_of_all_pairs(gallery):
    vectors = np.asarray(gallery.vectors)
    threshold = float(np.sort((vectors @ vectors.T)[np.triu_indices(len(vectors), 1)])[-12])
    linked = vectors @ vectors.T >= threshold
    for _ in range(len(vectors)):
        linked = (linked.astype(int) @ linked.astype(int)) > 0
    expected = {frozenset(np.flatnonzero(row)) for row in linked if row.sum() > 1}
    groups = find_duplicates(gallery, threshold)
    found = {frozenset(gallery.ids.tolist().index(i.id) for i in g.items) for g in groups}
    assert found == expected


def test_the_threshold_lets_few_strangers_pass():
    random = np.random.default_rng(0)
    strangers = random.uniform(0.2, 0.8, 1_000)
    chosen = threshold_for(random.uniform(0.75, 1, 1_000).astype(np.float32), strangers.tolist())
    assert (strangers >= chosen).mean() <= 0.01
    assert chosen < 0.81
    assert threshold_for(np.array([0.9, 0.8], np.float32), []) == pytest.approx(0.8)


def test_too_few_pictures_are_refused(tmp_path, embedder):
    buffer = io.BytesIO()
    Image.new("RGB", (170, 170)).save(buffer, "PNG")
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.png").write_bytes(buffer.getvalue())
    with pytest.raises(LookalikeError, match="4 readable pictures, and there are 1"):
        calibrate(Index.create(tmp_path / "i", embedder, tmp_path / "p"))
