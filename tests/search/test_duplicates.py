import io

import numpy as np
import pytest
from PIL import Image

from lookalike.errors import LookalikeError
from lookalike.search import Embedder, Index
from lookalike.search.duplicates import (
    _without_chains,
    calibrate,
    find_duplicates,
    threshold_for,
)


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
    # 13 pictures did not choose: four copies and a stranger each, unless that is a copy itself
    assert found.copies == 52
    assert found.others in (12, 13)


def test_a_copy_is_found_and_strangers_are_not(gallery):
    known = calibrate(gallery)
    (group,) = find_duplicates(gallery, known.threshold, calibration=known)
    assert {item.path for item in group.items} == {"class1/5.png", "class2/again.jpg"}
    assert 0.8 < group.confidence < 1
    assert group.labels_differ


def test_every_two_of_a_group_are_a_pair(gallery):
    vectors = np.asarray(gallery.vectors)
    cosines = vectors @ vectors.T
    threshold = float(np.sort(cosines[np.triu_indices(len(vectors), 1)])[-12])
    places = {id: place for place, id in enumerate(gallery.ids.tolist())}
    groups = [[places[i.id] for i in g.items] for g in find_duplicates(gallery, threshold)]
    members = [place for group in groups for place in group]
    assert len(members) == len(set(members))
    for group in groups:
        assert (cosines[np.ix_(group, group)] >= threshold - 1e-6).all()
    apart = set(range(len(vectors))) - set(members)
    assert all(cosines[a, b] < threshold for a in apart for b in apart if a != b)


def test_a_chain_is_no_group():
    sure = {(1, 2): (0.99, None), (2, 3): (0.98, None), (4, 5): (0.9, None)}
    assert sorted(map(sorted, _without_chains(sure))) == [[1, 2], [4, 5]]
    whole = sure | {(1, 3): (0.97, None)}
    assert sorted(map(sorted, _without_chains(whole))) == [[1, 2, 3], [4, 5]]


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
